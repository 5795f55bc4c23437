"""The process functions of one input: ProcessFunction and KeyedProcessFunction."""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.contexts import ElementContext, KeyedTimerService, TimerService
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.operators.stateless import emit_results
from millrace.runtime.time_domain import TimeDomain


class ProcessOperator(Operator):
    """Runs a ProcessFunction: no key, no timers, but timestamps, the watermark and side outputs."""

    def open(self) -> None:
        super().open()
        self._context = ElementContext(self, TimerService(self))

    def process(self, batch: Batch, side: int) -> None:
        process_records(self, self.function.process_element, self._context, batch)


class KeyedProcessOperator(KeyedOperator):
    """Runs a KeyedProcessFunction."""

    def open(self) -> None:
        super().open()
        self._context = ElementContext(self, KeyedTimerService(self))
        self._on_timer = getattr(self.function, "on_timer", None)

    def process(self, batch: Batch, side: int) -> None:
        process_keyed(self, self.function.process_element, self._context, batch, self.selectors[0])

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        if self._on_timer is None:
            return
        found = self._on_timer(timestamp, self._context.for_timer(timestamp, domain))
        if found is not None:
            results.extend(found)


def process_records(operator: Operator, call: Callable[[Any, Any], Any], context: Any, batch: Batch) -> None:
    """Call a process function without key on each record."""
    if batch.timestamps is None:
        context._timestamp = None
        emit_results(operator, lambda value: call(value, context), batch)
        return
    stamps = iter(batch.timestamps)

    def stamped(value: Any) -> Any:
        context._timestamp = next(stamps)
        return call(value, context)

    emit_results(operator, stamped, batch)


def process_keyed(  # noqa: C901 (two loops and not one with a branch in it: this is the hot path)
    operator: KeyedOperator,
    call: Callable[[Any, Any], Any],
    context: Any,
    batch: Batch,
    selector: Callable[[Any], Any],
) -> None:
    """Call a keyed process function on each record: the hot path of stateful programs (benchmarks/README.md)."""
    results: list[Any] = []
    stamps: list[int] | None = None
    keys, values, extend = operator.keys, batch.values, results.extend
    rest = iter(values)
    if batch.timestamps is None:
        context._timestamp = None
        records = zip(map(selector, rest), values)  # noqa: B905 (strict costs time here)
        while True:
            try:
                for keys.key, value in records:
                    found = call(value, context)
                    if found is not None:
                        extend(found)
                break
            except Exception as error:
                operator.bad_record(values[len(values) - length_hint(rest) - 1], error)
    else:
        stamps = []
        stamped = zip(map(selector, rest), values, batch.timestamps)  # noqa: B905
        while True:
            try:
                for keys.key, value, context._timestamp in stamped:
                    found = call(value, context)
                    if found is not None:
                        extend(found)
                        missing = len(results) - len(stamps)
                        if missing:
                            stamps.extend([context._timestamp] * missing)
                break
            except Exception as error:
                del results[len(stamps) :]
                operator.bad_record(values[len(values) - length_hint(rest) - 1], error)
    if results:
        operator.emit(results, stamps)
