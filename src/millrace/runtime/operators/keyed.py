"""The one primitive under everything with state: an operator that sees a key at a time, with state and timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.common.time import MAX_WATERMARK
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError, resolve
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.stateless import without
from millrace.runtime.time_domain import TimeDomain


class KeyedOperator(Operator):
    """Base of the keyed operators. Subclasses handle records in `process` and timers in `on_timer`."""

    keyed = True

    #: BATCH mode: a key's last timers fire. Those that they set are dropped, as in Flink: no end would be in sight.
    time_is_over = False

    selectors: tuple[Callable[[Any], Any], ...] = ()

    def open(self) -> None:
        self.backends = self.context.backends
        self.keys = self.backends.keyed.context
        self.event_timers = self.backends.timers.event
        self.processing_timers = self.backends.timers.processing
        super().open()

    def begin(self) -> None:
        self._fire(self.processing_timers, self.context.processing_time, TimeDomain.PROCESSING_TIME)

    def advance(self, watermark: int) -> None:
        self._fire(self.event_timers, watermark, TimeDomain.EVENT_TIME)
        self.output.watermark(watermark)

    def _fire(self, timers: Any, until: int, domain: TimeDomain) -> None:
        """Fire what is due, in order; a timer that a callback sets for a time that is due fires as well."""
        results: list[Any] = []
        stamps: list[int] | None = [] if domain == TimeDomain.EVENT_TIME else None
        while (timer := timers.pop_due(until)) is not None:
            timestamp, _, self.keys.key, namespace = timer
            before = len(results)
            try:
                self.on_timer(timestamp, namespace, domain, results)
            except UserCodeError:
                raise
            except Exception as error:
                raise UserCodeError.wrap(
                    error, self.function, self.keys.key, f"on_timer({timestamp}), for the key, of"
                ) from error
            if stamps is not None:
                stamps.extend([timestamp] * (len(results) - before))
        if results:
            self.emit(results, stamps)

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        """A timer of the current key fired; append to `results`."""
        raise NotImplementedError

    def finish_key(self) -> None:
        """BATCH mode: the key's records are complete, so time ends for it: its timers fire, its state goes."""
        watermark, self.watermark, self.time_is_over = self.watermark, MAX_WATERMARK, True
        try:
            self._fire(self.event_timers, MAX_WATERMARK, TimeDomain.EVENT_TIME)
            self._fire(self.processing_timers, MAX_WATERMARK, TimeDomain.PROCESSING_TIME)
        finally:
            self.watermark, self.time_is_over = watermark, False
        for table in self.backends.keyed.tables():
            table.reset()


class ReduceOperator(KeyedOperator):
    """Rolling reduce: combines each record with what was combined so far for its key.

    STREAMING mode emits each intermediate result, BATCH mode only the last one of each key. The built-in
    aggregations (sum, min, max, ...) are reductions too.
    """

    _reduce: Callable[[Any, Any], Any]

    def __init__(self, function: Any, descriptor: Any) -> None:
        super().__init__(function)
        self._descriptor = descriptor

    def open(self) -> None:
        super().open()
        self._reduce = resolve(self.function, "reduce")
        self._state = self.backends.keyed.get_state(self._descriptor)
        self._stamp: int | None = None

    def process(self, batch: Batch, side: int) -> None:
        if self.context.batch_mode:
            self._reduce_key(batch)
            return
        results: list[Any] = []
        failed: list[int] = []
        keys, reduce = self.keys, self._reduce
        current, update, put = self._state.value, self._state.update, results.append
        records = zip(map(self.selectors[0], batch.values), batch.values)  # noqa: B905
        value = None
        while True:
            try:
                for keys.key, value in records:
                    so_far = current()
                    if so_far is not None:
                        value = reduce(so_far, value)  # noqa: PLW2901
                    update(value)
                    put(value)
                break
            except Exception as error:
                index = len(results) + len(failed)
                self.bad_record(batch.values[index], error)
                failed.append(index)
        self.output.emit(Batch(results, without(batch.timestamps, failed)))

    def _reduce_key(self, batch: Batch) -> None:
        state, stamps = self._state, batch.timestamps
        self.keys.key = self.selectors[0](batch.values[0])
        so_far = state.value()
        for value in batch.values:
            try:
                so_far = value if so_far is None else self._reduce(so_far, value)
            except Exception as error:
                self.bad_record(value, error)
        state.update(so_far)
        if stamps is not None:
            self._stamp = stamps[-1]

    def finish_key(self) -> None:
        if self.context.batch_mode:
            result = self._state.value()
            if result is not None:
                self.output.emit(Batch([result], None if self._stamp is None else [self._stamp]))
            self._stamp = None
        super().finish_key()

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        """Reductions set no timers."""
