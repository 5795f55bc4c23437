"""Epoch records: what is needed to run an epoch again, at a desk, after it has completed or failed.

    epochs/<epoch>.epoch             of each checkpoint that is kept: the epoch that it completed
    epochs/<epoch>.failed.epoch      of the epoch that failed last

An epoch is a function of where the job stood before it and of what its sources gave. A record holds the first and
names the second; the state files that it needs are kept as long as it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from millrace.driver.job_state import JobState, manifest_of
from millrace.graph.job_graph import JobPlan, Vertex
from millrace.graph.stream_graph import StreamNode
from millrace.runtime.epoch import EpochInput, Restore, SubtaskId
from millrace.runtime.failure import TaskFailure
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.sources.base import Offset
from millrace.state.errors import StateError
from millrace.state.files import JobFiles
from millrace.state.handles import StateHandles
from millrace.state.manifest import Manifest
from millrace.state.sealed import seal, unseal

_LOG = logging.getLogger("millrace.job")

RECORD_VERSION = 1
DIRECTORY = "epochs"

_WHAT = "epoch record"


class RestoredFrom(msgspec.Struct, frozen=True):
    """What all subtasks of a vertex began from in the first epoch after a restore. An empty `directory` is the job's
    own, wherever that is by now."""

    directory: str
    handles: list[StateHandles]
    allow_pickle: bool


class FailureRecord(msgspec.Struct, frozen=True):
    """Why an epoch failed, and in which subtask of which operator (`uid` is empty where that is not known)."""

    kind: str
    message: str
    uid: str = ""
    subtask: int = -1
    location: str = ""
    record: str | None = None


class EpochRecord(msgspec.Struct, frozen=True):
    """An epoch as it was run. `before` tells where the job stood, `ends` how far the sources were to be read.

    `spark_sources` are the uids of the sources that Spark read: what they gave is not in the record.
    """

    epoch: int
    attempt: int
    processing_time: int
    before: Manifest
    ends: dict[str, Any]
    finishing: list[str] = []
    spark_sources: list[str] = []
    final: bool = False
    keep_state: bool = True
    completed: int = 0
    aborted: int = 0
    restore: dict[str, RestoredFrom] = {}
    created: int = 0
    failure: FailureRecord | None = None
    format: int = RECORD_VERSION

    @property
    def path(self) -> str:
        """Where it is. Sorted by name is sorted by epoch."""
        return f"{DIRECTORY}/{self.epoch:012d}{'' if self.failure is None else '.failed'}.epoch"

    def files(self) -> set[str]:
        """The files of the job that the epoch reads."""
        own = (restored for restored in self.restore.values() if not restored.directory)
        old = (handle.path for restored in own for handles in restored.handles for handle in handles.chain)
        return self.before.files().union(old)

    def restores(self, directory: str, plan: JobPlan) -> dict[SubtaskId, Restore]:
        """What the subtasks begin from in place of their own files."""
        return {
            (vertex.id, index): Restore(saved.directory or directory, tuple(saved.handles), saved.allow_pickle)
            for vertex in plan.vertices
            if (saved := self.restore.get(str(vertex.id))) is not None
            for index in range(vertex.parallelism)
        }


def encode_record(record: EpochRecord) -> bytes:
    """The bytes of a record's file."""
    return seal(_WHAT.replace(" ", "-"), RECORD_VERSION, record)


def decode_record(data: bytes, path: str) -> EpochRecord:
    """The record in a file; `StateCorruptedError`, with the path, unless it is whole."""
    return unseal(_WHAT.replace(" ", "-"), RECORD_VERSION, data, path, EpochRecord)


# --- making a record ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BegunEpoch:
    """An epoch that is running, and where the job stood before it."""

    epoch: EpochInput
    ends: dict[int, Offset]
    before: JobState
    attempt: int


