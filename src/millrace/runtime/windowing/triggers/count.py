"""A trigger that counts."""

from __future__ import annotations

from operator import add
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import Types
from millrace.state.descriptors import ReducingStateDescriptor

from .base import Trigger, TriggerResult


class CountTrigger(Trigger[Any, Any]):
    """Fires with every so many records of a window. The contents stay; a PurgingTrigger around it drops them."""

    def __init__(self, window_size: int) -> None:
        if type(window_size) is not int or window_size <= 0:
            raise ProgramError(f"CountTrigger takes a positive number of records, got {window_size!r}.")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("trigger-count", add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"
