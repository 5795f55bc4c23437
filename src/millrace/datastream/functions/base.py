"""The functions that see a record at a time, and the ends of a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from millrace.runtime.context import RuntimeContext
from millrace.runtime.operators import own_state
from millrace.state.api import OperatorStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class Function(ABC):  # noqa: B024 - as in Flink: what a function does is told by its subclasses
    """The base of all functions.

    Every subtask has its own copy. `open` is called once before its first record, `close` exactly once for every
    `open`, however the job ends. What is kept in fields in between belongs to the process: what must survive is
    state.
    """

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional
        """Make what the function needs: connections, models, state handles."""

    def close(self) -> None:  # noqa: B027 - optional
        """Give it back."""


class MapFunction(Function):
    """One record in, one out.

    >>> class Double(MapFunction):
    ...     def map(self, value):
    ...         return 2 * value
    >>> Double().map(4)
    8
    """

    @abstractmethod
    def map(self, value: Any) -> Any: ...


class CoMapFunction(Function):
    """A map over two streams: `map1` for the first, `map2` for the second."""

    @abstractmethod
    def map1(self, value: Any) -> Any: ...

    @abstractmethod
    def map2(self, value: Any) -> Any: ...


class FlatMapFunction(Function):
    """One record in, any number out: yield them, or return them in a list."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None: ...


class CoFlatMapFunction(Function):
    """A flat_map over two streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None: ...

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None: ...


class ReduceFunction(Function):
    """Joins two records into one of the same kind. Must be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any: ...


class AggregateFunction(Function):
    """Adds records to an accumulator, and makes a result of it."""

    @abstractmethod
    def create_accumulator(self) -> Any: ...

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value in it."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any: ...

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Two accumulators in one; needed where windows merge."""


class KeySelector(Function):
    """Tells a record's key. The same record must always give the same key."""

    @abstractmethod
    def get_key(self, value: Any) -> Any: ...


class FilterFunction(Function):
    """Keeps the records for which it says True."""

    @abstractmethod
    def filter(self, value: Any) -> bool: ...


class Partitioner(Function):
    """Tells which of `num_partitions` subtasks gets the records of a key."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int: ...


class AsyncFunction(Function, Generic[IN, OUT]):
    """Asks the outside world without holding up the stream."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]: ...

    def timeout(self, value: IN) -> list[OUT]:
        """What to give when the answer does not come in time; by default the job fails."""
        raise TimeoutError("Async function call has timed out.")


# --- ends of a program -----------------------------------------------------------------------------------


class SourceFunction(Function):
    """A source written as a loop: `run` yields records, or hands them to `ctx.collect`.

    It is read once, by one subtask, and must come to an end; when its task is run again, so is the loop. What
    never ends, or must continue where it was, is a `millrace.datastream.connectors.Source`.

    >>> class Countdown(SourceFunction):
    ...     def run(self, ctx):
    ...         yield from range(3, 0, -1)
    """

    class SourceContext(Protocol):
        """Takes the records of a loop that does not yield them."""

        def collect(self, element: Any) -> None: ...

        def collect_with_timestamp(self, element: Any, timestamp: int) -> None: ...

    @abstractmethod
    def run(self, ctx: SourceContext) -> Iterator[Any] | None: ...

    def cancel(self) -> None:
        """Asked to stop early."""


class SinkFunction(Function):
    """Hands records to the outside world, one by one. When a task is run again, they are handed over again:
    what must happen exactly once is a `millrace.datastream.connectors.Sink`.
    """

    class Context(Protocol):
        """What a sink may ask about a record."""

        def timestamp(self) -> int | None: ...

        def current_watermark(self) -> int: ...

        def current_processing_time(self) -> int: ...

    @abstractmethod
    def invoke(self, value: Any, context: Context) -> None: ...


# --- operator state --------------------------------------------------------------------------------------


class FunctionInitializationContext(ABC):
    """What `initialize_state` is given."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether there is state from before."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore: ...


class FunctionSnapshotContext(ABC):
    """What `snapshot_state` is given."""

    @abstractmethod
    def get_checkpoint_id(self) -> int: ...

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int: ...


class CheckpointedFunction(ABC):
    """Mixed into a function that has operator state: state of the subtask and not of a key."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called once before `open`: get the state, and read what is in it."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at the end of each epoch: write what must survive into the state."""


class ListCheckpointed(ABC):
    """Mixed into a function whose operator state is one list, which rescaling deals out anew."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """What must survive the epoch."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Called before the first record when there is state from before."""


class CheckpointListener(ABC):
    """Mixed into a function that wants to know which epochs are safe."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional
        """The checkpoint came to nothing."""


FunctionInitializationContext.register(own_state.FunctionInitializationContext)
FunctionSnapshotContext.register(own_state.FunctionSnapshotContext)
