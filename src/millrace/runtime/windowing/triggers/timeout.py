"""A trigger around a trigger: a window does not wait longer than so."""

from __future__ import annotations

from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.time import DurationLike, to_millis
from millrace.common.typeinfo import Types
from millrace.state.descriptors import ValueStateDescriptor

from .base import Trigger, TriggerResult
from .purging import require_trigger


class ProcessingTimeoutTrigger(Trigger[Any, Any]):
    """Fires when the trigger in it does or, after the first record, when a time has passed without that.

    With `reset_timer_on_new_record` each record begins the wait anew. With `should_clear_on_timeout` (the default) the
    trigger in it forgets what it remembers when the time has passed.
    """

    def __init__(
        self,
        nested_trigger: Trigger[Any, Any],
        timeout: DurationLike,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> None:
        self.nested_trigger = require_trigger(nested_trigger, "ProcessingTimeoutTrigger")
        self._timeout_ms = to_millis(timeout)
        if self._timeout_ms < 0:
            raise ProgramError(f"The timeout of a ProcessingTimeoutTrigger is not negative, got {timeout!r}.")
        self._reset = reset_timer_on_new_record
        self._clear_on_timeout = should_clear_on_timeout
        self._due = ValueStateDescriptor("trigger-timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger[Any, Any],
        timeout: DurationLike,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        return ProcessingTimeoutTrigger(nested_trigger, timeout, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        state = ctx.get_partitioned_state(self._due)
        due = state.value()
        if due is not None and self._reset:
            ctx.delete_processing_time_timer(due)
            due = None
        if due is None:
            due = ctx.get_current_processing_time() + self._timeout_ms
            state.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed_out(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed_out(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def _timed_out(self, result: TriggerResult, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._due)
        due = state.value()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            state.clear()
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"ProcessingTimeoutTrigger({self.nested_trigger!r}, {self._timeout_ms})"
