"""Triggers that fire again and again until a window ends."""

from __future__ import annotations

from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.time import DurationLike, to_millis
from millrace.common.typeinfo import Types
from millrace.state.api import ReducingState
from millrace.state.descriptors import ReducingStateDescriptor

from .base import Trigger, TriggerResult


class _ContinuousTrigger(Trigger[Any, Any]):
    """What both have: an interval, and the time of the next firing in state."""

    def __init__(self, interval: int) -> None:
        if to_millis(interval) <= 0:
            raise ProgramError(f"The interval of {type(self).__name__} must be positive, got {interval!r}.")
        self.interval = to_millis(interval)
        self.state_desc = ReducingStateDescriptor("trigger-fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        return True

    def _next_in(self, window: Any, time: int, state: ReducingState[int]) -> int:
        due: int = min(time + self.interval, window.max_timestamp())
        state.add(due)
        return due

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires every so often as the watermark goes, and at the end of the window."""

    @staticmethod
    def of(interval: DurationLike) -> ContinuousEventTimeTrigger:
        return ContinuousEventTimeTrigger(to_millis(interval))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        due = ctx.get_partitioned_state(self.state_desc).get()
        if due is not None:
            ctx.register_event_time_timer(due)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        # The end of the window has a timer of its own, which Flink leaves to fire for nothing.
        ctx.delete_event_time_timer(window.max_timestamp())
        state = ctx.get_partitioned_state(self.state_desc)
        due = state.get()
        if due is not None:
            ctx.delete_event_time_timer(due)
            state.clear()

    def register_next_fire_timestamp(
        self, time: int, window: Any, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fire again at the interval after `time`, or at the window's end if that is before."""
        ctx.register_event_time_timer(self._next_in(window, time, fire_timestamp_state))


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires every so often in processing time."""

    @staticmethod
    def of(interval: DurationLike) -> ContinuousProcessingTimeTrigger:
        return ContinuousProcessingTimeTrigger(to_millis(interval))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        due = ctx.get_partitioned_state(self.state_desc).get()
        if due is not None:
            ctx.register_processing_time_timer(due)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self.state_desc)
        due = state.get()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            state.clear()

    def register_next_fire_timestamp(
        self, time: int, window: Any, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fire again at the interval after `time`, or at the window's end if that is before."""
        due = self._next_in(window, time, fire_timestamp_state)
        if due > time:  # At the end of the window there is no next time; a timer for now would fire forever.
            ctx.register_processing_time_timer(due)
