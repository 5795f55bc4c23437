"""What the joins of two keyed inputs in event time share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.time import MIN_TIMESTAMP
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.joins.time_buffer import TimeBuffer
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.time_domain import TimeDomain

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class JoinInput:
    """What an operator has to know of one of its inputs.

    `outer` tells that a record without a partner is joined with None; `late` is the side output for records that come
    behind the watermark.
    """

    record_type: TypeInformation | None = None
    outer: bool = False
    late: OutputTag | None = None


class JoinContext:
    """`ctx` of a ProcessJoinFunction. One object serves all pairs: do not keep it."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.left: int | None = None
        self.right: int | None = None
        self.timestamp = MIN_TIMESTAMP

    def get_left_timestamp(self) -> int | None:
        """The left record's timestamp; None where an outer join found none."""
        return self.left

    def get_right_timestamp(self) -> int | None:
        """The right record's timestamp; None where an outer join found none."""
        return self.right

    def get_timestamp(self) -> int:
        """The result's timestamp."""
        return self.timestamp

    def output(self, tag: OutputTag, value: Any) -> None:
        """Send a record to a side output (`yield tag, value` does the same)."""
        self._operator.emit_side(tag, value, self.timestamp)


class TimedJoinOperator(KeyedOperator):
    """Base of the joins in event time: a buffer for each input, late records, results with their own timestamps.

    Subclasses say in `take` what a record does and in `on_timer` what the passing of time does; both give their
    pairs to `join`.
    """

    #: What the two buffers' states are called.
    names = ("left", "right")

    def __init__(self, function: Any, inputs: tuple[JoinInput, JoinInput]) -> None:
        super().__init__(function)
        self.inputs = inputs

    def open(self) -> None:
        super().open()
        keyed = self.backends.keyed
        self._buffers = tuple(
            TimeBuffer(self.keys, keyed.get_state(TimeBuffer.descriptor(name, side.record_type)))
            for name, side in zip(self.names, self.inputs, strict=True)
        )
        self._call: Callable[[Any, Any, Any], Any] = self.function.process_element
        self._context = JoinContext(self)
        self._dropped = self.context.metrics.counter("numLateRecordsDropped")
        self._results: list[Any] = []
        self._stamps: list[int] = []

    def restore(self) -> None:
        for buffer in self._buffers:
            buffer.forget()

    def finish_key(self) -> None:
        super().finish_key()
        for buffer in self._buffers:
            buffer.forget()

    # --- records ------------------------------------------------------------------------------------------

    def process(self, batch: Batch, side: int) -> None:
        keys = self._keys_of(batch.values, self.selectors[side])
        stamps = self._stamps_of(batch)
        self._results, self._stamps = [], []
        context, take, watermark = self.keys, self.take, self.watermark
        for key, value, timestamp in zip(keys, batch.values, stamps, strict=True):
            context.key = key
            if timestamp < watermark and self.is_too_late(side):
                self._too_late(side, value, timestamp)
            else:
                take(side, value, timestamp)
        self._emit_results()

    def take(self, side: int, value: Any, timestamp: int) -> None:
        """A record of the current key."""
        raise NotImplementedError

    def is_too_late(self, side: int) -> bool:
        """Whether records behind the watermark are left out."""
        return True

    def _keys_of(self, values: list[Any], selector: Callable[[Any], Any]) -> list[Any]:
        keys: list[Any] = []
        rest = iter(values)
        try:
            keys.extend(map(selector, rest))
            if length_hint(rest):
                raise RuntimeError("the key selector raised StopIteration")
        except Exception as error:
            raise UserCodeError.wrap(error, selector, values[len(keys)], "the key selector") from error
        return keys

    def _stamps_of(self, batch: Batch) -> list[int]:
        stamps = batch.timestamps or []
        if len(stamps) == len(batch.values) and MIN_TIMESTAMP not in stamps:
            return stamps
        record = batch.values[stamps.index(MIN_TIMESTAMP) if stamps else 0]
        error = ProgramError(
            "A join in event time needs a timestamp for each record, and this one has none.",
            action="Call assign_timestamps_and_watermarks(...) with a timestamp assigner in front of key_by(...).",
        )
        raise UserCodeError.wrap(error, self.function, record)

    def _too_late(self, side: int, value: Any, timestamp: int) -> None:
        tag = self.inputs[side].late
        if tag is None:
            self._dropped.inc()
        else:
            self.emit_side(tag, value, timestamp)

    # --- results ------------------------------------------------------------------------------------------

    def join(self, left: Any, right: Any, times: tuple[int | None, int | None], timestamp: int) -> None:
        """Give a pair to the user's function. Its results go out when the batch, or the watermark, is done with."""
        context, results = self._context, self._results
        context.left, context.right = times
        context.timestamp = timestamp
        before = len(results)
        try:
            found = self._call(left, right, context)
            if found is not None:
                results.extend(found)
        except Exception as error:
            del results[before:]
            self.bad_record((left, right), error)
        made = len(results) - before
        if made:
            self._stamps.extend([timestamp] * made)

    def _emit_results(self) -> None:
        results, stamps = self._results, self._stamps
        self._results, self._stamps = [], []
        if results:
            self.emit(results, stamps)

    def _fire(self, timers: Any, until: int, domain: TimeDomain) -> None:
        self._results, self._stamps = [], []
        super()._fire(timers, until, domain)
        self._emit_results()
