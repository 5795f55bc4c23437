"""Whether, how often and how soon a failed job starts again: descriptions only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from .errors import ProgramError
from .time import Duration, DurationLike, to_millis
from .units import format_duration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]

# Java's Integer.MAX_VALUE, which Flink reads as "for ever".
_FOR_EVER = 2**31 - 1


class RestartStrategyConfiguration(ABC):
    """What all restart strategies have: a line that describes them."""

    @abstractmethod
    def get_description(self) -> str: ...


class RestartStrategies:
    """Makes restart strategies.

    >>> strategy = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=10))
    >>> strategy.get_description()
    'Restart with fixed delay (10 s). #3 restart attempts.'
    >>> strategy.get_delay_between_attempts_interval()
    datetime.timedelta(seconds=10)
    """

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The first failure is the last."""

        def get_description(self) -> str:
            return "Restart deactivated."

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """What the cluster's configuration says."""

        def get_description(self) -> str:
            return "Cluster level default restart strategy"

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many times, always after the same pause."""

        restart_attempts: int
        delay_ms: int

        def __post_init__(self) -> None:
            _require(self.restart_attempts >= 0, "the restart attempts must not be negative", self.restart_attempts)
            _require(self.delay_ms >= 0, "the delay between attempts must not be negative", self.delay_ms)

        def get_restart_attempts(self) -> int:
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            return timedelta(milliseconds=self.delay_ms)

        def get_description(self) -> str:
            return f"Restart with fixed delay ({_span(self.delay_ms)}). #{self.restart_attempts} restart attempts."

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """As long as there are not too many failures within an interval."""

        max_failure_rate: int
        failure_interval_ms: int
        delay_ms: int

        def __post_init__(self) -> None:
            _require(self.max_failure_rate > 0, "the failure rate must be positive", self.max_failure_rate)
            _require(
                self.failure_interval_ms > 0,
                "the failure interval must be positive",
                self.failure_interval_ms,
            )
            _require(self.delay_ms >= 0, "the delay between attempts must not be negative", self.delay_ms)

        def get_max_failure_rate(self) -> int:
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            return timedelta(milliseconds=self.failure_interval_ms)

        def get_delay_between_attempts_interval(self) -> timedelta:
            return timedelta(milliseconds=self.delay_ms)

        def get_description(self) -> str:
            return (
                f"Failure rate restart with maximum of {self.max_failure_rate} failures within interval "
                f"{_span(self.failure_interval_ms)} and fixed delay {_span(self.delay_ms)}."
            )

    @dataclass(frozen=True)
    class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """For ever, after pauses that grow, and that begin anew when the job ran well for long enough.

        ``attempts_before_reset_backoff`` ends the job after so many restarts between which it never ran that long.
        """

        initial_backoff_ms: int
        max_backoff_ms: int
        backoff_multiplier: float
        reset_backoff_threshold_ms: int
        jitter_factor: float
        attempts_before_reset_backoff: int = _FOR_EVER

        def __post_init__(self) -> None:
            _require(self.initial_backoff_ms >= 1, "the initial backoff must be positive", self.initial_backoff_ms)
            enough = self.max_backoff_ms >= self.initial_backoff_ms
            _require(enough, "the max backoff must not be below the initial backoff", self.max_backoff_ms)
            _require(self.backoff_multiplier > 1, "the backoff multiplier must be above 1", self.backoff_multiplier)
            steady = self.reset_backoff_threshold_ms >= 1
            _require(steady, "the threshold to reset the backoff must be positive", self.reset_backoff_threshold_ms)
            _require(0 <= self.jitter_factor <= 1, "the jitter factor must be between 0 and 1", self.jitter_factor)
            attempts = self.attempts_before_reset_backoff
            _require(attempts >= 1, "the attempts before the backoff resets must be positive", attempts)

        def get_initial_backoff(self) -> timedelta:
            return timedelta(milliseconds=self.initial_backoff_ms)

        def get_max_backoff(self) -> timedelta:
            return timedelta(milliseconds=self.max_backoff_ms)

        def get_backoff_multiplier(self) -> float:
            return self.backoff_multiplier

        def get_reset_backoff_threshold(self) -> timedelta:
            return timedelta(milliseconds=self.reset_backoff_threshold_ms)

        def get_jitter_factor(self) -> float:
            return self.jitter_factor

        def get_attempts_before_reset_backoff(self) -> int:
            return self.attempts_before_reset_backoff

        def get_description(self) -> str:
            return (
                f"Restart with exponential delay: starting at {_span(self.initial_backoff_ms)}, increasing by "
                f"{self.backoff_multiplier}, with maximum {_span(self.max_backoff_ms)}. Delay resets after "
                f"{_span(self.reset_backoff_threshold_ms)} with jitter {self.jitter_factor}"
            )

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: DurationLike
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Restarts so many times, each after the delay."""
        delay = to_millis(delay_between_attempts)
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: DurationLike, delay_interval: DurationLike
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Restarts after the delay, unless there were more than ``failure_rate`` failures within the interval."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, to_millis(failure_interval), to_millis(delay_interval)
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: DurationLike,
        max_backoff: DurationLike,
        backoff_multiplier: float,
        reset_backoff_threshold: DurationLike,
        jitter_factor: float,
    ) -> RestartStrategies.ExponentialDelayRestartStrategyConfiguration:
        """Restarts for ever, each time after ``backoff_multiplier`` times the last delay, plus or minus jitter."""
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
            to_millis(initial_backoff),
            to_millis(max_backoff),
            backoff_multiplier,
            to_millis(reset_backoff_threshold),
            jitter_factor,
        )


def _span(millis: int) -> str:
    return format_duration(Duration.of_millis(millis))


def _require(holds: bool, rule: str, got: float) -> None:
    if not holds:
        raise ProgramError(f"{rule}, got {got}")
