"""What the quick paths share: the common windows, without an object or a call for each record but the user's own.

The common windows are the built-in ones of event time with their own trigger, no evictor, and an incremental function. For
those the trigger need not be asked: a record that comes before the end of its window only changes the accumulator,
and sets a timer if it is the window's first. So accumulators live in plain dicts for the time of an epoch, and go to
state at its end; everything rarer takes the general path. `choose.py` tells which windows these are, and tests hold
both paths against each other.
"""

from __future__ import annotations

from operator import length_hint
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.operators.process import record_failed

from .contents import AccumulatedContents
from .namespaces import Namespace
from .operator import WindowOperator
from .windows import TimeWindow


class FastWindowOperator(WindowOperator):
    """The base. Subclasses add records in `_add_each`, and fire in `on_window_timer`."""

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
        raise NotImplementedError

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
