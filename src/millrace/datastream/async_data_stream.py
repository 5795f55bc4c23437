"""Asynchronous calls on a stream."""

from __future__ import annotations

import inspect
from typing import Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.time import DurationLike, to_millis
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.operators.asynchronous import AsyncOperator

from ._checks import at_site, require_callable
from ._data_stream import DataStream
from .async_retry_strategies import NoRetryStrategy
from .functions import AsyncFunction, AsyncFunctionDescriptor, AsyncRetryStrategy

_OutputMode = AsyncFunctionDescriptor.OutputMode


class AsyncDataStream:
    """Asks the outside world about the records of a stream, many at a time.

    The function is an `AsyncFunction` or an `async def` that gives a list of results. At most `capacity` calls of a
    subtask are in flight; each may take `timeout`, all of its attempts together. An epoch ends when all calls have
    been answered, so none is in flight at a checkpoint; after a failure calls are made again.

    >>> from millrace.common import Time
    >>> from millrace.datastream import StreamExecutionEnvironment
    >>> from millrace.testing import InProcessExecutor
    >>> async def look_up(user):
    ...     return [f"{user}@example.org"]
    >>> env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    >>> users = env.from_collection(["ada", "grace"])
    >>> AsyncDataStream.ordered_wait(users, look_up, Time.seconds(5)).execute_and_collect(limit=2)
    ['ada@example.org', 'grace@example.org']
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: Any,
        timeout: DurationLike,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results in the order in which they come, but never past a watermark."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NoRetryStrategy(), capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: Any,
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """The same; a call is made again as the strategy says."""
        descriptor = AsyncFunctionDescriptor(
            async_function, timeout, capacity, async_retry_strategy, _OutputMode.UNORDERED
        )
        return wait_as_described(data_stream, descriptor, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: Any,
        timeout: DurationLike,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results in the order of the records that they belong to."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NoRetryStrategy(), capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: Any,
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """The same; a call is made again as the strategy says."""
        descriptor = AsyncFunctionDescriptor(
            async_function, timeout, capacity, async_retry_strategy, _OutputMode.ORDERED
        )
        return wait_as_described(data_stream, descriptor, output_type)


def wait_as_described(
    stream: DataStream, wanted: AsyncFunctionDescriptor, output_type: TypeInformation | None = None
) -> DataStream:
    """The calls that a descriptor describes, behind a stream."""
    ordered = wanted.output_mode is _OutputMode.ORDERED
    method = "ordered_wait" if ordered else "unordered_wait"
    if not isinstance(stream, DataStream):
        raise ProgramError(at_site(f"{method} takes a DataStream, not {short_repr(stream)}."))
    function = require_callable(wanted.async_function, AsyncFunction, "async_invoke", method)
    _require_coroutine(getattr(function, "async_invoke", function), method)
    strategy = wanted.async_retry_strategy
    if not isinstance(strategy, AsyncRetryStrategy):
        raise ProgramError(
            at_site(f"{method} takes an AsyncRetryStrategy, not {short_repr(strategy)}."),
            action="Take one that AsyncRetryStrategy.fixed_delay(...) or exponential_backoff(...) gives.",
        )
    millis = to_millis(wanted.timeout)
    if millis <= 0:
        raise ProgramError(at_site(f"The timeout of {method} must be positive, got {millis} ms."))
    capacity = wanted.capacity
    if type(capacity) is not int or capacity < 1:
        raise ProgramError(at_site(f"The capacity of {method} must be at least 1, got {capacity!r}."))
    late = getattr(type(function), "timeout", AsyncFunction.timeout)
    operator = AsyncOperator(function, millis, capacity, strategy, ordered, late is not AsyncFunction.timeout)
    name = "async wait operator" if ordered else "unordered async wait operator"
    return stream._transform(name, operator, output_type)


def _require_coroutine(invoke: Any, method: str) -> None:
    if inspect.isasyncgenfunction(invoke) or (inspect.isfunction(invoke) and not inspect.iscoroutinefunction(invoke)):
        raise ProgramError(
            at_site(f"{method} was given {getattr(invoke, '__qualname__', invoke)}, which cannot be awaited."),
            action="Write it with `async def`, and return a list of results.",
        )
