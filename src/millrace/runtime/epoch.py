"""What a task is told about an epoch, and what it reports back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from millrace.state.backends import BackendSpec

if TYPE_CHECKING:
    from millrace.runtime.sources.base import Split
    from millrace.state.handles import StateHandles
    from millrace.state.manifest import StateMeta

# A subtask in a job: (vertex id, index).
SubtaskId = tuple[int, int]


@dataclass(frozen=True)
class Restore:
    """What a subtask begins with instead of its own files: those of all old subtasks that may hold something of it.

    They lie in another directory, or were written by a job of another shape.
    """

    directory: str
    handles: tuple[StateHandles, ...]
    allow_pickle: bool


@dataclass(frozen=True)
class EpochInput:
    """An epoch is a function of this and of the records that its splits name.

    `processing_time` stands still for the whole epoch. `final` tells that the job ends with it, `finishing` which
    source vertices do. `keep_state` tells that another epoch may follow, which needs the state. `state` and
    `feedback` name files of the job, by `restore` in place of `state` in the first epoch after a restore.

    With `savepoint`, the state is written to that directory as well. `completed` and `aborted` are the checkpoints
    that functions have to be told of, 0 for none.
    """

    number: int
    processing_time: int
    final: bool = False
    keep_state: bool = True
    finishing: frozenset[int] = frozenset()
    splits: dict[SubtaskId, list[Split]] = field(default_factory=dict)
    state: dict[SubtaskId, StateHandles] = field(default_factory=dict)
    feedback: dict[SubtaskId, list[str]] = field(default_factory=dict)
    restore: dict[SubtaskId, Restore] = field(default_factory=dict)
    savepoint: str | None = None
    completed: int = 0
    aborted: int = 0

    def for_subtasks(self, wanted: set[SubtaskId]) -> EpochInput:
        """The part that some subtasks need."""

        def part(entries: dict[SubtaskId, Any]) -> dict[SubtaskId, Any]:
            return {subtask: entry for subtask, entry in entries.items() if subtask in wanted}

        return replace(
            self,
            splits=part(self.splits),
            state=part(self.state),
            feedback=part(self.feedback),
            restore=part(self.restore),
        )


@dataclass
class OperatorReport:
    """How many records an operator handled in an epoch, and what its function's metrics say."""

    records_in: int = 0
    records_out: int = 0
    records_skipped: int = 0
    watermark: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass
class SubtaskReport:
    """What a subtask has done in an epoch. Nothing of it counts before it stands in the epoch's manifest.

    `attempts` tells for each input channel which task attempts its buffers were made by: two for one channel mean
    that Spark ran the sender again after some of its buffers had been read. `savepoint` are the files that were
    written for one, `described` what there is of state.
    """

    vertex: int
    subtask: int
    attempt: int
    state: StateHandles | None = None
    savepoint: StateHandles | None = None
    described: dict[str, list[StateMeta]] = field(default_factory=dict)
    operators: dict[int, OperatorReport] = field(default_factory=dict)
    accumulators: dict[str, Any] = field(default_factory=dict)
    committables: dict[int, list[Any]] = field(default_factory=dict)
    feedback: dict[int, list[str]] = field(default_factory=dict)
    attempts: dict[int, set[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class JobSettings:
    """What every task of a job needs to know.

    `attempt` counts the job's restarts; `run` is unlike that of every other attempt, also of earlier processes, and
    stands in the names of the files that the tasks write.
    """

    job_id: str
    job_name: str
    directory: str
    attempt: int = 0
    run: str = ""
    backend: Literal["hashmap", "rocksdb"] = "hashmap"
    local_directory: str = ""
    batch_mode: bool = False
    parameters: dict[str, str] = field(default_factory=dict)
    cached_files: dict[str, str] = field(default_factory=dict)
    broadcast_variables: dict[str, Any] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()
    allow_pickle: bool = True

    @property
    def local_state(self) -> Path:
        """Where the workers of one machine keep what they need of state on disk, as long as the attempt lives."""
        return Path(self.local_directory, f"millrace-state-{self.job_id[:8]}-{self.run}")

    @property
    def backend_spec(self) -> BackendSpec:
        """The state backend of each subtask."""
        return BackendSpec(self.backend, "" if self.backend == "hashmap" else str(self.local_state))
