"""Window assigners: they tell which windows a record belongs to."""

from .base import MergingWindowAssigner, WindowAssigner
from .count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from .global_windows import GlobalWindows
from .session import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from .sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from .tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
]
