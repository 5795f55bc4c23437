"""Windows of one size, one after the other."""

from __future__ import annotations

from typing import Any

from millrace.common.time import DurationLike

from ..windows import TimeWindow
from .base import TimeWindowAssigner, WindowAssigner, positive, require_timestamp, within


class _TumblingWindows(TimeWindowAssigner):
    def __init__(self, size: int, offset: int = 0) -> None:
        self.size = positive(size, "size", self)
        self.offset = within(offset, self.size, "size", self)

    def _around(self, time: int) -> list[TimeWindow]:
        start = time - (time - self.offset) % self.size
        return [TimeWindow(start, start + self.size)]

    def __repr__(self) -> str:
        return self._show(self.size, self.offset)


class TumblingEventTimeWindows(_TumblingWindows):
    """Windows of a size, by the records' timestamps.

    >>> TumblingEventTimeWindows.of(10, 3).assign_windows("record", -8, None)
    [TimeWindow(start=-17, end=-7)]
    """

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingEventTimeWindows:
        return TumblingEventTimeWindows(size, offset)  # type: ignore[arg-type]

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext | None
    ) -> list[TimeWindow]:
        return self._around(require_timestamp(timestamp))

    def is_event_time(self) -> bool:
        return True


class TumblingProcessingTimeWindows(_TumblingWindows):
    """Windows of a size, by the processing time at which a record is handled: that of its epoch."""

    @staticmethod
    def of(size: DurationLike, offset: DurationLike | None = None) -> TumblingProcessingTimeWindows:
        return TumblingProcessingTimeWindows(size, offset)  # type: ignore[arg-type]

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self._around(context.get_current_processing_time())

    def is_event_time(self) -> bool:
        return False
