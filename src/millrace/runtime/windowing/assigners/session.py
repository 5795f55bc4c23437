"""Windows that end when nothing came for a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.time import DurationLike, to_millis

from ..windows import TimeWindow
from .base import MergingWindowAssigner, TimeWindowAssigner, WindowAssigner, positive, require_timestamp


class SessionWindowTimeGapExtractor(ABC):
    """Tells how long a session waits behind a record, in milliseconds."""

    @abstractmethod
    def extract(self, element: Any) -> int: ...


class _SessionWindows(TimeWindowAssigner, MergingWindowAssigner[Any, TimeWindow]):
    """A record's own window is the gap behind it; windows that overlap or touch are one session."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


class _FixedSessionWindows(_SessionWindows):
    def __init__(self, session_gap: int) -> None:
        self.gap = positive(session_gap, "gap", self)

    def __repr__(self) -> str:
        return self._show(self.gap)


class _DynamicSessionWindows(_SessionWindows):
    def __init__(self, session_window_time_gap_extractor: Any) -> None:
        self._extract = _extractor(session_window_time_gap_extractor, self)

    def _gap(self, element: Any) -> int:
        gap = to_millis(self._extract(element))
        if gap <= 0:
            raise ProgramError(f"The dynamic session time gap must be positive, got {gap} ms.")
        return gap

    def __repr__(self) -> str:
        return self._show()


class EventTimeSessionWindows(_FixedSessionWindows):
    """Sessions by the records' timestamps, with one gap for all.

    >>> EventTimeSessionWindows.with_gap(10).assign_windows("record", 7, None)
    [TimeWindow(start=7, end=17)]
    """

    @staticmethod
    def with_gap(size: DurationLike) -> EventTimeSessionWindows:
        return EventTimeSessionWindows(size)  # type: ignore[arg-type]

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext | None
    ) -> list[TimeWindow]:
        return [TimeWindow(require_timestamp(timestamp), timestamp + self.gap)]

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeSessionWindows(_FixedSessionWindows):
    """Sessions by processing time, with one gap for all."""

    @staticmethod
    def with_gap(size: DurationLike) -> ProcessingTimeSessionWindows:
        return ProcessingTimeSessionWindows(size)  # type: ignore[arg-type]

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self.gap)]

    def is_event_time(self) -> bool:
        return False


class DynamicEventTimeSessionWindows(_DynamicSessionWindows):
    """Sessions by the records' timestamps; each record tells how long to wait behind it."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext | None
    ) -> list[TimeWindow]:
        return [TimeWindow(require_timestamp(timestamp), timestamp + self._gap(element))]

    def is_event_time(self) -> bool:
        return True


class DynamicProcessingTimeSessionWindows(_DynamicSessionWindows):
    """Sessions by processing time; each record tells how long to wait behind it."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self._gap(element))]

    def is_event_time(self) -> bool:
        return False


def _extractor(extractor: Any, who: object) -> Callable[[Any], Any]:
    method = getattr(extractor, "extract", extractor)
    if not callable(method) or isinstance(extractor, type):
        raise ProgramError(
            f"{type(who).__name__} takes a SessionWindowTimeGapExtractor or a callable of a record, not {extractor!r}."
        )
    return method  # type: ignore[no-any-return]
