"""What a job is told beside its graph: plain data from the environment to whoever runs the job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class JobOptions:
    """The settings of one job. Whoever runs it may only read them.

    `data_frames` holds for each source that Spark reads a DataFrame or a function that makes one from the
    SparkSession. `print_sinks` names the sinks whose records the driver prints, with their identifiers; the records
    of every other collecting sink are the job's results. `python_path` holds what `sys.path` of the workers needs.
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
    checkpoint_interval: int | None = None
