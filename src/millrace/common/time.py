"""Spans and points of time, and the two ends of event time."""

from __future__ import annotations

import time as _clock
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from .errors import ProgramError

__all__ = [
    "MAX_WATERMARK",
    "MIN_TIMESTAMP",
    "Duration",
    "DurationLike",
    "Instant",
    "Time",
    "to_millis",
]

# Flink's Long.MIN_VALUE: the timestamp of a record that has none, and the watermark before the first.
MIN_TIMESTAMP: Final = -(2**63)
# Flink's Long.MAX_VALUE: the watermark after which nothing comes.
MAX_WATERMARK: Final = 2**63 - 1

_NANOS_PER_MILLI: Final = 1_000_000
_NANOS_PER_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """An amount of time, exact to the nanosecond.

    >>> Duration.of_minutes(1) == Duration.of_seconds(60)
    True
    >>> Duration.of_seconds(2).to_millis()
    2000
    """

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        return Duration(days * 86_400 * _NANOS_PER_SECOND)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        return Duration(hours * 3_600 * _NANOS_PER_SECOND)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        return Duration(minutes * 60 * _NANOS_PER_SECOND)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        return Duration(seconds * _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        return Duration(millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        return Duration(nanos)

    def to_millis(self) -> int:
        """Whole milliseconds, rounded down."""
        return self.nanos // _NANOS_PER_MILLI

    def to_timedelta(self) -> timedelta:
        return timedelta(microseconds=self.nanos // 1_000)


@dataclass(frozen=True, order=True, slots=True, repr=False)
class Instant:
    """A point on the time line: seconds since the epoch, and nanoseconds from there on.

    >>> Instant.of_epoch_milli(1500)
    Instant<1, 500000000>
    >>> Instant.of_epoch_milli(-1).to_epoch_milli()
    -1
    """

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1_000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_epoch_second(seconds: int, nanos: int = 0) -> Instant:
        carry, nanos = divmod(nanos, _NANOS_PER_SECOND)
        return Instant(seconds + carry, nanos)

    @staticmethod
    def now() -> Instant:
        return Instant.of_epoch_second(0, _clock.time_ns())

    def to_epoch_milli(self) -> int:
        """Whole milliseconds since the epoch, rounded down."""
        return self.seconds * 1_000 + self.nanos // _NANOS_PER_MILLI

    def to_datetime(self) -> datetime:
        """The same point as an aware datetime in UTC; what is finer than a microsecond is lost."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + timedelta(seconds=self.seconds, microseconds=self.nanos // 1_000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """A span in milliseconds: how windows are sized.

    >>> Time.seconds(5).to_milliseconds()
    5000
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        return Time(days * 86_400_000)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time({self._milliseconds} ms)"


DurationLike: TypeAlias = Duration | Time | timedelta | int


def to_millis(span: DurationLike) -> int:
    """Whole milliseconds of anything that says how long.

    >>> to_millis(timedelta(seconds=1)), to_millis(Duration.of_seconds(1)), to_millis(1000)
    (1000, 1000, 1000)
    """
    if isinstance(span, Duration):
        return span.to_millis()
    if isinstance(span, timedelta):
        return span // timedelta(milliseconds=1)
    if isinstance(span, Time):
        return span.to_milliseconds()
    if isinstance(span, int) and not isinstance(span, bool):
        return span
    raise ProgramError(
        f"expected a span of time, got {type(span).__name__} {span!r}",
        action="Give a Duration, a datetime.timedelta, or milliseconds as an int.",
    )
