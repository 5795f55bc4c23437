"""BATCH mode's way into a keyed operator: key by key, each key's records in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError

# side, timestamp, value
_Record = tuple[int, int | None, Any]


class KeyedBatchInput:
    """Gathers one key group's records (the exchange delivers group after group), then hands them on sorted.

    Memory holds the records of one key group, never those of all keys. Records of an input without key (the
    broadcast side) are handed on as they come: the exchange puts them first.
    """

    def __init__(
        self,
        selectors: tuple[Callable[[Any], Any], ...],
        emit: Callable[[Batch, int], None],
        finish_key: Callable[[], None],
    ) -> None:
        self._selectors = selectors
        self._emit = emit
        self._finish_key = finish_key
        self._keys: dict[Any, list[_Record]] = {}

    def add(self, batch: Batch, side: int) -> None:
        """Records of one input."""
        if side >= len(self._selectors):
            self._emit(batch, side)
            return
        selector = self._selectors[side]
        stamps: Any = batch.timestamps if batch.timestamps is not None else [None] * len(batch.values)
        for value, stamp in zip(batch.values, stamps, strict=True):
            try:
                key = selector(value)
            except Exception as error:
                raise UserCodeError.wrap(error, selector, value, "the key selector") from error
            self._keys.setdefault(key, []).append((side, stamp, value))

    def finish_group(self) -> None:
        """The group is complete: hand it on."""
        keys, self._keys = self._keys, {}
        for records in keys.values():
            if all(stamp is not None for _, stamp, _ in records):
                records.sort(key=lambda record: record[1])  # type: ignore[arg-type,return-value]
            for side, batch in _runs(records):
                self._emit(batch, side)
            self._finish_key()


def _runs(records: list[_Record]) -> list[tuple[int, Batch]]:
    """Cut a key's records where the input changes, or where timestamps begin or end."""
    runs: list[tuple[int, Batch]] = []
    kind: tuple[int, bool] | None = None
    for side, stamp, value in records:
        if kind != (side, stamp is not None):
            kind = (side, stamp is not None)
            runs.append((side, Batch([], None if stamp is None else [])))
        batch = runs[-1][1]
        batch.values.append(value)
        if batch.timestamps is not None and stamp is not None:
            batch.timestamps.append(stamp)
    return runs
