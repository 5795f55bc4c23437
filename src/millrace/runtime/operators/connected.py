"""Operators of two inputs: CoMap, CoFlatMap, CoProcess and KeyedCoProcess functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.contexts import ElementContext, KeyedTimerService, TimerService
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.operators.process import process_keyed, process_records
from millrace.runtime.operators.stateless import call_each, emit_results, without
from millrace.runtime.time_domain import TimeDomain


class CoMapOperator(Operator):
    """Runs a CoMapFunction: `map1` on the first input, `map2` on the second."""

    def process(self, batch: Batch, side: int) -> None:
        call = self.function.map2 if side else self.function.map1
        results, failed = call_each(self, call, batch.values)
        self.output.emit(Batch(results, without(batch.timestamps, failed)))


class CoFlatMapOperator(Operator):
    """Runs a CoFlatMapFunction: `flat_map1` on the first input, `flat_map2` on the second."""

    def process(self, batch: Batch, side: int) -> None:
        emit_results(self, self.function.flat_map2 if side else self.function.flat_map1, batch)


class CoProcessOperator(Operator):
    """Runs a CoProcessFunction on two streams without keys."""

    def open(self) -> None:
        super().open()
        self._context = ElementContext(self, TimerService(self))

    def process(self, batch: Batch, side: int) -> None:
        call = self.function.process_element2 if side else self.function.process_element1
        process_records(self, call, self._context, batch)


class KeyedTwoInputOperator(KeyedOperator):
    """Base of keyed operators whose two inputs are handled by two methods of the function."""

    #: The function's methods for the first and the second input.
    methods: tuple[str, str] = ("", "")

    def open(self) -> None:
        super().open()
        self._context = ElementContext(self, KeyedTimerService(self))
        self._calls = tuple(self._callable(method) for method in self.methods)

    def _callable(self, method: str) -> Callable[[Any, Any], Any]:
        return getattr(self.function, method)  # type: ignore[no-any-return]

    def process(self, batch: Batch, side: int) -> None:
        process_keyed(self, self._calls[side], self._context, batch, self.selectors[side])

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        on_timer = getattr(self.function, "on_timer", None)
        if on_timer is None:
            return
        found = on_timer(timestamp, self._context.for_timer(timestamp, domain))
        if found is not None:
            results.extend(found)


class KeyedCoProcessOperator(KeyedTwoInputOperator):
    """Runs a KeyedCoProcessFunction."""

    methods = ("process_element1", "process_element2")


class KeyedCoMapOperator(KeyedTwoInputOperator):
    """Runs a CoMapFunction on two keyed streams: it may use keyed state."""

    methods = ("map1", "map2")

    def _callable(self, method: str) -> Callable[[Any, Any], Any]:
        call = getattr(self.function, method)
        return lambda value, context: (call(value),)


class KeyedCoFlatMapOperator(KeyedTwoInputOperator):
    """Runs a CoFlatMapFunction on two keyed streams: it may use keyed state."""

    methods = ("flat_map1", "flat_map2")

    def _callable(self, method: str) -> Callable[[Any, Any], Any]:
        call = getattr(self.function, method)
        return lambda value, context: call(value)
