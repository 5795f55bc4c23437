"""The functions that a program is made of: subclass one, or give a plain callable where one method is enough."""

from millrace.runtime.context import RuntimeContext
from millrace.runtime.operators.base import BadRecord, ErrorPolicy

from .async_retry import AsyncFunctionDescriptor, AsyncRetryPredicate, AsyncRetryStrategy
from .base import (
    AggregateFunction,
    AsyncFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeySelector,
    ListCheckpointed,
    MapFunction,
    Partitioner,
    ReduceFunction,
    SinkFunction,
    SourceFunction,
)
from .joins import ProcessJoinFunction
from .process import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from .window import (
    AllWindowFunction,
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

# Java's rich functions: here every function has open, close and a runtime context.
RichMapFunction = MapFunction
RichFlatMapFunction = FlatMapFunction
RichFilterFunction = FilterFunction
RichReduceFunction = ReduceFunction
RichCoMapFunction = CoMapFunction
RichCoFlatMapFunction = CoFlatMapFunction
RichAggregateFunction = AggregateFunction
RichSinkFunction = SinkFunction
RichSourceFunction = SourceFunction
RichWindowFunction = WindowFunction
RichAllWindowFunction = AllWindowFunction

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BadRecord",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ErrorPolicy",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "ListCheckpointed",
    "MapFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RichAggregateFunction",
    "RichAllWindowFunction",
    "RichCoFlatMapFunction",
    "RichCoMapFunction",
    "RichFilterFunction",
    "RichFlatMapFunction",
    "RichMapFunction",
    "RichReduceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "RichWindowFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "WindowFunction",
]
