"""Values and descriptions: types, rows, time, configuration, watermark strategies (as ``pyflink.common``)."""

from .completable_future import CompletableFuture
from .config_options import ConfigOption, ConfigOptions
from .configuration import Configuration
from .errors import (
    ConfigurationError,
    DecodingError,
    JobCancelledError,
    JobExecutionError,
    JvmOnlyError,
    KeyHashError,
    MillraceError,
    NotSupportedError,
    ProgramError,
    ShippingError,
    TypeMismatchError,
)
from .execution_config import ExecutionConfig
from .input_dependency_constraint import InputDependencyConstraint
from .job_client import JobClient
from .job_execution_result import JobExecutionResult
from .job_id import JobID
from .job_status import JobStatus
from .restart_strategy import RestartStrategies, RestartStrategyConfiguration
from .serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from .serializer import TypeSerializer
from .time import MAX_WATERMARK, MIN_TIMESTAMP, Duration, Instant, Time
from .typeinfo import TypeInformation, Types
from .types import Row, RowKind
from .watermark_strategy import AssignerWithPeriodicWatermarksWrapper, TimestampAssigner, WatermarkStrategy
from .watermarks import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
)

__all__ = [
    "AscendingTimestampsWatermarks",
    "AssignerWithPeriodicWatermarksWrapper",
    "BoundedOutOfOrdernessWatermarks",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "ConfigurationError",
    "DecodingError",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobCancelledError",
    "JobClient",
    "JobExecutionError",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "JvmOnlyError",
    "KeyHashError",
    "MAX_WATERMARK",
    "MIN_TIMESTAMP",
    "MillraceError",
    "NoWatermarksGenerator",
    "NotSupportedError",
    "ProgramError",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "ShippingError",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeMismatchError",
    "TypeSerializer",
    "Types",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]
