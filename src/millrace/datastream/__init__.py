"""What a program is written with: environment, streams, functions, state, connectors (as ``pyflink.datastream``)."""

from .accumulators import Accumulator, DoubleCounter, Histogram, IntCounter, ListAccumulator, LongCounter
from .checkpoint_config import CheckpointConfig
from .checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage, JobManagerCheckpointStorage
from .checkpointing_mode import CheckpointingMode
from .data_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    IterativeStream,
    KeyedStream,
)
from .execution_mode import RuntimeExecutionMode
from .externalized_checkpoint_retention import ExternalizedCheckpointRetention
from .functions import (
    AggregateFunction,
    AsyncFunction,
    BadRecord,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    ErrorPolicy,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    ListCheckpointed,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from .output_tag import OutputTag
from .slot_sharing_group import MemorySize, SlotSharingGroup
from .state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend, PredefinedOptions, StateBackend
from .stream_execution_environment import StreamExecutionEnvironment
from .time_domain import TimeDomain
from .timerservice import TimerService
from .window import CountWindow, GlobalWindow, TimeWindow, TriggerResult, Window

__all__ = [
    "Accumulator",
    "AggregateFunction",
    "AsyncFunction",
    "BadRecord",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "DoubleCounter",
    "EmbeddedRocksDBStateBackend",
    "ErrorPolicy",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "HashMapStateBackend",
    "Histogram",
    "IntCounter",
    "IterativeStream",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListAccumulator",
    "ListCheckpointed",
    "LongCounter",
    "MapFunction",
    "MemorySize",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "TriggerResult",
    "Window",
]
