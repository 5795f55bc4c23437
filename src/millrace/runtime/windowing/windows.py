"""Windows as values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from millrace.common.time import MAX_WATERMARK


class Window(ABC):
    """A finite part of a stream. Windows of one assigner are told apart by equality, and so need a hash."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that still belongs to the window."""


@dataclass(frozen=True, order=True)
class TimeWindow(Window):
    """The time from `start` on, up to but without `end`, in milliseconds.

    >>> TimeWindow(0, 10).intersects(TimeWindow(10, 20)), TimeWindow(0, 10).cover(TimeWindow(10, 20))
    (True, TimeWindow(start=0, end=20))
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Where the window of this size begins that `timestamp` lies in.

        >>> [TimeWindow.get_window_start_with_offset(stamp, 0, 10) for stamp in (-1, 0, 19)]
        [-10, 0, 10]
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Any) -> None:
        """Call `callback.merge(parts, merged)` for every group of windows that overlap or touch.

        A plain callable of the same two arguments will do.
        """
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(windows):
            if groups and groups[-1][0].intersects(window):
                merged, parts = groups[-1]
                groups[-1] = (merged.cover(window), [*parts, window])
            else:
                groups.append((window, [window]))
        merge = getattr(callback, "merge", callback)
        for merged, parts in groups:
            if len(parts) > 1:
                merge(parts, merged)


@dataclass(frozen=True)
class CountWindow(Window):
    """A window of a number of records."""

    id: int

    def max_timestamp(self) -> int:
        return MAX_WATERMARK


@dataclass(frozen=True)
class GlobalWindow(Window):
    """The one window that holds everything."""

    @staticmethod
    def get() -> GlobalWindow:
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return MAX_WATERMARK
