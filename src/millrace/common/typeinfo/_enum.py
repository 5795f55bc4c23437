"""Enumerations."""

from __future__ import annotations

from enum import Enum
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
        }

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        return values

    def _coerce_one(self, value: Any) -> Any:
        if isinstance(value, self.enum_class):
            return value
        raise self._mismatch(value)

    def __repr__(self) -> str:
        return f"Enum<{self.enum_class.__qualname__}>"
