"""Metrics that functions register: counters, meters, distributions and gauges, in named groups.

A subtask reports what was counted in an epoch; the driver adds it up once the epoch is safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.common import metrics


class Counter(metrics.Counter):
    """Counts up and down."""

    def __init__(self) -> None:
        self._count = 0
        self._reported = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count

    def report(self) -> tuple[str, Any]:
        """What was counted since the last report."""
        news, self._reported = self._count - self._reported, self._count
        return ("counter", news)


class Meter(metrics.Meter):
    """Counts events; the driver knows their rate from the epochs' times."""

    def __init__(self, time_span_in_seconds: int = 60) -> None:
        self.time_span_in_seconds = time_span_in_seconds
        self._counter = Counter()

    def mark_event(self, value: int = 1) -> None:
        self._counter.inc(value)

    def get_count(self) -> int:
        return self._counter.get_count()

    def report(self) -> tuple[str, Any]:
        """The events since the last report."""
        return ("meter", self._counter.report()[1])


class Distribution(metrics.Distribution):
    """Keeps count, sum, minimum and maximum of integer values."""

    def __init__(self) -> None:
        self._values: tuple[int, int, int, int] | None = None

    def update(self, value: int) -> None:
        if self._values is None:
            self._values = (1, value, value, value)
        else:
            count, total, least, most = self._values
            self._values = (count + 1, total + value, min(least, value), max(most, value))

    def report(self) -> tuple[str, Any]:
        """What was seen since the last report."""
        seen, self._values = self._values, None
        return ("distribution", seen)


class _Gauge:
    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def report(self) -> tuple[str, Any]:
        return ("gauge", self._read())


class OperatorMetricGroup(metrics.MetricGroup):
    """The metrics of one operator's function."""

    def __init__(self, scope: tuple[str, ...] = (), registry: dict[str, Any] | None = None) -> None:
        self._scope = scope
        self._registry: dict[str, Any] = {} if registry is None else registry

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetricGroup:
        parts = (name,) if extra is None else (name, extra)
        return OperatorMetricGroup((*self._scope, *parts), self._registry)

    def _register(self, name: str, metric: Any) -> Any:
        return self._registry.setdefault(".".join((*self._scope, name)), metric)

    def counter(self, name: str) -> Counter:
        return self._register(name, Counter())  # type: ignore[no-any-return]

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        self._register(name, _Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._register(name, Meter(time_span_in_seconds))  # type: ignore[no-any-return]

    def distribution(self, name: str) -> Distribution:
        return self._register(name, Distribution())  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        """What all metrics report."""
        return {name: metric.report() for name, metric in self._registry.items()}


def merge_metrics(known: dict[str, Any], news: dict[str, Any]) -> None:
    """Add a subtask's report to what is known: counts are added up, the last gauge counts."""
    for name, (kind, value) in news.items():
        before = known.get(name)
        if before is None or before[1] is None or kind == "gauge":
            known[name] = (kind, value)
        elif value is not None and kind == "distribution":
            count, total, least, most = before[1]
            known[name] = (kind, (count + value[0], total + value[1], min(least, value[2]), max(most, value[3])))
        elif value is not None:
            known[name] = (kind, before[1] + value)
