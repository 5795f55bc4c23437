"""Asynchronous calls to the outside world: many at a time, and none in flight when an epoch ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

from millrace.common.errors import short_repr
from millrace.common.time import MAX_WATERMARK
from millrace.runtime.batch import Batch
from millrace.runtime.call_pool import Call, CallPool
from millrace.runtime.failure import UserCodeError, resolve
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.own_state import restore_function

# Follows a group of calls where all inputs have gone idle.
_IDLE = None


class Caller:
    """One record's way through the user's function: attempts, pauses between them, and a limit for them all."""

    def __init__(self, function: Any, timeout_millis: int, strategy: Any, own_timeout: bool) -> None:
        self._invoke = resolve(function, "async_invoke")
        self._millis = timeout_millis
        self._late: Callable[[Any], Any] | None = function.timeout if own_timeout else None
        self._strategy = strategy
        predicate = None if strategy is None else strategy.get_retry_predicate()
        self._on_result = predicate and predicate.result_predicate()
        self._on_error = predicate and predicate.exception_predicate()

    async def answer(self, value: Any) -> list[Any]:
        """The results for a record, or an exception."""
        try:
            async with asyncio.timeout(self._millis / 1000) as limit:
                return await self._attempts(value)
        except TimeoutError:
            if not limit.expired():
                raise
        if self._late is None:
            raise TimeoutError(f"async_invoke gave no answer within {self._millis} ms")
        return _results(self._late(value), "timeout")

    async def _attempts(self, value: Any) -> list[Any]:
        attempt = 1
        while True:
            try:
                results = _results(await self._invoke(value), "async_invoke")
                if not self._again(attempt, self._on_result, results):
                    return results
            except Exception as error:
                if not self._again(attempt, self._on_error, error):
                    raise
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempt) / 1000)
            attempt += 1

    def _again(self, attempt: int, wanted: Callable[[Any], bool] | None, outcome: Any) -> bool:
        return wanted is not None and wanted(outcome) and self._strategy.can_retry(attempt)


def _results(found: Any, method: str) -> list[Any]:
    if found is None:
        return []
    if type(found) is not list:
        raise TypeError(f"{method} must give a list of results, and gave {short_repr(found)}")
    return found


class Stretch:
    """Calls whose results may not overtake those of another stretch, and the watermarks that follow them."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._calls: list[Call] = []
        self._finished: list[Call] = []
        self.open = 0
        self.size = 0
        self.signals: list[int | None] = []

    def add(self, batch: Batch) -> list[Call]:
        """The calls for a batch."""
        stamps = repeat(None) if batch.timestamps is None else batch.timestamps
        calls = [Call(value, stamp, self) for value, stamp in zip(batch.values, stamps)]  # noqa: B905 (repeat)
        self._calls += calls if self._ordered else ()
        self.open += len(calls)
        self.size += len(calls)
        return calls

    def finish(self, call: Call) -> None:
        """A call is finished."""
        self.open -= 1
        self._finished.append(call)

    def take(self) -> list[Call]:
        """The finished calls that may be handed on, in the order in which they may."""
        if self._ordered:
            return [] if self.open else self._calls
        taken, self._finished = self._finished, []
        return taken


class AsyncOperator(Operator):
    """Calls an AsyncFunction, at most `capacity` calls at a time.

    Ordered, each batch is a stretch of its own, and it is handed on as a whole once `capacity` further records have
    come: when that happens depends on the records alone, so that a task which is run again sends the same. Unordered,
    a stretch reaches from watermark to watermark, and its results are handed on as they come.
    """

    _pool: CallPool | None = None

    def __init__(
        self, function: Any, timeout_millis: int, capacity: int, strategy: Any, ordered: bool, own_timeout: bool
    ) -> None:
        super().__init__(function)
        self._timeout_millis = timeout_millis
        self._capacity = capacity
        self._strategy = strategy
        self._ordered = ordered
        self._own_timeout = own_timeout

    @property
    def pool(self) -> CallPool:
        """The calls and their loop; there from `open` on."""
        assert self._pool is not None
        return self._pool

    def open(self) -> None:
        caller = Caller(self.function, self._timeout_millis, self._strategy, self._own_timeout)
        self._pool = CallPool(self.function, self._capacity, caller.answer)
        self._stretches: deque[Stretch] = deque()
        restore_function(self.function, self.context.backends.operator, self.context.restored)
        opening = getattr(self.function, "open", None)
        if callable(opening):
            self._pool.run(opening, self.context.runtime_context)

    def close(self) -> None:
        if self._pool is None:
            return
        try:
            self._pool.drop()
            closing = getattr(self.function, "close", None)
            if callable(closing):
                self._pool.run(closing)
        finally:
            self._pool.close()

    def begin(self) -> None:
        self.pool.drop()  # What an attempt before this one has left: its answers must not count.
        self._stretches.clear()

    def process(self, batch: Batch, side: int) -> None:
        if self._ordered or not self._stretches or self._stretches[-1].signals:
            self._stretches.append(_Watched(self) if self.policy.action == "fail" else Stretch(self._ordered))
        self.pool.submit(self._stretches[-1].add(batch))
        if self._ordered:
            held = sum(stretch.size for stretch in self._stretches)
            while held - self._stretches[0].size >= self._capacity:
                held -= self._stretches[0].size
                self._finish_first()
        else:
            self.pool.run_until(lambda: not self.pool.waiting)
        self.pool.poll()
        if not self._ordered:
            self._emit_finished()

    def advance(self, watermark: int) -> None:
        self._follow(watermark)
        if watermark == MAX_WATERMARK:
            self._drain()

    def idle(self) -> None:
        self._follow(_IDLE)

    def end_of_epoch(self) -> None:
        self._drain()
        super().end_of_epoch()

    def _follow(self, signal: int | None) -> None:
        if self._stretches:
            self._stretches[-1].signals.append(signal)
        else:
            self._send(signal)

    def _send(self, signal: int | None) -> None:
        if signal is _IDLE:
            self.output.idle()
        else:
            self.output.watermark(signal)

    def _drain(self) -> None:
        while self._stretches:
            self._finish_first()

    def _finish_first(self) -> None:
        first = self._stretches[0]
        self.pool.run_until(lambda: not first.open)
        self._hand_on(first.take())
        self._leave_first()

    def _leave_first(self) -> None:
        for signal in self._stretches.popleft().signals:
            self._send(signal)

    def _emit_finished(self) -> None:
        """Unordered: hand on what is finished, as far as no watermark is in the way."""
        while self._stretches:
            first = self._stretches[0]
            self._hand_on(first.take())
            if first.open:
                return
            self._leave_first()

    def _hand_on(self, calls: list[Call]) -> None:
        values: list[Any] = []
        stamps: list[int] = []
        for call in calls:
            if call.error is not None:
                self.bad_record(call.value, call.error)
                continue
            values += call.results
            if call.stamp is not None:
                stamps += repeat(call.stamp, len(call.results))
        if values:
            self.emit(values, stamps or None)


class _Watched(Stretch):
    """A stretch in which the first error is the job's: nothing further is waited for."""

    def __init__(self, operator: AsyncOperator) -> None:
        super().__init__(operator._ordered)
        self._operator = operator

    def finish(self, call: Call) -> None:
        super().finish(call)
        if call.error is not None:
            operator = self._operator
            operator.pool.fail(UserCodeError.wrap(call.error, operator.function, call.value))
