"""When a failed job starts again, and when it has failed for good."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common import RestartStrategies
from millrace.driver.restarts import ExponentialDelay, ExponentialDelayRestart, RestartStrategy, restart_strategy_of

MINUTE = 60_000
HOUR = 60 * MINUTE


def exponential(jitter: float = 0.0, attempts: int = 2**31 - 1) -> ExponentialDelay:
    return ExponentialDelay(1000, 10_000, 2.0, HOUR, jitter, attempts)


def strategy(configuration: object, checkpointing: bool = True) -> RestartStrategy:
    return restart_strategy_of(configuration, checkpointing=checkpointing, seed=1)


def fail_at_once_after_each_restart(strategy: RestartStrategy, times: int, now: int = 1_000_000) -> list[int | None]:
    """The pauses of a job that fails a millisecond after each start."""
    pauses = []
    for _ in range(times):
        pause = strategy.failed(now)
        pauses.append(pause)
        if pause is None:
            break
        now += pause + 1
    return pauses


def test_without_restarts_the_first_failure_is_the_last() -> None:
    assert strategy(RestartStrategies.no_restart()).failed(5) is None


def test_fixed_delay_restarts_as_often_as_it_may_over_the_whole_life_of_the_job() -> None:
    fixed = strategy(RestartStrategies.fixed_delay_restart(2, 300))
    assert [fixed.failed(now) for now in (0, HOUR, 1000 * HOUR)] == [300, 300, None]


def test_fixed_delay_of_no_attempts_gives_up_at_once() -> None:
    assert strategy(RestartStrategies.fixed_delay_restart(0, 300)).failed(0) is None


def test_failure_rate_gives_up_at_one_failure_more_than_the_interval_allows() -> None:
    rate = strategy(RestartStrategies.failure_rate_restart(2, 1000, 10))
    assert [rate.failed(now) for now in (0, 500, 1000)] == [10, 10, None]


def test_failure_rate_forgets_failures_that_are_older_than_the_interval() -> None:
    rate = strategy(RestartStrategies.failure_rate_restart(2, 1000, 10))
    assert [rate.failed(now) for now in (0, 500, 1001, 1502, 2001)] == [10, 10, 10, 10, None]


def test_exponential_delay_grows_to_its_maximum() -> None:
    growing = strategy(exponential())
    assert fail_at_once_after_each_restart(growing, 6) == [1000, 2000, 4000, 8000, 10_000, 10_000]


def test_exponential_delay_begins_anew_when_the_job_ran_for_the_threshold() -> None:
    growing = strategy(exponential())
    assert growing.failed(0) == 1000
    assert growing.failed(1001) == 2000
    restarted_at = 3001
    assert growing.failed(restarted_at + HOUR) == 1000


def test_exponential_delay_does_not_reset_a_moment_before_the_threshold() -> None:
    growing = strategy(exponential())
    assert growing.failed(0) == 1000
    assert growing.failed(1000 + HOUR - 1) == 2000


def test_failure_before_the_announced_restart_joins_the_failure_before_it() -> None:
    growing = strategy(exponential(attempts=1))
    assert [growing.failed(now) for now in (0, 400, 1000)] == [1000, 600, 0]
    assert growing.failed(1001) is None


def test_exponential_delay_gives_up_after_its_attempts_without_a_reset() -> None:
    assert fail_at_once_after_each_restart(strategy(exponential(attempts=3)), 9) == [1000, 2000, 4000, None]


def test_exponential_delay_counts_its_attempts_anew_after_a_reset() -> None:
    growing = strategy(exponential(attempts=1))
    assert growing.failed(0) == 1000
    assert growing.failed(1000 + HOUR) == 1000
    assert growing.failed(1000 + HOUR + 1001) is None


def test_exponential_delay_survives_more_failures_than_a_float_can_grow() -> None:
    growing = ExponentialDelayRestart(exponential(jitter=0.1), Random(0), attempts=5000)
    assert growing.failed(0) == 10_000


def test_default_with_checkpoints_is_flinks_exponential_delay() -> None:
    fallback = strategy(RestartStrategies.fall_back_restart())
    assert isinstance(fallback, ExponentialDelayRestart)
    assert fallback.settings == ExponentialDelay(1000, MINUTE, 1.5, HOUR, 0.1)
    assert isinstance(strategy(None), ExponentialDelayRestart)


def test_default_without_checkpoints_is_no_restart() -> None:
    assert strategy(RestartStrategies.fall_back_restart(), checkpointing=False).failed(0) is None


def test_same_seed_gives_the_same_pauses() -> None:
    first, second = (restart_strategy_of(exponential(0.5), checkpointing=True, seed=7) for _ in range(2))
    assert fail_at_once_after_each_restart(first, 20) == fail_at_once_after_each_restart(second, 20)


def test_what_is_no_restart_strategy_is_refused() -> None:
    with pytest.raises(TypeError, match="no restart strategy"):
        strategy("always")


@st.composite
def settings(draw: st.DrawFn) -> ExponentialDelay:
    initial = draw(st.integers(1, 5000))
    return ExponentialDelay(
        initial,
        draw(st.integers(initial, 100_000)),
        draw(st.floats(1.001, 50)),
        draw(st.integers(1, HOUR)),
        draw(st.floats(0, 1)),
    )


@given(settings(), st.integers(0, 2**32), st.lists(st.integers(0, 2 * HOUR), min_size=1, max_size=60))
def test_pause_of_a_counted_failure_is_never_outside_the_backoffs(
    settings: ExponentialDelay, seed: int, runs: list[int]
) -> None:
    growing = ExponentialDelayRestart(settings, Random(seed))
    now = 0
    for ran in runs:
        pause = growing.failed(now)
        assert pause is not None
        assert settings.initial_backoff_ms <= pause <= settings.max_backoff_ms
        now += pause + 1 + ran


@given(settings(), st.integers(0, 2**32), st.integers(0, 100))
def test_attempts_start_over_exactly_when_a_run_reached_the_threshold(
    settings: ExponentialDelay, seed: int, failures: int
) -> None:
    growing = ExponentialDelayRestart(settings, Random(seed))
    fail_at_once_after_each_restart(growing, failures + 1)
    before, restarted_at = growing.attempts, growing.next_restart
    assert restarted_at is not None
    ran = seed % (2 * HOUR) + 1
    growing.failed(restarted_at + ran)
    assert growing.attempts == (1 if ran >= settings.reset_backoff_threshold_ms else before + 1)


@given(st.lists(st.integers(0, 3000), max_size=50), st.integers(1, 5), st.integers(1, 5000))
def test_failure_rate_gives_up_exactly_when_the_window_holds_too_many(gaps: list[int], most: int, window: int) -> None:
    rate = strategy(RestartStrategies.failure_rate_restart(most, window, 0))
    times: list[int] = []
    for gap in gaps:
        times.append(sum(gaps[: len(times)]) + gap)
        in_window = sum(1 for time in times if times[-1] - time <= window)
        gave_up = rate.failed(times[-1]) is None
        assert gave_up == (in_window > most)
        if gave_up:
            break
