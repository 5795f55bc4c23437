"""A trigger around a trigger: what fires is thrown away."""

from __future__ import annotations

from typing import Any

from millrace.common.errors import ProgramError

from .base import Trigger, TriggerResult


class PurgingTrigger(Trigger[Any, Any]):
    """Fires when the trigger in it does, and drops the contents of the window each time."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = require_trigger(nested_trigger, "PurgingTrigger")

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


def require_trigger(trigger: Any, who: str) -> Trigger[Any, Any]:
    """A trigger, and not its class."""
    if isinstance(trigger, Trigger):
        return trigger
    raise ProgramError(f"{who} takes a Trigger, not {trigger!r}.", action="Give an instance, such as CountTrigger(3).")
