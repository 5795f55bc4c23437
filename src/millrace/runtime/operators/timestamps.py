"""Timestamps and watermarks: from a WatermarkStrategy to what travels with the records."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import length_hint
from typing import Any

from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.common.watermark_strategy import WatermarkStrategy
from millrace.common.watermarks import BatchWatermarkGenerator, Watermark
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.saved_fields import restore_fields, saved_fields
from millrace.state.descriptors import ListStateDescriptor


class WatermarkProbe:
    """One generator at work on one split (or subtask): what it was given, what it said.

    Watermarks are made per chunk of records and not by the wall clock, so that a replay makes the same ones.
    A generator that speaks in `on_event` (a punctuated one) is heard at once, in the middle of the chunk.
    """

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self.generator = strategy.create_watermark_generator()
        self._idle_timeout = strategy.idle_timeout_ms
        self.last = MIN_TIMESTAMP
        self.idle = False
        self.active_at: int | None = None

    def emit_watermark(self, watermark: Watermark | int) -> None:
        """Called by the generator."""
        timestamp = watermark.timestamp if isinstance(watermark, Watermark) else watermark
        self.last = max(self.last, timestamp)
        self.idle = False

    def mark_idle(self) -> None:
        """Called by the generator."""
        self.idle = True

    def mark_active(self) -> None:
        """Called by the generator."""
        self.idle = False

    def observe(self, batch: Batch, now: int, emit: Callable[[Batch], None], spoke: Callable[[], None]) -> None:
        """Show the generator a chunk; `emit` and `spoke` are called in the order of records and watermarks."""
        assert batch.timestamps is not None
        self.idle = False
        self.active_at = now
        if isinstance(self.generator, BatchWatermarkGenerator):
            self.generator.on_batch(batch.timestamps)
            emit(batch)
        else:
            self._observe_each(batch, emit, spoke)
        self.generator.on_periodic_emit(self)
        spoke()

    def _observe_each(self, batch: Batch, emit: Callable[[Batch], None], spoke: Callable[[], None]) -> None:
        values, stamps = batch.values, batch.timestamps
        assert stamps is not None
        start = 0
        for index, (value, stamp) in enumerate(zip(values, stamps, strict=True)):
            before = self.last
            self.generator.on_event(value, stamp, self)
            if self.last > before:
                emit(Batch(values[start : index + 1], stamps[start : index + 1]))
                spoke()
                start = index + 1
        if start < len(values):
            emit(Batch(values[start:], stamps[start:]))

    def end_of_epoch(self, now: int) -> None:
        """No record came lately: let the generator speak, and see whether the idle time has passed."""
        self.generator.on_periodic_emit(self)
        if self._idle_timeout is not None:
            if self.active_at is None:
                self.active_at = now
            self.idle = self.idle or now - self.active_at >= self._idle_timeout

    def snapshot(self) -> list[Any]:
        """What must survive the epoch, as JSON: the generator's fields and what it said."""
        return [saved_fields(self.generator), self.last, self.idle, self.active_at]

    def restore(self, snapshot: list[Any], trusted: bool) -> None:
        """Go on from a snapshot. One that is not trusted must not hold a pickle."""
        fields, self.last, self.idle, self.active_at = snapshot
        restore_fields(self.generator, fields, trusted)


def common_watermark(saved: list[dict[str, Any]]) -> int:
    """How far event time was behind several subtasks, by what each had said: idle ones are left out, as downstream."""
    active = [entry["sent"] for entry in saved if not entry["idle"]]
    return min(active) if active else max((entry["sent"] for entry in saved), default=MIN_TIMESTAMP)


def announce(operator: Operator, watermark: int) -> None:
    """After rescaling nobody downstream knows how far event time is: tell them, before any record.

    It stands where the slowest of the old subtasks was that were not idle.
    """
    if operator.context.rescaled and watermark > MIN_TIMESTAMP:
        operator.output.watermark(watermark)


class TimestampAssigner:
    """Applies a strategy's timestamp assigner to chunks."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._assigner = strategy.timestamp_assigner
        self._extract = strategy.extract_timestamp

    def assign(self, batch: Batch) -> Batch:
        """The batch with its timestamps."""
        if self._extract is None:
            if batch.timestamps is None:
                # Flink gives such records Long.MIN_VALUE: "no timestamp".
                return Batch(batch.values, [MIN_TIMESTAMP] * len(batch.values))
            return batch
        before = batch.timestamps if batch.timestamps is not None else [MIN_TIMESTAMP] * len(batch.values)
        rest = iter(batch.values)
        try:
            stamps = list(map(self._extract, rest, before))
            if len(stamps) < len(batch.values):
                raise RuntimeError("the assigner raised StopIteration")
            if set(map(type, stamps)) - {int}:
                wrong = next(index for index, stamp in enumerate(stamps) if type(stamp) is not int)
                raise self._not_an_int(batch.values[wrong], stamps[wrong])
        except UserCodeError:
            raise
        except Exception as error:
            record = batch.values[len(batch.values) - length_hint(rest) - 1]
            raise UserCodeError.wrap(error, self._assigner, record, "the timestamp assigner") from error
        return Batch(batch.values, stamps)

    def _not_an_int(self, record: Any, stamp: Any) -> UserCodeError:
        error = TypeError(f"a timestamp is an int of milliseconds, not {type(stamp).__name__} ({stamp!r})")
        return UserCodeError.wrap(error, self._assigner, record, "the timestamp assigner")


class TimestampsOperator(Operator):
    """`assign_timestamps_and_watermarks` in the middle of a program: its watermarks replace those from upstream."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        super().__init__()
        self.strategy = strategy

    def open(self) -> None:
        self._assigner = TimestampAssigner(self.strategy)

    def restore(self) -> None:
        self._probe = WatermarkProbe(self.strategy)
        self._sent = MIN_TIMESTAMP
        self._was_idle = False
        self._saved = self.context.backends.operator.get_union_list_state(ListStateDescriptor("@watermarks"))
        saved = [json.loads(text) for text in self._saved.get()]
        if self.context.rescaled:
            self._sent = common_watermark(saved)
        elif saved:
            self._sent, self._was_idle = saved[0]["sent"], saved[0]["idle"]
            self._probe.restore(saved[0]["probe"], self.context.trusts_state)

    def begin(self) -> None:
        announce(self, self._sent)

    def process(self, batch: Batch, side: int) -> None:
        if batch.values:
            stamped = self._assigner.assign(batch)
            self._probe.observe(stamped, self.context.processing_time, self.output.emit, self._speak)

    def _speak(self) -> None:
        if self.context.batch_mode:
            return
        if self._probe.last > self._sent:
            self._sent = self._probe.last
            self.output.watermark(self._sent)
        elif self._probe.idle and not self._was_idle:
            self.output.idle()
        self._was_idle = self._probe.idle

    def advance(self, watermark: int) -> None:
        """Only the end of the input counts; what came from upstream spoke of other timestamps."""
        if watermark == MAX_WATERMARK:
            self._sent = watermark
            self.output.watermark(watermark)

    def idle(self) -> None:
        """Upstream's idleness says nothing about this operator's own clock."""

    def end_of_epoch(self) -> None:
        super().end_of_epoch()
        if self._sent < MAX_WATERMARK:
            self._probe.end_of_epoch(self.context.processing_time)
            self._speak()
        entry = {"probe": self._probe.snapshot(), "sent": self._sent, "idle": self._was_idle}
        self._saved.update([json.dumps(entry)])
