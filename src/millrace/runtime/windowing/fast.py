"""What the quick paths share: the common windows, without an object or a call for each record but the user's own.

The common windows are the built-in ones of event time with their own trigger, no evictor, and an incremental
function. For those the trigger need not be asked: a record that comes before the end of its window only changes the
accumulator, and sets a timer if it is the window's first. So accumulators live in plain dicts for the time of an
epoch, and go to state at its end; everything rarer takes the general path. `choose.py` tells which windows these
are, and tests hold both paths against each other.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import length_hint
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.process import record_failed
from millrace.runtime.time_domain import TimeDomain
from millrace.state.timers import TimerTable

from .contents import AccumulatedContents
from .namespaces import Namespace
from .operator import MOST_RESULTS, WindowOperator
from .windows import TimeWindow


class FastWindowOperator(WindowOperator):
    """The base. Subclasses add records in `_add_each`, and do in `_due` what a time has come for.

    Timers that begin and end within an epoch are no state: `_look_again` notes a time for the current key in memory.
    What lives on at the end of the epoch gets a real timer then.
    """

    def open(self) -> None:
        super().open()
        assert isinstance(self._contents, AccumulatedContents)
        methods = self._contents.methods
        self._state = self._contents.state
        self._add_value, self._merge, self._result = methods.add, methods.merge, methods.result
        # None for a reduction, whose first record is its first accumulator.
        self._create = methods.create or _nothing

    def begin(self) -> None:
        # Without an epoch before this one there is nothing in state that could be asked for.
        self._may_hold = self.context.restored
        self._forget()
        super().begin()

    def _forget(self) -> None:
        """An epoch begins: what was kept in memory is in state now, or void."""
        # Time → the keys for which it was noted, and all such times as a heap.
        self._noted: dict[int, dict[Any, None]] = {}
        self._times: list[int] = []

    def end_of_epoch(self) -> None:
        self._save()
        super().end_of_epoch()

    def _save(self) -> None:
        """Write what is in memory into state."""
        raise NotImplementedError

    # --- records ------------------------------------------------------------------------------------------------

    def process(self, batch: Batch, side: int) -> None:
        if batch.timestamps is None:
            super().process(batch, side)  # It tells what is missing.
            return
        selector = self.selectors[side]
        rest, paired = iter(batch.values), iter(batch.values)
        records = zip(map(selector, rest), paired, batch.timestamps)  # noqa: B905 (strict costs time here)
        while True:
            try:
                self._add_each(records)
                if length_hint(paired):
                    raise RuntimeError("the key selector raised StopIteration")
                break
            except Exception as error:
                record_failed(self, batch.values, rest, paired, selector, error)
        self.flush_results()

    def _add_each(self, records: Any) -> None:
        """Add (key, record, timestamp) after (key, record, timestamp)."""
        raise NotImplementedError

    # --- time ---------------------------------------------------------------------------------------------------

    def _look_again(self, timestamp: int) -> None:
        """Have `_due` called for the current key once the watermark has reached a time."""
        noted = self._noted.get(timestamp)
        if noted is None:
            noted = self._noted[timestamp] = {}
            heappush(self._times, timestamp)
        noted[self.keys.key] = None

    def _due(self, timestamp: int) -> None:
        """A time has come for the current key."""
        raise NotImplementedError

    def _fire_windows(self, timers: TimerTable, until: int, domain: TimeDomain) -> None:
        """Timers, and what was noted, in the order of time; at the same time the timers first."""
        if timers is not self.event_timers:
            super()._fire_windows(timers, until, domain)
            return
        while True:
            noted, timer = self._times[0] if self._times else until + 1, timers.next_timestamp()
            first = noted if timer is None else min(noted, timer)
            if first > until:
                return
            super()._fire_windows(timers, first, domain)
            if self._times and self._times[0] == first:
                heappop(self._times)
                self._call_due(first, self._noted.pop(first))

    def _call_due(self, timestamp: int, noted: dict[Any, None]) -> None:
        keys = self.keys
        for keys.key in noted:
            try:
                self._due(timestamp)
            except UserCodeError:
                raise
            except Exception as error:
                raise UserCodeError.wrap(error, self.function, keys.key, "a window, for the key, of") from error
            if len(self.results) >= MOST_RESULTS:
                self.flush_results()

    def on_window_timer(self, timestamp: int, namespace: Namespace, domain: TimeDomain) -> None:
        noted = self._noted.get(timestamp)
        if noted is not None:
            noted.pop(self.keys.key, None)
        self._due(timestamp)

    # --- accumulators in state ------------------------------------------------------------------------------------

    def _read(self, namespace: Namespace) -> Any:
        """The accumulator that state has for the current key, or None."""
        if not self._may_hold:
            return None
        self._state.set_namespace(namespace)
        return self._state.value()

    def _write(self, namespace: Namespace, accumulator: Any) -> None:
        self._may_hold = True
        self._state.set_namespace(namespace)
        self._state.update(accumulator)

    def _erase(self, namespace: Namespace) -> None:
        if self._may_hold:
            self._state.set_namespace(namespace)
            self._state.clear()

    # --- results ----------------------------------------------------------------------------------------------

    def _emit_result(self, start: int, end: int, accumulator: Any) -> None:
        if self.spec.call is None:
            self.results.append(self._result(accumulator))
            self.stamps.append(end - 1)
        else:
            self.emit_window(TimeWindow(start, end), (start, end), [self._result(accumulator)])

    def _end_window(self, start: int, end: int) -> None:
        """The window is gone: its function gives back what it had of it."""
        if self._clear_function is not None:
            self.clear_function(TimeWindow(start, end), (start, end))


def _nothing() -> None:
    """No accumulator to begin with."""
