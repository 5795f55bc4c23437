"""Evictors: they take records out of a window, before or after its function has seen them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.metrics import MetricGroup
from millrace.common.time import MIN_TIMESTAMP, DurationLike, to_millis

from .triggers.delta import delta_of


@dataclass(frozen=True)
class TimestampedValue:
    """A record of a window with its timestamp, or with Long.MIN_VALUE where it has none."""

    value: Any
    timestamp: int = MIN_TIMESTAMP

    def get_value(self) -> Any:
        return self.value

    def get_timestamp(self) -> int:
        return self.timestamp

    def has_timestamp(self) -> bool:
        return self.timestamp != MIN_TIMESTAMP


class Evictor(ABC):
    """Takes elements out of the list that it is given; in place, as with `del elements[:2]`. They are gone for good."""

    class EvictorContext(ABC):
        """What an evictor may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_metric_group(self) -> MetricGroup: ...

        @abstractmethod
        def get_current_watermark(self) -> int: ...

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        """The window's function is about to see these elements."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: EvictorContext
    ) -> None:
        """The window's function has seen these elements."""


class _OneSidedEvictor(Evictor):
    """Evicts before the function or, with `do_evict_after`, after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        if not self._after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        if self._after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None: ...


class CountEvictor(_OneSidedEvictor):
    """Keeps the last so many elements.

    >>> elements = [TimestampedValue(number) for number in range(5)]
    >>> CountEvictor.of(2).evict_before(elements, 5, None, None)
    >>> [element.value for element in elements]
    [3, 4]
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if type(max_count) is not int or max_count < 0:
            raise ProgramError(f"CountEvictor takes a number of records, got {max_count!r}.")
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(len(elements) - self._max_count, 0)]


class TimeEvictor(_OneSidedEvictor):
    """Keeps what is less than a span of time behind the newest element."""

    def __init__(self, window_size: DurationLike, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._span = to_millis(window_size)
        if self._span < 0:
            raise ProgramError(f"The span of a TimeEvictor is not negative, got {window_size!r}.")

    @staticmethod
    def of(window_size: DurationLike, do_evict_after: bool = False) -> TimeEvictor:
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements or not elements[0].has_timestamp():
            return
        cutoff = max(element.timestamp for element in elements) - self._span
        elements[:] = [element for element in elements if element.timestamp > cutoff]


class DeltaEvictor(_OneSidedEvictor):
    """Keeps what is nearer than the threshold to the last element, by a function of the two."""

    def __init__(self, threshold: float, delta_function: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_of(delta_function, "DeltaEvictor")

    @staticmethod
    def of(threshold: float, delta_function: Any, do_evict_after: bool = False) -> DeltaEvictor:
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [element for element in elements if self._delta(element.value, last) < self._threshold]
