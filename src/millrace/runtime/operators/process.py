"""The process functions of one input: ProcessFunction and KeyedProcessFunction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import length_hint
from typing import Any

from millrace.runtime.batch import Batch
from millrace.runtime.contexts import ElementContext, KeyedTimerService, TimerService
from millrace.runtime.failure import UserCodeError
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


def process_keyed(
    operator: KeyedOperator,
    call: Callable[[Any, Any], Any],
    context: Any,
    batch: Batch,
    selector: Callable[[Any], Any],
) -> None:
    """Call a keyed process function on each record."""
    results: list[Any] = []
    stamps: list[int] | None = None
    if operator.policy.action != "fail":
        call = _whole(call)
    rest, paired = iter(batch.values), iter(batch.values)
    if batch.timestamps is None:
        context._timestamp = None
        records = zip(map(selector, rest), paired)  # noqa: B905 (strict costs time here)
        run = partial(_call_each, operator.keys, records, call, context, results)
    else:
        stamps = []
        stamped = zip(map(selector, rest), paired, batch.timestamps)  # noqa: B905
        run = partial(_call_each_stamped, operator.keys, stamped, call, context, results, stamps)
    while True:
        try:
            run()
            if length_hint(paired):
                raise RuntimeError("the key selector raised StopIteration")
            break
        except Exception as error:
            record_failed(operator, batch.values, rest, paired, selector, error)
    if results:
        operator.emit(results, stamps)


def _call_each(keys: Any, records: Any, call: Callable[[Any, Any], Any], context: Any, results: list[Any]) -> None:
    """The hot path of stateful programs (benchmarks/README.md)."""
    extend = results.extend
    for keys.key, value in records:
        found = call(value, context)
        if found is not None:
            extend(found)


def _call_each_stamped(
    keys: Any, records: Any, call: Callable[[Any, Any], Any], context: Any, results: list[Any], stamps: list[int]
) -> None:
    """The same with timestamps."""
    extend = results.extend
    for keys.key, value, context._timestamp in records:
        found = call(value, context)
        if found is not None:
            extend(found)
            missing = len(results) - len(stamps)
            if missing:
                stamps.extend([context._timestamp] * missing)


def _whole(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The function with its results in a list: a record on which it fails half way then has none."""

    def called(value: Any, context: Any) -> Any:
        found = call(value, context)
        return found if found is None else list(found)

    return called


def record_failed(
    operator: KeyedOperator,
    values: list[Any],
    rest: Any,
    paired: Any,
    selector: Callable[[Any], Any],
    error: Exception,
) -> None:
    """A record failed. The selector runs ahead of what its keys are paired with by the record that it fails on."""
    record = values[len(values) - length_hint(rest) - 1]
    if length_hint(rest) < length_hint(paired):
        raise UserCodeError.wrap(error, selector, record, "the key selector") from error
    operator.bad_record(record, error)
