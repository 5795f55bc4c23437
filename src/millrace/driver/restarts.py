"""Restart strategies: whether a failed job starts again, and after how long. Pure: no clock, no thread.

    failure ─► failed(now) ─► 1500: wait so many milliseconds, then start the next attempt
                          ╰─► None: the job has failed for good

One strategy serves one job for its whole life; it remembers the failures before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Protocol

from millrace.common.restart_options import DEFAULT_EXPONENTIAL_DELAY
from millrace.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration

NoRestart = RestartStrategies.NoRestartStrategyConfiguration
FixedDelay = RestartStrategies.FixedDelayRestartStrategyConfiguration
FailureRate = RestartStrategies.FailureRateRestartStrategyConfiguration
ExponentialDelay = RestartStrategies.ExponentialDelayRestartStrategyConfiguration
Fallback = RestartStrategies.FallbackRestartStrategyConfiguration


class RestartStrategy(Protocol):
    """Decides about each failure of one job."""

    def failed(self, now_ms: int) -> int | None:
        """Count a failure at that time. How long to wait before the next attempt, None to give up."""


def restart_strategy_of(
    configuration: RestartStrategyConfiguration | None, *, checkpointing: bool, seed: int | None = None
) -> RestartStrategy:
    """The strategy that a description describes, with no failure behind it yet.

    None and the fallback stand for Flink's default: an exponential delay for a job with checkpoints, no restart
    for one without. `seed` makes the jitter repeatable.

    >>> strategy = restart_strategy_of(RestartStrategies.fixed_delay_restart(1, 500), checkpointing=True)
    >>> strategy.failed(10_000), strategy.failed(20_000)
    (500, None)
    """
    match configuration:
        case NoRestart():
            return NeverRestart()
        case FixedDelay():
            return FixedDelayRestart(configuration)
        case FailureRate():
            return FailureRateRestart(configuration)
        case ExponentialDelay():
            return ExponentialDelayRestart(configuration, Random(seed))
        case None | Fallback():
            default = DEFAULT_EXPONENTIAL_DELAY if checkpointing else RestartStrategies.no_restart()
            return restart_strategy_of(default, checkpointing=checkpointing, seed=seed)
    raise TypeError(f"{configuration!r} is no restart strategy. Action: make one with RestartStrategies.")


class NeverRestart:
    """The first failure is the last."""

    def failed(self, now_ms: int) -> int | None:
        return None


@dataclass
class FixedDelayRestart:
    """So many restarts over the life of the job, each after the same pause."""

    settings: FixedDelay
    failures: int = 0

    def failed(self, now_ms: int) -> int | None:
        self.failures += 1
        return self.settings.delay_ms if self.failures <= self.settings.restart_attempts else None


class FailureRateRestart:
    """Gives up at a failure before which, within the interval, there were as many as are allowed."""

    def __init__(self, settings: FailureRate) -> None:
        self.settings = settings
        self.failures: deque[int] = deque(maxlen=settings.max_failure_rate + 1)

    def failed(self, now_ms: int) -> int | None:
        self.failures.append(now_ms)
        too_many = len(self.failures) > self.settings.max_failure_rate
        if too_many and now_ms - self.failures[0] <= self.settings.failure_interval_ms:
            return None
        return self.settings.delay_ms


@dataclass
class ExponentialDelayRestart:
    """Pauses that grow with every restart, until the job has run for the threshold after one.

    A failure before the announced restart belongs to the failure before it: it neither counts nor adds to the pause.
    """

    settings: ExponentialDelay
    random: Random
    attempts: int = 0  # since the backoff was last reset
    next_restart: int | None = None

    def failed(self, now_ms: int) -> int | None:
        if self.next_restart is None or now_ms > self.next_restart:
            self._count(now_ms)
        assert self.next_restart is not None
        if self.attempts > self.settings.attempts_before_reset_backoff:
            return None
        return max(0, self.next_restart - now_ms)

    def _count(self, now_ms: int) -> None:
        threshold = self.settings.reset_backoff_threshold_ms
        if self.next_restart is not None and now_ms - self.next_restart >= threshold:
            self.attempts = 0
        self.next_restart = now_ms + self._backoff()
        self.attempts += 1

    def _backoff(self) -> int:
        settings = self.settings
        try:
            grown = int(settings.initial_backoff_ms * settings.backoff_multiplier**self.attempts)
        except OverflowError:  # Beyond any float: the maximum, whatever the jitter.
            return settings.max_backoff_ms
        spread = int(grown * settings.jitter_factor)
        jittered = grown + self.random.randint(-spread, spread)
        return max(settings.initial_backoff_ms, min(jittered, settings.max_backoff_ms))
