"""When asynchronous calls are made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from millrace.common.errors import ProgramError

from .functions import AsyncRetryPredicate, AsyncRetryStrategy

OUT = TypeVar("OUT")


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """Two callables, or None where an outcome is never worth another attempt."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """One attempt only.

    >>> NoRetryStrategy().can_retry(1)
    False
    """

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """At most so many further attempts, with the same pause before each.

    >>> strategy = FixedDelayRetryStrategy(2, 100, None, lambda error: True)
    >>> [strategy.can_retry(attempts) for attempts in (1, 2, 3)]
    [True, True, False]
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _require("max_attempts", max_attempts, 1)
        _require("backoff_time_millis", backoff_time_millis, 0)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """At most so many further attempts, with pauses that grow by a factor, up to a longest one.

    >>> strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 300, 2.0, None, None)
    >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3)]
    [100, 200, 300]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _require("max_attempts", max_attempts, 1)
        _require("initial_delay", initial_delay, 0)
        _require("max_retry_delay", max_retry_delay, initial_delay)
        _require("multiplier", multiplier, 1)
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = float(self._initial_delay)
        for _ in range(1, current_attempts):
            delay *= self._multiplier
            if delay >= self._max_retry_delay:
                break
        return min(int(delay), self._max_retry_delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


def _require(name: str, value: float, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ProgramError(f"{name} must be at least {least}, got {value!r}.")
