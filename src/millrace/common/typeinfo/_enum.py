"""Enumerations."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any

from ..errors import ProgramError
from ._base import Column, TypeInformation


class EnumTypeInfo(TypeInformation):
    """Type information of an ``enum.Enum``. Durable forms hold names: a member's value may change, its name not.

    >>> from millrace.common import RowKind
    >>> EnumTypeInfo(RowKind)
    Enum<RowKind>
    """

    tag = "ENUM"

    def __init__(self, enum_class: type[Enum]) -> None:
        if not (isinstance(enum_class, type) and issubclass(enum_class, Enum)):
            raise ProgramError(f"Types.ENUM needs a subclass of enum.Enum, got {enum_class!r}")
        self.enum_class = enum_class
        self._exact = frozenset({enum_class})

    def _args(self) -> tuple[Any, ...]:
        return (self.enum_class,)

    def describe(self) -> str:
        return f"ENUM({self.enum_class.__qualname__})"

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.tag,
            "module": self.enum_class.__module__,
            "qualname": self.enum_class.__qualname__,
            **_members(self.enum_class),
        }

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        return values

    def _coerce_one(self, value: Any) -> Any:
        if isinstance(value, self.enum_class):
            return value
        raise self._mismatch(value)

    def __repr__(self) -> str:
        return f"Enum<{self.enum_class.__qualname__}>"


def _members(cls: type[Enum]) -> dict[str, Any]:
    """The members by name, and by value where members equal their values or are made of bits."""
    members = [member for name, member in cls.__members__.items() if member.name == name]
    names = [member.name for member in members]
    base = next((kind for kind in (int, str) if issubclass(cls, kind)), None)
    if base is None and not issubclass(cls, Flag):
        return {"members": names}
    said = {"flag": True} if issubclass(cls, Flag) else {}
    plain = str if base is str else int
    return {
        "members": names,
        **said,
        **({"base": base.__name__} if base else {}),
        "values": [plain(member.value) for member in members],
    }
