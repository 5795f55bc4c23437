"""What a configuration says about restarts."""

from __future__ import annotations

import pytest

from millrace.common import Configuration, ConfigurationError, RestartStrategies
from millrace.common.restart_options import restart_strategy_from

FixedDelay = RestartStrategies.FixedDelayRestartStrategyConfiguration
FailureRate = RestartStrategies.FailureRateRestartStrategyConfiguration
ExponentialDelay = RestartStrategies.ExponentialDelayRestartStrategyConfiguration


def of_type(name: str, **options: str) -> object:
    prefix = f"restart-strategy.{name}"
    return restart_strategy_from(
        {"restart-strategy.type": name} | {f"{prefix}.{key.replace('_', '-')}": text for key, text in options.items()}
    )


def test_without_a_type_the_configuration_says_nothing() -> None:
    assert restart_strategy_from({}) is None
    assert restart_strategy_from({"restart-strategy.fixed-delay.attempts": "3"}) is None


@pytest.mark.parametrize("name", ["none", "off", "disable", "NONE", " off "])
def test_restarts_can_be_switched_off(name: str) -> None:
    assert restart_strategy_from({"restart-strategy.type": name}) == RestartStrategies.no_restart()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fixed-delay", FixedDelay(1, 1000)),
        ("fixeddelay", FixedDelay(1, 1000)),
        ("failure-rate", FailureRate(1, 60_000, 1000)),
        ("failurerate", FailureRate(1, 60_000, 1000)),
        ("exponential-delay", ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1)),
        ("exponentialdelay", ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1)),
    ],
)
def test_defaults_are_those_of_flink_2(name: str, expected: object) -> None:
    assert restart_strategy_from({"restart-strategy.type": name}) == expected


def test_each_option_is_read() -> None:
    assert of_type("fixed-delay", attempts="7", delay="2 min") == FixedDelay(7, 120_000)
    assert of_type(
        "failure-rate", max_failures_per_interval="5", failure_rate_interval="10 s", delay="1 ms"
    ) == FailureRate(5, 10_000, 1)
    assert of_type(
        "exponential-delay",
        initial_backoff="2 s",
        max_backoff="3 s",
        backoff_multiplier="1.1",
        reset_backoff_threshold="4 s",
        jitter_factor="0",
        attempts_before_reset_backoff="9",
    ) == ExponentialDelay(2000, 3000, 1.1, 4000, 0.0, 9)


def test_older_name_of_the_type_is_read(caplog: pytest.LogCaptureFixture) -> None:
    assert restart_strategy_from({"restart-strategy": "fixed-delay"}) == FixedDelay(1, 1000)
    assert "restart-strategy.type" in caplog.text


def test_configuration_object_gives_its_entries() -> None:
    configuration = Configuration().set_string("restart-strategy.type", "none")
    assert restart_strategy_from(configuration.to_dict()) == RestartStrategies.no_restart()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"restart-strategy.type": "sometimes"}, r"'sometimes' is no restart strategy\nAction: Use none, fixed-delay"),
        (
            {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "many"},
            "'restart-strategy.fixed-delay.attempts': 'many' is not a whole number",
        ),
        (
            {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.jitter-factor": "2"},
            r"restart-strategy.exponential-delay.\*: the jitter factor must be between 0 and 1",
        ),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": "0",
            },
            "the attempts before the backoff resets must be positive",
        ),
    ],
)
def test_option_that_makes_no_sense_is_named(options: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        restart_strategy_from(options)
