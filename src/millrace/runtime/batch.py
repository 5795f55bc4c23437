"""The unit of work: a list of records between two watermarks."""

from __future__ import annotations

from typing import Any


class Batch:
    """Records that an operator handles in one call, in order.

    `timestamps` runs beside `values`, or is None when no record of the batch has one. Neither list may be
    changed by the operator that receives it: another operator may be given the same lists.
    """

    __slots__ = ("timestamps", "values")

    def __init__(self, values: list[Any], timestamps: list[int] | None = None) -> None:
        self.values = values
        self.timestamps = timestamps

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Batch({self.values!r}, {self.timestamps!r})"
