"""What a job is told beside its graph: plain data from the environment to whoever runs the job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from millrace.common.restart_strategy import RestartStrategyConfiguration


@dataclass(frozen=True)
class CheckpointOptions:
    """When checkpoints are taken, where they are kept (None: as long as the driver lives), and what becomes of them.

    Times are milliseconds. `retention` tells when the job's end leaves its checkpoints: never, when it failed, or
    also when it was cancelled.
    """

    interval: int
    directory: str | None = None
    min_pause: int = 0
    timeout: int = 600_000
    tolerable_failures: int = 0
    retained: int = 2
    retention: Literal["never", "on-failure", "on-cancellation"] = "never"


@dataclass(frozen=True)
class RestoreOptions:
    """The savepoint or checkpoint that a job begins from."""

    path: str
    allow_non_restored: bool = False
    allow_pickle: bool = False


@dataclass(frozen=True)
class JobOptions:
    """The settings of one job. Whoever runs it may only read them.

    `data_frames` holds for each source that Spark reads a DataFrame or a function that makes one from the
    SparkSession. `print_sinks` names the sinks whose records the driver prints, with their identifiers; the records
    of every other collecting sink are the job's results. `python_path` holds what `sys.path` of the workers needs.

    `script` and `ordinal` (the how-manieth job of the process) tell with the name whether a job that a killed
    process left is this one; `arguments` are the script's. `epoch_records` bounds what an epoch reads of each source.
    """

    job_name: str
    batch_mode: bool = False
    parameters: dict[str, str] = field(default_factory=dict)
    cached_files: dict[str, str] = field(default_factory=dict)
    broadcast_variables: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, str] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()
    data_frames: dict[int, Any] = field(default_factory=dict)
    print_sinks: dict[int, str | None] = field(default_factory=dict)
    max_parallelism: int | None = None
    buffer_timeout: int = 100
    checkpoints: CheckpointOptions | None = None
    restart_strategy: RestartStrategyConfiguration | None = None
    restore: RestoreOptions | None = None
    savepoint_directory: str | None = None
    backend: Literal["hashmap", "rocksdb"] = "hashmap"
    backend_directory: str = ""
    epoch_records: int | None = None
    script: str = ""
    arguments: tuple[str, ...] = ()
    ordinal: int = 1
