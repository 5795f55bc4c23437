"""Built-in aggregations before the exchange: what one subtask has of a key and window crosses as one record.

Sums, minima and maxima of whole numbers come out the same however they are grouped, so the sender may begin with
them. What it has combined goes before the first window of it ends, or the epoch. The rest is forwarded as it is:
records of windows that have ended by its own watermark (the receiver's is never ahead of that, and decides which are
late), and those that it fails on (the window operator has the policy for them). It keeps nothing from epoch to epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint
from typing import Any

from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.base import Operator

# Combined records that may wait for the end of their windows. In BATCH mode none comes before the end of all.
_MOST_WAITING = 100_000

_NO_PANE: tuple[dict[Any, Any], int, int] = ({}, 0, 0)

# The first record of a key and pane, and the value so far.
_Entry = list[Any]


class WindowCombiner(Operator):
    """Combines records of a key whose timestamps lie in the same pane, so that they lie in the same windows.

    `size` and `step` are the windows', `pane` divides both. `field` reads the field of a record and `with_field` gives
    the record another value there.
    """

    def __init__(
        self,
        operation: str,
        selector: Callable[[Any], Any],
        field: Callable[[Any], int],
        with_field: Callable[[Any, int], Any],
        windows: tuple[int, int, int, int],
    ) -> None:
        super().__init__()
        self._operation = operation
        self._selector = selector
        self._field = field
        self._with_field = with_field
        self._size, self._step, self._pane, self._offset = windows

    def open(self) -> None:
        super().open()
        self._combine = {"sum": self._add_each, "min": self._least_of_each, "max": self._greatest_of_each}[
            self._operation
        ]

    def begin(self) -> None:
        # The start of a pane → key → entry.
        self._panes: dict[int, dict[Any, _Entry]] = {}

    def process(self, batch: Batch, side: int) -> None:
        values, stamps = batch.values, batch.timestamps
        if stamps is None:
            self.output.emit(batch)
            return
        rest, paired = iter(values), iter(values)
        records = zip(map(self._selector, rest), map(self._field, values), paired, stamps)  # noqa: B905
        try:
            self._combine(records)
            failed = len(values) - length_hint(paired)  # A selector that raises StopIteration ends the loop.
        except UserCodeError:
            raise
        except Exception:
            # Selector and field run ahead of what they are paired with by the record that they fail on.
            ahead = length_hint(rest) < length_hint(paired)
            failed = len(values) - length_hint(paired) - (0 if ahead else 1)
        if failed < len(values):
            self.output.emit(Batch(values[failed:], stamps[failed:]))
        if sum(map(len, self._panes.values())) >= _MOST_WAITING:
            self._flush()

    def _add_each(self, records: Any) -> None:
        pane, low, high = _NO_PANE
        for key, number, value, stamp in records:
            if not low <= stamp < high:
                pane, low, high = self._pane_at(value, stamp)
                if low == high:
                    continue
            entry = pane.get(key)
            if entry is None:
                pane[key] = [value, number]
            else:
                entry[1] += number

    def _least_of_each(self, records: Any) -> None:
        pane, low, high = _NO_PANE
        for key, number, value, stamp in records:
            if not low <= stamp < high:
                pane, low, high = self._pane_at(value, stamp)
                if low == high:
                    continue
            entry = pane.get(key)
            if entry is None:
                pane[key] = [value, number]
            elif number < entry[1]:
                entry[1] = number

    def _greatest_of_each(self, records: Any) -> None:
        pane, low, high = _NO_PANE
        for key, number, value, stamp in records:
            if not low <= stamp < high:
                pane, low, high = self._pane_at(value, stamp)
                if low == high:
                    continue
            entry = pane.get(key)
            if entry is None:
                pane[key] = [value, number]
            elif number > entry[1]:
                entry[1] = number

    def _pane_at(self, value: Any, stamp: int) -> tuple[dict[Any, _Entry], int, int]:
        """The pane of a timestamp, its start and end; none for a record that was forwarded."""
        start = stamp - (stamp - self._offset) % self._pane
        if stamp == MIN_TIMESTAMP or self._first_end(start) - 1 <= self.watermark:
            self.output.emit(Batch([value], [stamp]))
            return _NO_PANE
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = {}
        return pane, start, start + self._pane

    def _first_end(self, pane_start: int) -> int:
        """When the first window ends that holds a pane."""
        pane_end = pane_start + self._pane
        return pane_end + (self._offset + self._size - pane_end) % self._step

    def _flush(self, watermark: int = MAX_WATERMARK) -> None:
        """Send what belongs to windows that end by a watermark."""
        with_field = self._with_field
        for start in [start for start in self._panes if self._first_end(start) - 1 <= watermark]:
            pane = self._panes.pop(start)
            values = [with_field(first, number) for first, number in pane.values()]
            if values:
                self.output.emit(Batch(values, [start] * len(values)))

    def advance(self, watermark: int) -> None:
        self._flush(watermark)
        self.output.watermark(watermark)

    def end_of_epoch(self) -> None:
        self._flush()
        super().end_of_epoch()
