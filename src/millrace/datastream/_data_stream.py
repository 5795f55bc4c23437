"""DataStream: a view of operators' outputs, and the transformations that it can go through."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from millrace.common.errors import NotSupportedError, ProgramError, short_repr
from millrace.common.execution_config import ExecutionConfig
from millrace.common.time import DurationLike
from millrace.common.typeinfo import TypeInformation, Types
from millrace.common.watermark_strategy import WatermarkStrategy
from millrace.graph.partitioning import Broadcast, Custom, Forward, Global, Partitioning, Rebalance, Rescale, Shuffle
from millrace.graph.stream_graph import ChainingStrategy, NodeKind, StreamNode
from millrace.runtime.failure import resolve
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.feedback import FeedbackHead
from millrace.runtime.operators.process import ProcessOperator
from millrace.runtime.operators.sinks import CollectOperator, SinkFunctionOperator, SinkOperator, printed
from millrace.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from millrace.runtime.operators.timestamps import TimestampsOperator
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from millrace.state.descriptors import MapStateDescriptor

from ._checks import at_site, refuse, require_callable, require_methods, require_type
from ._collect import CloseableIterator
from ._fields import key_selector as as_selector
from ._operator_settings import OperatorSettings, refuse_view
from ._program import Outlet
from ._rolling import Projection, projected_type
from ._sinks import DataStreamSink
from ._window_join import CoGroupedStreams, JoinedStreams
from ._windowed_stream import AllWindowedStream
from .connectors.base import Sink
from .connectors.text_sink import TextFileSink
from .functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    ProcessFunction,
    SinkFunction,
)

if TYPE_CHECKING:
    from ._connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from ._iteration import IterativeStream
    from ._keyed_stream import KeyedStream
    from .stream_execution_environment import StreamExecutionEnvironment

Outlets = tuple[Outlet, ...]

# The name that Flink gives to such a job.
_COLLECT_JOB_NAME = "DataStream Collect"


class DataStream(OperatorSettings):
    """Records on their way. A transformation gives a new stream and leaves this one as it is.

    A stream without timestamps passes on what its source gave; the type of a transformation's `output_type` is
    applied to its results.
    """

    def __init__(self, env: StreamExecutionEnvironment, outlets: Outlets, type_info: TypeInformation | None) -> None:
        self._env = env
        self._outlets = outlets
        self._type = type_info

    def __repr__(self) -> str:
        nodes = self._env._program.graph.nodes
        return f"{type(self).__name__}({', '.join(nodes[outlet.node_id].name for outlet in self._outlets)})"

    # --- what it is -----------------------------------------------------------------------------------------

    def get_type(self) -> TypeInformation:
        """The declared type; `Types.PICKLED_BYTE_ARRAY()` where none was declared."""
        return self._type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        return self._env.get_config()

    def _node(self, setting: str) -> StreamNode:
        first = self._outlets[0]
        node = self._env._program.graph.nodes[first.node_id]
        if len(self._outlets) > 1:
            refuse_view(setting, "a union of streams", None)
        if first.partitioning is not None:
            refuse_view(setting, f"a stream that is distributed ({first.partitioning.name})", node)
        if first.tag is not None:
            refuse_view(setting, f"the side output {first.tag!r}", node)
        return node

    # --- one record at a time ---------------------------------------------------------------------------------

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, one out. Takes a MapFunction or a callable."""
        function = require_callable(func, MapFunction, "map", "map")
        return self._transform("Map", MapOperator(function), output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, any number out: the function yields them, or returns them in a list."""
        function = require_callable(func, FlatMapFunction, "flat_map", "flat_map")
        return self._transform("Flat Map", FlatMapOperator(function), output_type)

    def filter(self, func: Any) -> DataStream:
        """Keeps the records for which the function says True."""
        function = require_callable(func, FilterFunction, "filter", "filter")
        return self._transform("Filter", FilterOperator(function), stream_type=self._type)

    def project(self, *field_indexes: int) -> DataStream:
        """Keeps some fields of a tuple or a Row, in this order."""
        if not field_indexes or any(type(index) is not int or index < 0 for index in field_indexes):
            raise ProgramError(at_site(f"project takes the positions of fields, not {field_indexes!r}."))
        kept = projected_type(self._type, field_indexes)
        return self._transform("Projection", MapOperator(Projection(field_indexes)), stream_type=kept)

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a ProcessFunction: timestamps, the watermark, side outputs. Timers and keyed state need `key_by`."""
        refuse(
            func, (KeyedProcessFunction, KeyedCoProcessFunction), "process on a stream without keys",
            "Put key_by(...) in front of process(...).",
        )
        function = require_methods(func, ProcessFunction, "process", "process_element")
        return self._transform("Process", ProcessOperator(function), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Gives the records new timestamps, and the stream new watermarks in place of those from upstream."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise ProgramError(
                at_site(f"assign_timestamps_and_watermarks takes a WatermarkStrategy, not {watermark_strategy!r}.")
            )
        operator = TimestampsOperator(watermark_strategy)
        return self._transform("Timestamps/Watermarks", operator, stream_type=self._type)

    # --- several streams ----------------------------------------------------------------------------------------

    def union(self, *streams: DataStream) -> DataStream:
        """The records of all the streams, in one."""
        outlets = list(self._plain_outlets())
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise ProgramError(at_site(f"union takes DataStreams, not {short_repr(stream)}."))
            self._require_same_environment(stream)
            outlets += stream._plain_outlets()
        same_type = all(stream._type == self._type for stream in streams)
        return DataStream(self._env, tuple(outlets), self._type if same_type else None)

    def _plain_outlets(self) -> Outlets:
        return self._outlets

    def _plain_view(self) -> DataStream:
        """The stream without its keys."""
        return self

    def _parallelism(self) -> int:
        """The parallelism of the operator behind the stream."""
        return self._env._program.graph.nodes[self._outlets[0].node_id].parallelism

    def _require_same_environment(self, other: Any) -> None:
        if other._env is not self._env:
            raise ProgramError(at_site("The two streams belong to different environments."))

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Two streams for one operator, which sees them as its two inputs and lets them share state."""
        from ._connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if not isinstance(ds, DataStream):
            raise ProgramError(at_site(f"connect takes a DataStream or a BroadcastStream, not {short_repr(ds)}."))
        return ConnectedStreams(self, ds)

    def lookup_join(
        self,
        table: Any,
        on: Any,
        table_on: Any = None,
        function: Any = None,
        how: str = "inner",
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Joins each record with the rows of a Spark DataFrame that have its key: `(record, row)` for each of them.

        The table is read once, before the first record, and each subtask keeps all of it. `on` says where the key
        stands in a record, `table_on` where in a row: whatever `key_by` takes. With `function` the result is
        `function(record, row)`. With `how="left"` a record without a row is joined with None. As in SQL, a key that
        is None matches nothing.
        """
        from ._joins import lookup_join

        return lookup_join(self, table, on, table_on, function, how, output_type)

    def interval_join(self, other: Any, how: str = "inner") -> Any:
        """Only a stream by key has interval joins."""
        raise _needs_key("interval_join")

    def temporal_join(self, versions: Any, how: str = "inner") -> Any:
        """Only a stream by key has temporal joins."""
        raise _needs_key("temporal_join")

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What the operator sends to a side output."""
        if not isinstance(output_tag, OutputTag):
            raise ProgramError(at_site(f"get_side_output takes an OutputTag, not {short_repr(output_tag)}."))
        node = self._node("get_side_output")
        return DataStream(self._env, (Outlet(node.id, output_tag.tag_id),), output_tag.type_info)

    def iterate(self, max_wait_time_millis: int = 0) -> IterativeStream:
        """Opens an iteration: see `IterativeStream`. The time to wait is not needed: no record is in flight."""
        from ._iteration import IterativeStream

        parallelism = self._env._program.graph.nodes[self._outlets[0].node_id].parallelism
        program = self._env._program
        node = program.add("IterationSource", FeedbackHead(), (self._outlets,), parallelism)
        node.name = f"IterationSource-{node.id}"
        node.chaining = ChainingStrategy.HEAD  # Feedback is delivered to the head of a chain.
        return IterativeStream(self._env, (Outlet(node.id),), self._type)

    # --- distribution -------------------------------------------------------------------------------------------

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """The stream by key: all records of a key reach one subtask, which has state and timers of the key.

        Takes a callable, a KeySelector, a field's position or name (`"a.b"` for a field of a field), or a tuple of
        those.
        """
        from ._keyed_stream import KeyedStream

        selector = as_selector(key_selector, self._type)
        return KeyedStream(self, selector, require_type(key_type, "key_type"))

    def _distributed(self, partitioning: Partitioning) -> DataStream:
        outlets = tuple(outlet._replace(partitioning=partitioning) for outlet in self._outlets)
        return DataStream(self._env, outlets, self._type)

    def shuffle(self) -> DataStream:
        """At random, evenly; a replay draws the same."""
        return self._distributed(Shuffle())

    def rebalance(self) -> DataStream:
        """Round robin over all subtasks."""
        return self._distributed(Rebalance())

    def rescale(self) -> DataStream:
        """Round robin over the neighbouring subtasks."""
        return self._distributed(Rescale())

    def forward(self) -> DataStream:
        """Subtask i to subtask i."""
        return self._distributed(Forward())

    def global_(self) -> DataStream:
        """All to the first subtask. Also there as `getattr(stream, "global")`, Java's name."""
        return self._distributed(Global())

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        """To the subtask that `partitioner(key, number_of_subtasks)` names."""
        function = require_callable(partitioner, Partitioner, "partition", "partition_custom")
        selector = as_selector(key_selector, self._type)
        return self._distributed(Custom(resolve(function, "partition"), selector))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Every record to every subtask; with descriptors, for a broadcast process function to keep in state."""
        from ._connected_streams import BroadcastStream

        if broadcast_state_descriptor is None:
            return self._distributed(Broadcast())
        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        return BroadcastStream(self, descriptors)

    # --- sinks --------------------------------------------------------------------------------------------------

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Writes each record on the standard output of the program, with the subtask's number before it."""
        sink = self._sink("Print to Std. Out", CollectOperator(printed))
        self._env._program.print_sinks[sink._sink.id] = sink_identifier
        return sink

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Hands each record to a SinkFunction, or to a callable."""
        function = require_callable(sink_func, SinkFunction, "invoke", "add_sink")
        return self._sink("Unnamed", SinkFunctionOperator(function))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Writes to a Sink, whose committer makes things visible once their epoch is safe."""
        if not callable(getattr(sink, "create_writer", None)) or isinstance(sink, type):
            raise ProgramError(
                at_site(f"sink_to takes a Sink, not {short_repr(sink)}."),
                action="Subclass millrace.datastream.connectors.Sink, or use add_sink(...) for a SinkFunction.",
            )
        return self._sink("Writer", SinkOperator(sink))

    def write_as_text(self, path: str) -> DataStreamSink:
        """Writes `str(record)` line by line into files of a directory, exactly once."""
        return self.sink_to(TextFileSink(path)).name("Text File")

    def _sink(self, name: str, operator: Operator) -> DataStreamSink:
        program = self._env._program
        node = program.add(name, operator, (self._outlets,), self._env.get_parallelism(), NodeKind.SINK)
        return DataStreamSink(self._env, node)

    # --- execution ----------------------------------------------------------------------------------------------

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the program and gives this stream's records: an iterator or, with a limit, at most so many in a list."""
        if limit is not None and (type(limit) is not int or limit <= 0):
            raise ProgramError(at_site(f"The limit must be positive, got {limit!r}."))
        results = self.collect_async()._run(job_execution_name or _COLLECT_JOB_NAME)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    def collect_async(self) -> PendingCollect:
        """Marks the stream for collecting; after `env.execute_async()`, iterate over `results(client)`."""
        sink = self._sink("Data stream collect sink", CollectOperator())
        return PendingCollect(self._env, sink._sink.id)

    def cache(self) -> DataStream:
        """Keeping a stream's records for a later job is not there."""
        raise NotSupportedError(
            "cache() is not supported: a job's intermediate records are not kept.",
            action="Write them to files and read those in the next job.",
        )

    # --- windows ------------------------------------------------------------------------------------------------

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """The records of the whole stream by window. One subtask sees them all: prefer windows of keys."""
        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Windows of so many records of the whole stream; with a slide they overlap."""
        return AllWindowedStream(self, count_windows(size, slide))

    def time_window_all(self, size: DurationLike, slide: DurationLike | None = None) -> AllWindowedStream:
        """Short for `window_all` with tumbling event-time windows or, with a slide, sliding ones."""
        return AllWindowedStream(self, time_windows(size, slide))

    def join(self, other: DataStream) -> JoinedStreams:
        """Pairs of records with equal keys in the same window:
        `stream.join(other).where(key).equal_to(key).window(assigner).apply(function)`."""
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """What both streams have of a key in a window, for a CoGroupFunction; written like `join`."""
        return CoGroupedStreams(self, other)

    # --- helpers ------------------------------------------------------------------------------------------------

    def _transform(
        self,
        name: str,
        operator: Operator,
        output_type: TypeInformation | None = None,
        *,
        stream_type: TypeInformation | None = None,
        key_type: TypeInformation | None = None,
    ) -> DataStream:
        """A new operator behind this stream. `stream_type` is known without looking, `output_type` is applied."""
        declared = require_type(output_type, f"output_type of {name!r}")
        return add_operator(self._env, name, operator, (self._outlets,), declared, stream_type, key_type)


def add_operator(
    env: StreamExecutionEnvironment,
    name: str,
    operator: Operator,
    inputs: Sequence[Outlets],
    output_type: TypeInformation | None,
    stream_type: TypeInformation | None = None,
    key_type: TypeInformation | None = None,
) -> DataStream:
    """A new operator behind its inputs, as a stream."""
    node = env._program.add(
        name, operator, inputs, env.get_parallelism(), output_type=output_type, key_type=key_type
    )
    return DataStream(env, (Outlet(node.id),), output_type or stream_type)


def _needs_key(operation: str) -> ProgramError:
    return ProgramError(
        at_site(f"{operation} joins streams by key, and this one has none."),
        action=f"Put key_by(...) in front of {operation}(...).",
    )


def count_windows(size: int, slide: int) -> WindowAssigner[Any, Any]:
    """The assigner that `count_window` stands for."""
    return CountTumblingWindowAssigner(size) if slide == 0 else CountSlidingWindowAssigner(size, slide)


def time_windows(size: DurationLike, slide: DurationLike | None) -> WindowAssigner[Any, Any]:
    """The assigner that `time_window` stands for."""
    return TumblingEventTimeWindows.of(size) if slide is None else SlidingEventTimeWindows.of(size, slide)


class PendingCollect:
    """A stream that the next job collects."""

    def __init__(self, env: StreamExecutionEnvironment, node_id: int) -> None:
        self._env = env
        self._node_id = node_id

    def _run(self, job_name: str) -> CloseableIterator:
        return self.results(self._env.execute_async(job_name))

    def results(self, client: Any) -> CloseableIterator:
        """The records, from the client that `execute_async` gave."""
        return CloseableIterator(client, self._node_id)


setattr(DataStream, "global", DataStream.global_)
