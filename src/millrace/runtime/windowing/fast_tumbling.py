"""The quick path of tumbling windows: one dict for each window, one look-up for each record."""

from __future__ import annotations

from typing import Any

from millrace.common.time import MAX_WATERMARK
from millrace.runtime.time_domain import TimeDomain

from .assigners import TumblingEventTimeWindows
from .assigners.base import require_timestamp
from .fast import FastWindowOperator
from .namespaces import Namespace
from .spec import WindowSpec

_NO_PANE: tuple[dict[Any, Any], int, int] = ({}, 0, 0)


class TumblingWindowOperator(FastWindowOperator):
    """Tumbling windows of event time. A window that has fired, and lives on for late records, is in state alone."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assert isinstance(spec.assigner, TumblingEventTimeWindows)
        self._size = spec.assigner.size
        self._offset = spec.assigner.offset

    def _forget(self) -> None:
        # The start of a window → key → accumulator, of the windows that have not ended.
        self._panes: dict[int, dict[Any, Any]] = {}

    def _save(self) -> None:
        update, size = self._state.update, self._size
        for start, pane in self._panes.items():
            self._state.set_namespace((start, start + size))
            for self.keys.key, accumulator in pane.items():
                update(accumulator)

    def _add_each(self, records: Any) -> None:
        add = self._add_value
        pane, low, high = _NO_PANE
        for key, value, stamp in records:
            if not low <= stamp < high:
                pane, low, high = self._pane_at(stamp)
                if high == low:
                    self.keys.key = key
                    self._handle(value, stamp)
                    continue
            before = pane.get(key)
            if before is None:
                before = self._first(key, low)
                if before is None:
                    pane[key] = value
                    continue
            pane[key] = add(value, before)

    def _pane_at(self, stamp: int) -> tuple[dict[Any, Any], int, int]:
        """The accumulators of the window that a timestamp lies in, its start and end; no window if it has ended."""
        start = require_timestamp(stamp) - (stamp - self._offset) % self._size
        end = start + self._size
        if end - 1 <= self.watermark:
            return _NO_PANE
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = {}
        return pane, start, end

    def _first(self, key: Any, start: int) -> Any:
        """The accumulator of a key's window at its first record of the epoch."""
        self.keys.key = key
        namespace = (start, start + self._size)
        accumulator = self._read(namespace)
        if accumulator is not None:
            return accumulator
        last = start + self._size - 1
        self.event_timers.add(key, namespace, last)
        if self.spec.allowed_lateness and last + self.spec.allowed_lateness < MAX_WATERMARK:
            self.event_timers.add(key, namespace, last + self.spec.allowed_lateness)
        return self._create()

    def on_window_timer(self, timestamp: int, namespace: Namespace, domain: TimeDomain) -> None:
        start, end = namespace
        lateness = self.spec.allowed_lateness
        if timestamp != end - 1:
            super().on_window_timer(timestamp, namespace, domain)
            return
        accumulator = self._take(start, namespace)
        if accumulator is not None:
            self._emit_result(start, end, accumulator)
        if not lateness:
            self._erase(namespace)
            self._end_window(start, end)
        elif accumulator is not None:
            self._write(namespace, accumulator)

    def _take(self, start: int, namespace: Namespace) -> Any:
        """Out of memory, or from state."""
        pane = self._panes.get(start)
        if pane is not None:
            accumulator = pane.pop(self.keys.key, None)
            if not pane:
                del self._panes[start]
            if accumulator is not None:
                return accumulator
        return self._read(namespace)