def record_of(begun: BegunEpoch, plan: JobPlan, job_id: str, directory: str, backend: str) -> EpochRecord:
    """The record of an epoch that has completed."""
    epoch = begun.epoch
    uids = {node.id: node.state_id for vertex in plan.vertices for node in vertex.nodes}
    now = int(time.time() * 1000)
    return EpochRecord(
        epoch.number,
        begun.attempt,
        epoch.processing_time,
        # What the sinks had prepared belongs to the epochs before.
        manifest_of(replace(begun.before, committables={}), plan, job_id, now, backend),
        {uids[node_id]: offset for node_id, offset in begun.ends.items()},
        sorted(uids[node_id] for node_id in epoch.finishing),
        sorted(_spark_sources(plan)),
        epoch.final,
        epoch.keep_state,
        epoch.completed,
        epoch.aborted,
        {str(vertex): _restored(restore, directory) for (vertex, index), restore in epoch.restore.items() if not index},
        now,
    )


def _spark_sources(plan: JobPlan) -> Iterator[str]:
    for vertex in plan.vertices:
        operator = vertex.nodes[0].operator
        if isinstance(operator, SourceOperator) and operator.source is None:
            yield vertex.nodes[0].state_id


def _restored(restore: Restore, directory: str) -> RestoredFrom:
    where = "" if restore.directory == directory else restore.directory
    return RestoredFrom(where, list(restore.handles), restore.allow_pickle)


def failure_record(error: Exception, failure: TaskFailure | None, plan: JobPlan) -> FailureRecord:
    """What a record says of an epoch that failed, be it in a task (`failure`) or around it."""
    if failure is None:
        return FailureRecord(type(error).__name__, str(error))
    found = _failed_operator(failure, plan)
    uid, subtask = ("", -1) if found is None else (found[1].state_id, found[2])
    return FailureRecord(failure.kind, failure.message, uid, subtask, failure.location, failure.record)


def _failed_operator(failure: TaskFailure, plan: JobPlan) -> tuple[Vertex, StreamNode, int] | None:
    if failure.place is None:
        return None
    level, slot = failure.place
    here = [
        (vertex, node, slot - vertex.slot)
        for vertex in plan.level(level)
        if vertex.slot <= slot < vertex.slot + vertex.parallelism
        for node in vertex.nodes
    ]
    named = [place for place in here if place[1].name == failure.operator]
    if named or failure.operator or len({vertex.id for vertex, _, _ in here}) > 1:
        return named[0] if named else None
    return here[0] if here else None


# --- the records of a job -----------------------------------------------------------------------------------------


def read_records(files: JobFiles) -> tuple[list[EpochRecord], list[StateError]]:
    """The records of a job, oldest epoch first, and what is wrong with those that cannot be read."""
    found: list[EpochRecord] = []
    damaged: list[StateError] = []
    for path in files.list(DIRECTORY):
        if path.endswith(".epoch"):
            try:
                found.append(decode_record(files.read(path), path))
            except StateError as error:
                damaged.append(error)
    return sorted(found, key=lambda record: (record.epoch, record.attempt)), damaged


class EpochRecords:
    """The records that a running job keeps. A record is a help, not a need: where one cannot be written, the job goes
    on without it."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        self._kept: dict[str, EpochRecord] = {}

    def load(self) -> None:
        """Count as kept what earlier processes have left."""
        records, damaged = read_records(self._files)
        for error in damaged:
            _LOG.warning("An epoch record is left out: %s", error)
        self._kept = {record.path: record for record in records}

    def files(self) -> set[str]:
        """The files that the kept records need."""
        return set().union(*(record.files() for record in self._kept.values()))

    def put(self, record: EpochRecord) -> None:
        """Keep a record; one of a failed epoch in place of the one before."""
        try:
            self._files.write(record.path, encode_record(record))
        except (OSError, TypeError) as error:
            _LOG.warning("Epoch %d cannot be replayed later, for its record was not written: %s", record.epoch, error)
            return
        self._kept[record.path] = record
        if record.failure is not None:
            self._drop(lambda old: old.failure is not None and old.path != record.path)

    def keep_only(self, checkpoints: Collection[int]) -> None:
        """Forget the completed epochs that have no checkpoint any more."""
        self._drop(lambda record: record.failure is None and record.epoch not in checkpoints)

    def _drop(self, unwanted: Any) -> None:
        for path, record in list(self._kept.items()):
            if unwanted(record):
                del self._kept[path]
                self._files.delete(path)
