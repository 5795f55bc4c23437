"""What functions count and measure: the interfaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]


class Metric(ABC):  # noqa: B024 - a common name, as in PyFlink
    """What all metrics are."""


class Counter(Metric, ABC):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None: ...

    @abstractmethod
    def dec(self, n: int = 1) -> None: ...

    @abstractmethod
    def get_count(self) -> int: ...


class Meter(Metric, ABC):
    """Events per second, over the last while."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None: ...

    @abstractmethod
    def get_count(self) -> int:
        """All events so far."""


class Distribution(Metric, ABC):
    """The sum, count, minimum and maximum of reported numbers."""

    @abstractmethod
    def update(self, value: int) -> None: ...


class MetricGroup(ABC):
    """A named scope in which metrics are registered; the same name gives the same metric."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group inside this one; with ``extra`` a pair of groups, read as a key and its value."""

    @abstractmethod
    def counter(self, name: str) -> Counter: ...

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """A number that is asked for when it is needed."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter: ...

    @abstractmethod
    def distribution(self, name: str) -> Distribution: ...
