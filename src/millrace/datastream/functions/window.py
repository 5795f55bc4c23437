"""The functions of windows, and of what is joined in windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from millrace.runtime.output_tag import OutputTag
from millrace.runtime.windowing.contexts import WindowContext
from millrace.state.api import KeyedStateStore

from .base import Function

IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes results of a key's window, when it fires."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None: ...


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes results of a window over the whole stream."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None: ...


class _Context(ABC, Generic[W]):
    """`context`: the window, time and state."""

    @abstractmethod
    def window(self) -> W: ...

    @abstractmethod
    def current_processing_time(self) -> int: ...

    @abstractmethod
    def current_watermark(self) -> int: ...

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window, to be given back in `clear`. Windows that merge have none."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, for all of its windows."""

    def output(self, tag: OutputTag, value: Any) -> None:
        """Send a record to a side output; `yield tag, value` does the same."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes results of a key's window, with its time and state at hand.

    It may be called several times for one window: when the trigger fires early, or for late records.

    >>> class Count(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         yield key, context.window().start, len(elements)
    """

    class Context(_Context[W2]):
        """`context` of `process` and `clear`."""

    @abstractmethod
    def process(self, key: KEY, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None: ...

    def clear(self, context: Context[W]) -> None:
        """The window goes: clear what was put into `window_state()`."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes results of a window over the whole stream, with its time and state at hand."""

    class Context(_Context[W2]):
        """`context` of `process` and `clear`."""

    @abstractmethod
    def process(self, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None: ...

    def clear(self, context: Context[W]) -> None:
        """The window goes: clear what was put into `window_state()`."""


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes one result of each pair of records that meet in a window."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT: ...


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes any number of results of each pair of records that meet in a window."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None: ...


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes results of what both streams have for a key and window; one of the two may be empty."""

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None: ...


for _context in (ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    _context.register(WindowContext)
