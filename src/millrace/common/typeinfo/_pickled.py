"""The type of everything that no other type describes."""

from __future__ import annotations

from typing import Any

from ._base import Column, TypeInformation


class PickledBytesTypeInfo(TypeInformation):
    """Type information of any Python object, None included: nothing is checked, durable forms are pickles.

    >>> PickledBytesTypeInfo().coerce_batch([1, "a", None])
    [1, 'a', None]
    """

    tag = "PICKLED_BYTE_ARRAY"

    def _args(self) -> tuple[Any, ...]:
        return ()

    def describe(self) -> str:
        return self.tag

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag}

    def uses_pickle(self) -> bool:
        return True

    def coerce_batch(self, values: list[Any]) -> list[Any]:
        return values

    def coerce(self, value: Any) -> Any:
        return value

    def _column(self, values: Column, nullable: bool = True) -> Column | None:
        return values

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        return values

    def _coerce_one(self, value: Any) -> Any:
        return value

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"
