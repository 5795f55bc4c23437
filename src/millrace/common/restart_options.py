"""Flink's options under ``restart-strategy.``: what a configuration says about restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .config_options import ConfigOption, ConfigOptions
from .configuration import Configuration
from .errors import ConfigurationError, ProgramError
from .restart_strategy import RestartStrategies, RestartStrategyConfiguration
from .time import Duration

__all__ = ["DEFAULT_EXPONENTIAL_DELAY", "restart_strategy_from"]

_PREFIX: Final = "restart-strategy"


def _count(key: str, default: int) -> ConfigOption[int]:
    return ConfigOptions.key(f"{_PREFIX}.{key}").int_type().default_value(default)


def _factor(key: str, default: float) -> ConfigOption[float]:
    return ConfigOptions.key(f"{_PREFIX}.{key}").double_type().default_value(default)


def _pause(key: str, default: Duration) -> ConfigOption[Duration]:
    return ConfigOptions.key(f"{_PREFIX}.{key}").duration_type().default_value(default)


# The names, spellings and defaults are those of Flink 2.x (RestartStrategyOptions).
_TYPE = ConfigOptions.key(f"{_PREFIX}.type").string_type().no_default_value().with_deprecated_keys(_PREFIX)
_FIXED_ATTEMPTS = _count("fixed-delay.attempts", 1)
_FIXED_DELAY = _pause("fixed-delay.delay", Duration.of_seconds(1))
_RATE_FAILURES = _count("failure-rate.max-failures-per-interval", 1)
_RATE_INTERVAL = _pause("failure-rate.failure-rate-interval", Duration.of_minutes(1))
_RATE_DELAY = _pause("failure-rate.delay", Duration.of_seconds(1))
_INITIAL = _pause("exponential-delay.initial-backoff", Duration.of_seconds(1))
_MAX = _pause("exponential-delay.max-backoff", Duration.of_minutes(1))
_MULTIPLIER = _factor("exponential-delay.backoff-multiplier", 1.5)
_RESET = _pause("exponential-delay.reset-backoff-threshold", Duration.of_hours(1))
_JITTER = _factor("exponential-delay.jitter-factor", 0.1)
_EXPONENTIAL_ATTEMPTS = _count("exponential-delay.attempts-before-reset-backoff", 2**31 - 1)


def restart_strategy_from(configuration: Mapping[str, str]) -> RestartStrategyConfiguration | None:
    """The restart strategy that a configuration asks for by ``restart-strategy.type``, None if it does not.

    >>> restart_strategy_from({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "5 s"})
    RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts=1, delay_ms=5000)
    >>> restart_strategy_from({"parallelism.default": "2"}) is None
    True
    """
    settings = Configuration.from_dict(configuration)
    if not settings.contains(_TYPE):
        return None
    wanted = settings.get(_TYPE).strip().lower()
    read = _READERS.get(wanted)
    if read is None:
        raise ConfigurationError(
            f"option {_TYPE.key!r}: {wanted!r} is no restart strategy",
            action="Use none, fixed-delay, failure-rate or exponential-delay.",
        )
    try:
        return read(settings)
    except ConfigurationError:
        raise
    except ProgramError as error:
        raise ConfigurationError(
            f"options {_PREFIX}.{wanted}.*: {error.message}", action="Correct that option, or leave it out."
        ) from error


def _no_restart(_settings: Configuration) -> RestartStrategyConfiguration:
    return RestartStrategies.no_restart()


def _fixed_delay(settings: Configuration) -> RestartStrategyConfiguration:
    delay = settings.get(_FIXED_DELAY).to_millis()
    return RestartStrategies.FixedDelayRestartStrategyConfiguration(settings.get(_FIXED_ATTEMPTS), delay)


def _failure_rate(settings: Configuration) -> RestartStrategyConfiguration:
    return RestartStrategies.FailureRateRestartStrategyConfiguration(
        settings.get(_RATE_FAILURES), settings.get(_RATE_INTERVAL).to_millis(), settings.get(_RATE_DELAY).to_millis()
    )


def _exponential_delay(
    settings: Configuration,
) -> RestartStrategies.ExponentialDelayRestartStrategyConfiguration:
    return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
        settings.get(_INITIAL).to_millis(),
        settings.get(_MAX).to_millis(),
        settings.get(_MULTIPLIER),
        settings.get(_RESET).to_millis(),
        settings.get(_JITTER),
        settings.get(_EXPONENTIAL_ATTEMPTS),
    )


_READERS: Final[dict[str, Callable[[Configuration], RestartStrategyConfiguration]]] = {
    **dict.fromkeys(("none", "off", "disable"), _no_restart),
    **dict.fromkeys(("fixed-delay", "fixeddelay"), _fixed_delay),
    **dict.fromkeys(("failure-rate", "failurerate"), _failure_rate),
    **dict.fromkeys(("exponential-delay", "exponentialdelay"), _exponential_delay),
}

# What a job with checkpoints restarts by when neither it nor the configuration says anything.
DEFAULT_EXPONENTIAL_DELAY: Final = _exponential_delay(Configuration())
