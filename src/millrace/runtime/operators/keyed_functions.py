"""map, filter and flat_map on a keyed stream: functions of a record that may use the state of its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.contexts import ElementContext, KeyedTimerService
from millrace.runtime.failure import resolve
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.operators.process import process_keyed
from millrace.runtime.time_domain import TimeDomain


class KeyedFunctionOperator(KeyedOperator):
    """The base: calls a function of one record with the key set."""

    method = ""

    def open(self) -> None:
        super().open()
        self._context = ElementContext(self, KeyedTimerService(self))
        self._call = self._adapted(resolve(self.function, self.method))

    def _adapted(self, call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        """The function as one that takes a context and gives back results."""
        raise NotImplementedError

    def process(self, batch: Batch, side: int) -> None:
        process_keyed(self, self._call, self._context, batch, self.selectors[0])

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        """These functions set no timers."""


class KeyedMapOperator(KeyedFunctionOperator):
    """Runs a MapFunction."""

    method = "map"

    def _adapted(self, call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda value, _context: (call(value),)


class KeyedFilterOperator(KeyedFunctionOperator):
    """Runs a FilterFunction."""

    method = "filter"

    def _adapted(self, call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda value, _context: (value,) if call(value) else None


class KeyedFlatMapOperator(KeyedFunctionOperator):
    """Runs a FlatMapFunction."""

    method = "flat_map"

    def _adapted(self, call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda value, _context: call(value)
