"""The quick path of tumbling windows: one dict for each window, one look-up for each record."""

from __future__ import annotations

from heapq import heappush
from typing import Any

from millrace.common.time import MAX_WATERMARK
from millrace.runtime.failure import UserCodeError
from millrace.runtime.time_domain import TimeDomain

from .assigners import TumblingEventTimeWindows
from .assigners.base import require_timestamp
from .fast import FastWindowOperator
from .namespaces import Namespace
from .operator import MOST_RESULTS, WindowOperator
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
        super()._forget()
        # The start of a window → key → accumulator, of the windows that have not ended.
        self._panes: dict[int, dict[Any, Any]] = {}

    def _save(self) -> None:
        keys, update, size = self.keys, self._state.update, self._size
        for start, pane in self._panes.items():
            window = (start, start + size)
            self._state.set_namespace(window)
            for keys.key, accumulator in pane.items():
                update(accumulator)
                self.event_timers.add(keys.key, window, start + size - 1)
                self._keep_for_late(window)

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
            if end - 1 not in self._noted:
                self._noted[end - 1] = {}
                heappush(self._times, end - 1)
        return pane, start, end

    def _first(self, key: Any, start: int) -> Any:
        """The accumulator of a key's window at its first record of the epoch."""
        self.keys.key = key
        accumulator = self._read((start, start + self._size))
        if accumulator is not None:
            return accumulator
        return self._create()

    def _keep_for_late(self, window: Namespace) -> None:
        """The window of the current key is to live on after its end for the allowed lateness."""
        time = window[1] - 1 + self.spec.allowed_lateness
        if self.spec.allowed_lateness and time < MAX_WATERMARK:
            self.event_timers.add(self.keys.key, window, time)

    # --- time ---------------------------------------------------------------------------------------------------

    def _call_due(self, timestamp: int, noted: dict[Any, None]) -> None:
        """A window ends, and so far for all keys alike: those that have a timer have fired before."""
        end = timestamp + 1
        start = end - self._size
        keys = self.keys
        for keys.key, accumulator in self._panes.pop(start, {}).items():
            try:
                self._end(start, end, accumulator)
            except UserCodeError:
                raise
            except Exception as error:
                raise UserCodeError.wrap(error, self.function, keys.key, "a window, for the key, of") from error
            if len(self.results) >= MOST_RESULTS:
                self.flush_results()

    def on_window_timer(self, timestamp: int, namespace: Namespace, domain: TimeDomain) -> None:
        start, end = namespace
        if timestamp != end - 1:
            WindowOperator.on_window_timer(self, timestamp, namespace, domain)  # The end of the allowed lateness.
            return
        accumulator = self._panes.get(start, {}).pop(self.keys.key, None)
        if accumulator is None:
            accumulator = self._read(namespace)
        if accumulator is not None:
            self._end(start, end, accumulator)
        if not self.spec.allowed_lateness:
            self._erase(namespace)

    def _end(self, start: int, end: int, accumulator: Any) -> None:
        """The window of the current key ends."""
        self._emit_result(start, end, accumulator)
        if self.spec.allowed_lateness:
            self._write((start, end), accumulator)
            self._keep_for_late((start, end))
        else:
            self._end_window(start, end)
