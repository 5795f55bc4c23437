"""What a job is called."""

from __future__ import annotations

import os
import re

from .errors import ProgramError

__all__ = ["JobID"]


class JobID:
    """The identity of a job: 128 bits, random unless given, written as 32 hexadecimal digits.

    >>> JobID("0123456789abcdef0123456789abcdef")
    JobID(0123456789abcdef0123456789abcdef)
    >>> JobID() == JobID()
    False
    """

    __slots__ = ("_hex",)

    def __init__(self, hex_string: str | None = None) -> None:
        self._hex = os.urandom(16).hex() if hex_string is None else hex_string.lower()
        if not re.fullmatch("[0-9a-f]{32}", self._hex):
            raise ProgramError(f"{hex_string!r} is not a job id", action="Give 32 hexadecimal digits.")

    @staticmethod
    def generate() -> JobID:
        return JobID()

    @staticmethod
    def from_hex_string(hex_string: str) -> JobID:
        return JobID(hex_string)

    def to_hex_string(self) -> str:
        return self._hex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._hex == other._hex

    def __hash__(self) -> int:
        return hash(self._hex)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID({self._hex})"
