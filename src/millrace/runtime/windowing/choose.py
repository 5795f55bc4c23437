"""Which operator runs a program's windows: the quick path of its kind, or the general one."""

from __future__ import annotations

from .assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from .contents import Incremental
from .fast_session import SessionWindowOperator
from .fast_sliding import SlidingWindowOperator
from .fast_tumbling import TumblingWindowOperator
from .operator import WindowOperator
from .spec import WindowSpec
from .triggers import EventTimeTrigger


def window_operator(spec: WindowSpec) -> WindowOperator:
    """The operator for these windows. Subclasses of the built-in parts may do anything, and take the general path."""
    assigner = type(spec.assigner)
    if spec.incremental is None or spec.evictor is not None or type(spec.trigger) is not EventTimeTrigger:
        return WindowOperator(spec)
    if assigner is TumblingEventTimeWindows:
        return TumblingWindowOperator(spec)
    if spec.allowed_lateness:
        return WindowOperator(spec)
    if assigner is EventTimeSessionWindows:
        return SessionWindowOperator(spec)
    if assigner is SlidingEventTimeWindows and spec.assigner.slide <= spec.assigner.size:  # type: ignore[attr-defined]
        return SlidingWindowOperator(spec) if _can_merge(spec.incremental) else WindowOperator(spec)
    return WindowOperator(spec)


def _can_merge(incremental: Incremental) -> bool:
    """Whether `merge` is more than a stub: many programs have one that raises, or returns nothing."""
    if not incremental.aggregates:
        return True
    function = incremental.function
    try:
        return function.merge(function.create_accumulator(), function.create_accumulator()) is not None
    except Exception:
        return False
