"""The process functions: records with their timestamps, timers, and side outputs.

What `process_element` and `on_timer` yield (or return in a list) goes downstream; `yield tag, value` sends a record
to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from millrace.runtime.contexts import ElementContext
from millrace.runtime.operators.broadcast import BroadcastContext
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.time_domain import TimeDomain
from millrace.state.api import BroadcastState, ReadOnlyBroadcastState
from millrace.state.descriptors import MapStateDescriptor, StateDescriptor

from ..timerservice import TimerService
from .base import Function

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
KEY = TypeVar("KEY")
OUT = TypeVar("OUT")


class _Context(ABC):
    """`ctx` of `process_element`. One object serves all records: do not keep it."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """The clocks and, on a keyed stream, the timers."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The record's timestamp, or that of the timer; None when the stream has none."""

    def output(self, tag: OutputTag, value: Any) -> None:  # noqa: B027 - the runtime's context has it
        """Send a record to a side output; `yield tag, value` does the same."""


class _KeyedContext(_Context):
    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or timer."""


class _TimerContext(_KeyedContext):
    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Whether the timer was one of event time or of processing time."""


class ProcessFunction(Function):
    """Sees each record of a stream without keys, with its timestamp. It has no timers."""

    class Context(_Context):
        """`ctx`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...


class KeyedProcessFunction(Function):
    """Sees each record of a keyed stream, with state and timers of its key.

    >>> class Count(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
    ...
    ...     def process_element(self, value, ctx):
    ...         self.count.update((self.count.value() or 0) + 1)
    ...         yield ctx.get_current_key(), self.count.value()
    """

    class Context(_KeyedContext):
        """`ctx` of `process_element`."""

    class OnTimerContext(_TimerContext):
        """`ctx` of `on_timer`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """A timer of the current key has fired."""


class CoProcessFunction(Function):
    """Sees the records of two streams without keys."""

    class Context(_Context):
        """`ctx`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...


class KeyedCoProcessFunction(Function):
    """Sees the records of two keyed streams, which share the state and timers of a key."""

    class Context(_KeyedContext):
        """`ctx` of the two `process_element`s."""

    class OnTimerContext(_TimerContext):
        """`ctx` of `on_timer`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...

    @abstractmethod
    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """A timer of the current key has fired."""


class BaseBroadcastProcessFunction(Function):
    """What the two broadcast process functions share."""

    class BaseContext(ABC):
        """`ctx` of both sides."""

        @abstractmethod
        def timestamp(self) -> int | None: ...

        @abstractmethod
        def current_processing_time(self) -> int: ...

        @abstractmethod
        def current_watermark(self) -> int: ...

        def output(self, tag: OutputTag, value: Any) -> None:  # noqa: B027 - the runtime's context has it
            """Send a record to a side output; `yield tag, value` does the same."""

    class Context(BaseContext):
        """`ctx` of the broadcast side, which may write the broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]: ...

    class ReadOnlyContext(BaseContext):
        """`ctx` of the other side, which may read it."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]: ...


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Sees the records of a stream without keys, and those of a broadcast one.

    The broadcast side must treat its state in the same way in all subtasks: they do not speak to each other.
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """`ctx` of `process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """`ctx` of `process_element`."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Iterable[OUT] | None: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Iterable[OUT] | None: ...


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Sees the records of a keyed stream, with state and timers of their keys, and those of a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """`ctx` of `process_broadcast_element`."""

        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
        ) -> None:
            """Call `function(key, state)` for every key that has state under the descriptor."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """`ctx` of `process_element`."""

        @abstractmethod
        def timer_service(self) -> TimerService: ...

        @abstractmethod
        def get_current_key(self) -> Any: ...

    class OnTimerContext(ReadOnlyContext, ABC):
        """`ctx` of `on_timer`."""

        @abstractmethod
        def time_domain(self) -> TimeDomain: ...

        @abstractmethod
        def get_current_key(self) -> Any: ...

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyContext) -> Iterable[OUT] | None: ...

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: Context) -> Iterable[OUT] | None: ...

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[OUT] | None:
        """A timer of the current key has fired."""


for _context in (
    ProcessFunction.Context,
    KeyedProcessFunction.Context,
    KeyedProcessFunction.OnTimerContext,
    CoProcessFunction.Context,
    KeyedCoProcessFunction.Context,
    KeyedCoProcessFunction.OnTimerContext,
):
    _context.register(ElementContext)
for _broadcast_context in (
    BaseBroadcastProcessFunction.Context,
    BaseBroadcastProcessFunction.ReadOnlyContext,
    BroadcastProcessFunction.Context,
    BroadcastProcessFunction.ReadOnlyContext,
    KeyedBroadcastProcessFunction.Context,
    KeyedBroadcastProcessFunction.ReadOnlyContext,
    KeyedBroadcastProcessFunction.OnTimerContext,
):
    _broadcast_context.register(BroadcastContext)
