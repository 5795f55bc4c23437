"""Windows of a number of records."""

from __future__ import annotations

from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.serializer import TypeSerializer
from millrace.common.typeinfo import Types
from millrace.state.descriptors import ValueStateDescriptor

from ..serializers import CountWindowSerializer
from ..triggers import CountTrigger, PurgingTrigger, Trigger
from ..windows import CountWindow
from .base import WindowAssigner


class _CountWindows(WindowAssigner[Any, CountWindow]):
    """The records of each key are numbered; the number is state. Each window fires when it is full, and goes."""

    def __init__(self, window_size: int) -> None:
        self._window_size = _number(window_size, "size", self)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        # A full window gets no further record: without purging it would stay forever.
        return PurgingTrigger(CountTrigger(self._window_size))

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows):
    """Every so many records of a key are a window."""

    _count = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        return [CountWindow(_next_number(context, self._count) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindows):
    """Windows of so many records of a key, which begin with every so many."""

    _count = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size)
        self._window_slide = _number(window_slide, "slide", self)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        number = _next_number(context, self._count)
        last = number // self._window_slide
        first = max(0, -((self._window_size - 1 - number) // self._window_slide))
        return [CountWindow(window) for window in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


def _next_number(context: WindowAssigner.WindowAssignerContext, descriptor: ValueStateDescriptor) -> int:
    state = context.get_runtime_context().get_state(descriptor)
    number: int = state.value() or 0
    state.update(number + 1)
    return number


def _number(number: Any, what: str, who: object) -> int:
    if type(number) is not int or number <= 0:
        raise ProgramError(
            f"{type(who).__name__}: the {what} must be a positive number of records, got {number!r}."
        )
    return number
