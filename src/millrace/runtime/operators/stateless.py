"""map, filter and flat_map: one list in, one list out, the loop in C."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, repeat
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.failure import resolve
from millrace.runtime.operators.base import Operator


class MapOperator(Operator):
    """Calls a MapFunction (or a callable) on every record."""

    _call: Callable[[Any], Any]

    def open(self) -> None:
        super().open()
        self._call = resolve(self.function, "map")

    def process(self, batch: Batch, side: int) -> None:
        results, failed = call_each(self, self._call, batch.values)
        self.output.emit(Batch(results, without(batch.timestamps, failed)))


class FilterOperator(Operator):
    """Keeps the records for which a FilterFunction (or a callable) says yes."""

    _call: Callable[[Any], Any]

    def open(self) -> None:
        super().open()
        self._call = resolve(self.function, "filter")

    def process(self, batch: Batch, side: int) -> None:
        verdicts, failed = call_each(self, self._call, batch.values)
        values = list(compress(without(batch.values, failed), verdicts))
        stamps = without(batch.timestamps, failed)
        if values:
            self.output.emit(Batch(values, None if stamps is None else list(compress(stamps, verdicts))))


class FlatMapOperator(Operator):
    """Calls a FlatMapFunction (or a callable), which gives back any number of results, or None."""

    _call: Callable[[Any], Any]

    def open(self) -> None:
        super().open()
        self._call = resolve(self.function, "flat_map")

    def process(self, batch: Batch, side: int) -> None:
        emit_results(self, self._call, batch)


def call_each(operator: Operator, call: Callable[[Any], Any], values: list[Any]) -> tuple[list[Any], list[int]]:
    """The results of a function on all values, and the places of those that it failed on.

    `extend` over `map` runs the loop in C and keeps what was made before an exception; its length tells which
    record it was. A function that raises StopIteration ends the loop silently, hence the check.
    """
    results: list[Any] = []
    failed: list[int] = []
    rest = iter(values)
    while True:
        try:
            results.extend(map(call, rest))
            if len(results) + len(failed) == len(values):
                return results, failed
            error: Exception = StopIteration("a user's function raised StopIteration")
        except Exception as raised:
            error = raised
        index = len(results) + len(failed)
        operator.bad_record(values[index], error)
        failed.append(index)


def without(items: Any, indexes: list[int]) -> Any:
    """The list without some places (None stays None)."""
    if items is None or not indexes:
        return items
    gone = set(indexes)
    return [item for index, item in enumerate(items) if index not in gone]


def emit_results(operator: Operator, call: Callable[[Any], Any], batch: Batch) -> None:
    """Emit what a function yields for each record; results take the record's timestamp."""
    results: list[Any] = []
    stamps: list[int] | None = None if batch.timestamps is None else []
    timestamps = repeat(None) if batch.timestamps is None else batch.timestamps
    records = zip(batch.values, timestamps)  # noqa: B905 (repeat has no end)
    value = None
    while True:
        kept = len(results)
        try:
            for value, timestamp in records:
                kept = len(results)
                found = call(value)
                if found is not None:
                    results.extend(found)
                    if stamps is not None:
                        stamps.extend(repeat(timestamp, len(results) - kept))  # type: ignore[arg-type]
            break
        except Exception as error:
            del results[kept:]
            operator.bad_record(value, error)
    operator.emit(results, stamps)
