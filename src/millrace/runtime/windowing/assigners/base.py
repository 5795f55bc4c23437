"""What a window assigner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from millrace.common.errors import ProgramError
from millrace.common.serializer import TypeSerializer
from millrace.common.time import MIN_TIMESTAMP, DurationLike, to_millis
from millrace.runtime.context import RuntimeContext

from ..serializers import TimeWindowSerializer
from ..triggers import Trigger
from ..triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from ..windows import TimeWindow

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to zero, one or more windows. A window begins with its first record; none is ever empty."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Where the operator runs, and state of the current key."""

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[W]:
        """The windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """When the windows fire if the program does not say."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W] | None:
        """How the windows are written into state. With None they are pickled."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether the windows end by the watermark. Only then can a record be late."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """Gives each record a window of its own, and merges windows into larger ones."""

    class MergeCallback(ABC, Generic[W2]):
        """Takes what is to be merged."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """These windows become that one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Call `callback.merge` for each group of windows that become one."""


class TimeWindowAssigner(WindowAssigner[Any, TimeWindow]):
    """What the assigners of time windows share."""

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()

    def _show(self, *spans: int) -> str:
        return f"{type(self).__name__}({', '.join(map(str, spans))})"


NO_TIMESTAMP = (
    "Record has Long.MIN_VALUE timestamp (= no timestamp marker). Did you forget to call "
    "'assign_timestamps_and_watermarks(...)'?"
)


def require_timestamp(timestamp: int) -> int:
    """A record's timestamp; `ProgramError` if it has none."""
    if timestamp == MIN_TIMESTAMP:
        raise ProgramError(NO_TIMESTAMP, action="Assign timestamps in front of event-time windows.")
    return timestamp


def positive(span: DurationLike, what: str, who: object) -> int:
    """A span of time in milliseconds, more than none."""
    millis = to_millis(span)
    if millis <= 0:
        raise ProgramError(f"{type(who).__name__}: the {what} must be positive, got {millis} ms.")
    return millis


def within(offset: DurationLike | None, span: int, what: str, who: object) -> int:
    """An offset in milliseconds, shorter than the span."""
    millis = 0 if offset is None else to_millis(offset)
    if abs(millis) >= span:
        raise ProgramError(
            f"{type(who).__name__}: parameters must satisfy abs(offset) < {what}, "
            f"got an offset of {millis} ms and a {what} of {span} ms."
        )
    return millis
