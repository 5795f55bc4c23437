"""Futures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")
R = TypeVar("R")


class CompletableFuture(Generic[T]):
    """A result that is there, or will be. Can be awaited.

    >>> CompletableFuture.completed(1).then(lambda n: n + 1).result()
    2
    """

    def __init__(self, future: Future[T] | None = None) -> None:
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: R) -> CompletableFuture[R]:
        done: CompletableFuture[R] = CompletableFuture()
        done.set_result(value)
        return done

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[Any]:
        done: CompletableFuture[Any] = CompletableFuture()
        done.set_exception(error)
        return done

    def cancel(self) -> bool:
        """Cancels what has not begun; whether that was so."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, an error or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result; raises what went wrong."""
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits, and returns what went wrong, None if nothing did."""
        return self._future.exception(timeout)

    def set_result(self, result: T) -> None:
        self._future.set_result(result)

    def set_exception(self, exception: BaseException) -> None:
        self._future.set_exception(exception)

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], Any]) -> None:
        """Calls back with this future when it is done, at once if it is."""
        self._future.add_done_callback(lambda _future: callback(self))

    def then(self, function: Callable[[T], R]) -> CompletableFuture[R]:
        """The future of ``function`` applied to the result; errors and cancellation pass through."""
        after: CompletableFuture[R] = CompletableFuture()
        self.add_done_callback(lambda done: _pass_on(done, function, after))
        return after

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        return f"CompletableFuture({self._future!r})"


def _pass_on(done: CompletableFuture[T], function: Callable[[T], R], after: CompletableFuture[R]) -> None:
    if done.cancelled():
        after.cancel()
        return
    try:
        after.set_result(function(done.result()))
    except BaseException as error:
        after.set_exception(error)
