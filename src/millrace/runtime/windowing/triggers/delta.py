"""A trigger that looks at how far records are from each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation
from millrace.state.descriptors import ValueStateDescriptor

from .base import Trigger, TriggerResult


class DeltaTrigger(Trigger[Any, Any]):
    """Fires when a record is further than the threshold from the one that fired last (or else from the first).

    `delta_function(old, new)` tells how far; a DeltaFunction with `get_delta` will do. `type_info` is the type of
    the record that is remembered.
    """

    def __init__(self, threshold: float, delta_function: Any, type_info: TypeInformation | None = None) -> None:
        self._threshold = threshold
        self._delta = delta_of(delta_function, "DeltaTrigger")
        self._last = ValueStateDescriptor("trigger-last-element", type_info)

    @staticmethod
    def of(threshold: float, delta_function: Any, type_info: TypeInformation | None = None) -> DeltaTrigger:
        return DeltaTrigger(threshold, delta_function, type_info)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(self._last)
        before = last.value()
        if before is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self._delta(before, element) <= self._threshold:
            return TriggerResult.CONTINUE
        last.update(element)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"


def delta_of(function: Any, who: str) -> Callable[[Any, Any], float]:
    """The callable in a delta function."""
    method = getattr(function, "get_delta", function)
    if not callable(method):
        raise ProgramError(f"{who} takes a callable of two records, or an object with get_delta, not {function!r}.")
    return method  # type: ignore[no-any-return]
