"""Windows of one size that begin every so often, and so overlap."""

from __future__ import annotations

from typing import Any

from millrace.common.time import DurationLike

from ..windows import TimeWindow
from .base import TimeWindowAssigner, WindowAssigner, positive, require_timestamp, within


class _SlidingWindows(TimeWindowAssigner):
    """With a slide that is larger than the size, some records belong to no window and are dropped."""

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        self.size = positive(size, "size", self)
        self.slide = positive(slide, "slide", self)
        self.offset = within(offset, self.slide, "slide", self)

    def _around(self, time: int) -> list[TimeWindow]:
        """The windows around a point of time, the last one first, as in Flink."""
        last = time - (time - self.offset) % self.slide
        return [TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide)]

    def __repr__(self) -> str:
        return self._show(self.size, self.slide, self.offset)


class SlidingEventTimeWindows(_SlidingWindows):
    """Windows of a size every slide, by the records' timestamps.

    >>> SlidingEventTimeWindows.of(10, 5).assign_windows("record", 7, None)
    [TimeWindow(start=5, end=15), TimeWindow(start=0, end=10)]
    """

    @staticmethod
    def of(size: DurationLike, slide: DurationLike, offset: DurationLike | None = None) -> SlidingEventTimeWindows:
        return SlidingEventTimeWindows(size, slide, offset)  # type: ignore[arg-type]

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext | None
    ) -> list[TimeWindow]:
        return self._around(require_timestamp(timestamp))

    def is_event_time(self) -> bool:
        return True


class SlidingProcessingTimeWindows(_SlidingWindows):
    """Windows of a size every slide, by processing time."""

    @staticmethod
    def of(
        size: DurationLike, slide: DurationLike, offset: DurationLike | None = None
    ) -> SlidingProcessingTimeWindows:
        return SlidingProcessingTimeWindows(size, slide, offset)  # type: ignore[arg-type]

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self._around(context.get_current_processing_time())

    def is_event_time(self) -> bool:
        return False
