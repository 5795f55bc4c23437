"""The trigger of global windows."""

from __future__ import annotations

from typing import Any

from .base import Trigger, TriggerResult


class NeverTrigger(Trigger[Any, Any]):
    """Never fires."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Nothing is remembered, and so nothing merged."""

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Nothing is remembered."""
