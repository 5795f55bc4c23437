"""The quick path of sliding windows: each record is added once, and windows share what they have in common.

Time is cut into panes as long as the greatest common divisor of size and slide, so that each window is a row of whole
panes. A window that fires merges its panes, in the order of time. A pane goes with the last window that it is part of.
"""

from __future__ import annotations

from copy import deepcopy
from math import gcd
from typing import Any

from .assigners import SlidingEventTimeWindows
from .assigners.base import require_timestamp
from .contents import WINDOW_PANES
from .fast import FastWindowOperator
from .spec import WindowSpec

_NO_PANE: tuple[dict[Any, Any], int, int] = ({}, 0, 0)

# Values that a merge function cannot change.
_FIXED = frozenset({int, float, str, bytes, bool, type(None)})


class SlidingWindowOperator(FastWindowOperator):
    """Sliding windows of event time that take no late records.

    A key is looked at again when the first window ends that holds one of its panes, and then at the next.
    """

    contents_name = WINDOW_PANES

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assert isinstance(spec.assigner, SlidingEventTimeWindows)
        self._size = spec.assigner.size
        self._slide = spec.assigner.slide
        self._offset = spec.assigner.offset
        self._pane = gcd(self._size, self._slide)

    def _forget(self) -> None:
        super()._forget()
        # The start of a pane → key → accumulator, of what this epoch has touched.
        self._panes: dict[int, dict[Any, Any]] = {}

    def _save(self) -> None:
        keys, update = self.keys, self._state.update
        for start, pane in self._panes.items():
            self._state.set_namespace((start, start + self._pane))
            for keys.key, accumulator in pane.items():
                update(accumulator)
        for timestamp, noted in self._noted.items():
            window = (timestamp + 1 - self._size, timestamp + 1)
            for key in noted:
                self.event_timers.add(key, window, timestamp)

    def _add_each(self, records: Any) -> None:
        add = self._add_value
        pane, low, high = _NO_PANE
        for key, value, stamp in records:
            if not low <= stamp < high:
                pane, low, high = self._pane_at(stamp)
                if high == low:
                    self.drop_late(value, stamp)
                    continue
            before = pane.get(key)
            if before is None:
                before = self._first(key, low)
                if before is None:
                    pane[key] = value
                    continue
            pane[key] = add(value, before)

    def _pane_at(self, stamp: int) -> tuple[dict[Any, Any], int, int]:
        """The accumulators of the pane that a timestamp lies in, its start and end; none if all windows have ended."""
        start = require_timestamp(stamp) - (stamp - self._offset) % self._pane
        if self._last_start(start) + self._size - 1 <= self.watermark:
            return _NO_PANE
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = {}
        return pane, start, start + self._pane

    def _last_start(self, pane_start: int) -> int:
        """Where the last window begins that holds a pane."""
        return pane_start - (pane_start - self._offset) % self._slide

    def _first(self, key: Any, pane_start: int) -> Any:
        """The accumulator of a key's pane at its first record of the epoch."""
        self.keys.key = key
        accumulator = self._read((pane_start, pane_start + self._pane))
        if accumulator is not None:
            return accumulator
        last = self._last_start(pane_start)
        # The first window that holds the pane and has not ended.
        earliest = max(pane_start + self._pane, self.watermark + 2) - self._size
        start = last - (last - earliest) // self._slide * self._slide
        self._look_again(start + self._size - 1)
        return self._create()

    def _due(self, timestamp: int) -> None:
        """A window of the current key ends."""
        end = timestamp + 1
        start = end - self._size
        going = start + self._slide
        merged, any_stays = None, False
        for pane_start in range(start, end, self._pane):
            accumulator = self._look_at(pane_start, goes=pane_start < going)
            if accumulator is None:
                continue
            any_stays = any_stays or pane_start >= going
            accumulator = _own(accumulator)
            merged = accumulator if merged is None else self._merge(merged, accumulator)
        if merged is not None:
            self._emit_result(start, end, merged)
        self._end_window(start, end)
        if any_stays:
            self._look_again(timestamp + self._slide)

    def _look_at(self, pane_start: int, goes: bool) -> Any:
        """A pane of the current key. One that goes is taken out."""
        key, namespace = self.keys.key, (pane_start, pane_start + self._pane)
        pane = self._panes.get(pane_start)
        accumulator = None
        if pane is not None:
            accumulator = pane.pop(key, None) if goes else pane.get(key)
            if not pane:
                del self._panes[pane_start]
        if accumulator is None:
            accumulator = self._read(namespace)
        if goes:
            self._erase(namespace)
        return accumulator


def _own(accumulator: Any) -> Any:
    """An accumulator that a merge function may change: the pane still needs its own."""
    kind = type(accumulator)
    if kind in _FIXED or (kind is tuple and _FIXED.issuperset(map(type, accumulator))):
        return accumulator
    return deepcopy(accumulator)
