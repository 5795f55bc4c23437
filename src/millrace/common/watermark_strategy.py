"""Event time as a program declares it: where timestamps come from, and how watermarks follow them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from .errors import ProgramError
from .time import MIN_TIMESTAMP, DurationLike, to_millis
from .watermarks import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
)

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkStrategy",
]

# Flink's default of how often aligned sources tell each other where they are.
_DEFAULT_ALIGNMENT_INTERVAL_MS: Final = 1_000


class TimestampAssigner(ABC):
    """Says when a record happened.

    >>> class Second(TimestampAssigner):
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> Second().extract_timestamp(("a", 1000), -1)
    1000
    """

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since the epoch.

        ``record_timestamp`` is the timestamp that the source gave the record, a negative number when it
        gave none.
        """


ExtractTimestamp: TypeAlias = Callable[[Any, int], int]
GeneratorSupplier: TypeAlias = Callable[[], WatermarkGenerator]


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Sources of one group wait for each other when one of them runs too far ahead."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How timestamps and watermarks are made. Never changes: each ``with_*`` returns another strategy.

    >>> from millrace.common import Duration
    >>> strategy = (
    ...     WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    ...     .with_timestamp_assigner(lambda value, _record_timestamp: value["at"])
    ...     .with_idleness(Duration.of_minutes(1))
    ... )
    >>> strategy.extract_timestamp({"at": 7}, -1), strategy.idle_timeout_ms
    (7, 60000)
    >>> strategy.create_watermark_generator().delay_ms
    5000
    """

    #: Makes the generator of one source split.
    generator_supplier: GeneratorSupplier
    #: As the user gave it; ``extract_timestamp`` is what to call.
    timestamp_assigner: TimestampAssigner | ExtractTimestamp | None = None
    #: How long a split may be silent before nobody waits for it; None: for ever.
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never go back within a split."""
        return WatermarkStrategy(AscendingTimestampsWatermarks)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: DurationLike) -> WatermarkStrategy:
        """For records that come late by at most so much; what comes later still is late."""
        delay = to_millis(max_out_of_orderness)
        if delay < 0:
            raise ProgramError(f"the out-of-orderness must not be negative, got {delay} ms")
        return WatermarkStrategy(partial(BoundedOutOfOrdernessWatermarks, delay))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For programs that do without event time."""
        return WatermarkStrategy(NoWatermarksGenerator)

    @staticmethod
    def for_generator(generator_supplier: GeneratorSupplier) -> WatermarkStrategy:
        """For a generator of one's own; ``generator_supplier()`` makes one per source split."""
        if isinstance(generator_supplier, WatermarkGenerator) or not callable(generator_supplier):
            raise ProgramError(
                f"for_generator needs something to call for a new generator, got {generator_supplier!r}",
                action="Give the class, or a function that makes a generator.",
            )
        return WatermarkStrategy(generator_supplier)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | ExtractTimestamp) -> WatermarkStrategy:
        """Takes timestamps from an assigner, or from a function of the value and its old timestamp."""
        if not isinstance(timestamp_assigner, TimestampAssigner) and not callable(timestamp_assigner):
            raise ProgramError(
                f"{timestamp_assigner!r} cannot assign timestamps",
                action="Give a TimestampAssigner, or a function (value, record_timestamp) -> milliseconds.",
            )
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: DurationLike) -> WatermarkStrategy:
        """Leaves a split out of the watermark when it has been silent for so long."""
        timeout = to_millis(idle_timeout)
        if timeout <= 0:
            raise ProgramError(f"the idle timeout must be positive, got {timeout} ms")
        return replace(self, idle_timeout_ms=timeout)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: DurationLike,
        update_interval: DurationLike | None = None,
    ) -> WatermarkStrategy:
        """Stops reading from a source that is further than the drift ahead of the slowest of its group."""
        interval = _DEFAULT_ALIGNMENT_INTERVAL_MS if update_interval is None else to_millis(update_interval)
        drift = to_millis(max_allowed_watermark_drift)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift, interval))

    def create_watermark_generator(self) -> WatermarkGenerator:
        """A new generator, for one source split."""
        generator = self.generator_supplier()
        if not isinstance(generator, WatermarkGenerator):
            raise ProgramError(f"the strategy's supplier made {generator!r}, which is no WatermarkGenerator")
        return generator

    @property
    def extract_timestamp(self) -> ExtractTimestamp | None:
        """The function of a value and its old timestamp; None when sources' own timestamps hold."""
        if isinstance(self.timestamp_assigner, TimestampAssigner):
            return self.timestamp_assigner.extract_timestamp
        return self.timestamp_assigner


class _AssignsWithWatermarks(Protocol):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int: ...

    def get_current_watermark(self) -> Watermark | int | None: ...


class AssignerWithPeriodicWatermarksWrapper:
    """Flink's older way: one object that assigns timestamps and is asked for watermarks.

    ``to_strategy()`` turns it into a :class:`WatermarkStrategy`.
    """

    def __init__(self, assigner: _AssignsWithWatermarks) -> None:
        self.assigner = assigner

    def to_strategy(self) -> WatermarkStrategy:
        return WatermarkStrategy(partial(_AskingGenerator, self.assigner), self.assigner.extract_timestamp)


class _AskingGenerator(WatermarkGenerator):
    def __init__(self, assigner: _AssignsWithWatermarks) -> None:
        self._assigner = assigner
        self._last = MIN_TIMESTAMP

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        asked = self._assigner.get_current_watermark()
        now = asked.timestamp if isinstance(asked, Watermark) else asked
        if now is not None and now > self._last:
            self._last = now
            output.emit_watermark(Watermark(now))
