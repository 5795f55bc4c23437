"""Runs the levels of an epoch in this process, as far as one subtask needs them, and that subtask last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from millrace.driver.replay.archive import ReplayError
from millrace.driver.replay.fitting import refuse_spark_sources
from millrace.graph.job_graph import JobPlan, Vertex
from millrace.graph.partitioning import Forward
from millrace.graph.stream_graph import StreamNode
from millrace.runtime.batch import Batch
from millrace.runtime.epoch import EpochInput, JobSettings, SubtaskId
from millrace.runtime.failure import PROGRAM_ENDS, describe_failure
from millrace.runtime.level_task import LevelTask
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.sinks import SinkFunctionOperator, SinkOperator
from millrace.runtime.router import Outbox
from millrace.runtime.rows import Buffer, Row, decode_buffer
from millrace.runtime.shipping import ShippedJob, load_vertex, publish_classes, ship
from millrace.runtime.subtask import Subtask
from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles, checked


class Overlay:
    """A job's files that can be read, and written in memory only."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        self._written: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return self._written[path] if path in self._written else self._files.read(path)

    def write(self, path: str, data: bytes) -> None:
        """Keep a file in memory."""
        self._written[checked(path)] = bytes(data)

    def list(self, directory: str) -> list[str]:
        """All files below a directory."""
        start = f"{checked(directory).rstrip('/')}/"
        return sorted({*self._files.list(directory), *(path for path in self._written if path.startswith(start))})

    def delete(self, path: str) -> None:
        """Forget a file that was written here; the job's own stay."""
        self._written.pop(path, None)


class WithheldSink(Operator):
    """Stands for a sink: what comes to it goes nowhere."""

    def process(self, batch: Batch, side: int) -> None:
        """Let the records go."""


@dataclass(frozen=True)
class Wanted:
    """The subtask to replay, and the operator of its chain to look at. With `runs_sink` that operator, if it is a
    sink, does its work."""

    vertex: Vertex
    node: StreamNode
    index: int
    runs_sink: bool = False


@dataclass
class Replayed:
    """The wanted subtask as the replay left it. `error` is what it failed with."""

    subtask: Subtask
    error: BaseException | None = None
    inputs: dict[int, int] = field(default_factory=dict)


# Called with the subtask before it runs, and how many records it gets by input.
Prepare = Callable[[Subtask, dict[int, int]], None]


class EpochReplay:
    """One replay. The functions that it opened are closed by `close`."""

    def __init__(
        self, plan: JobPlan, epoch: EpochInput, settings: JobSettings, files: JobFiles, wanted: Wanted
    ) -> None:
        self._plan = plan
        self._epoch = epoch
        self._settings = settings
        self.files = Overlay(files)
        self._wanted = wanted
        self._needed = needed_subtasks(plan, (wanted.vertex.id, wanted.index))
        refuse_spark_sources(plan, {vertex for vertex, _ in self._needed})
        self._shipped: ShippedJob = ship(plan)
        publish_classes(self._shipped.classes)
        self._opened: list[Subtask] = []

    def run(self, prepare: Prepare) -> Replayed:
        """Run what feeds the wanted subtask, and then that. Raises `ReplayError` if it is not even reached."""
        rows: list[Row] = []
        wanted = self._wanted.vertex
        for level in range(wanted.level):
            for slot, placed in enumerate(self._shipped.placement[level]):
                subtasks = [self._subtask(*place) for place in placed if place in self._needed]
                if subtasks:
                    rows += self._feed(level, slot, subtasks, rows)
        subtask = self._subtask(wanted.id, self._wanted.index)
        slot = wanted.slot + self._wanted.index
        share = self._share(rows, wanted.level, slot, {wanted.id})
        replayed = Replayed(subtask, inputs=_records_by_input(subtask.vertex, share))
        prepare(subtask, replayed.inputs)
        try:
            _run(LevelTask(wanted.level, slot, [subtask], self._epoch, Outbox()), share)
        except (Exception, *PROGRAM_ENDS) as error:
            replayed.error = error
        return replayed

    def _feed(self, level: int, slot: int, subtasks: list[Subtask], rows: list[Row]) -> list[Row]:
        share = self._share(rows, level, slot, {subtask.vertex.id for subtask in subtasks})
        try:
            return _run(LevelTask(level, slot, subtasks, self._epoch, Outbox()), share)
        except StateCorruptedError:
            raise
        except (Exception, *PROGRAM_ENDS) as error:
            failure = describe_failure(error, "", (level, slot))
            raise ReplayError(
                f"Operator {failure.operator or subtasks[0].vertex.name!r}, subtask {slot - subtasks[0].vertex.slot}, "
                f"which feeds the wanted one, fails in this epoch: {failure.kind}: {failure.message}\n"
                f"{failure.traceback}".rstrip(),
                action="Replay that operator.",
            ) from error

    def _share(self, rows: Iterable[Row], level: int, slot: int, vertices: set[int]) -> list[Row]:
        here = [row for row in rows if row.level == level and row.slot == slot]
        if len(self._shipped.placement[level][slot]) > 1:
            here = [row for row in here if decode_buffer(row.payload).vertex in vertices]
        return sorted(here, key=lambda row: (row.seq, row.rank))

    def _subtask(self, vertex_id: int, index: int) -> Subtask:
        vertex = load_vertex(self._shipped.vertices[vertex_id])
        for node in vertex.nodes:
            withheld = isinstance(node.operator, (SinkFunctionOperator, SinkOperator))
            if withheld and not (self._wanted.runs_sink and node.id == self._wanted.node.id):
                node.operator = WithheldSink()
        subtask = Subtask(vertex, index, self._settings, self.files)
        self._opened.append(subtask)
        return subtask

    def close(self) -> list[BaseException]:
        """Close all functions; the errors that this brings are given back."""
        return [error for subtask in self._opened for error in subtask.close()]


def needed_subtasks(plan: JobPlan, wanted: SubtaskId) -> set[SubtaskId]:
    """A subtask and all that feed it: each of a vertex, where its records come from all."""
    needed: set[SubtaskId] = set()
    waiting = [wanted]
    while waiting:
        place = waiting.pop()
        if place in needed:
            continue
        needed.add(place)
        vertex_id, index = place
        for edge in plan.vertex(vertex_id).inputs:
            one_to_one = isinstance(edge.partitioning, Forward)
            senders = [index] if one_to_one else range(edge.parallelism)
            waiting += [(edge.source_vertex, sender) for sender in senders]
    return needed


def _run(task: LevelTask, share: Iterable[Row]) -> list[Row]:
    return [row for rows in task.run(share) for row in rows]


def _records_by_input(vertex: Vertex, share: list[Row]) -> dict[int, int]:
    sides = [edge.input for edge in vertex.inputs for _ in range(edge.parallelism)]
    found: dict[int, Any] = dict.fromkeys(sides, 0)
    for row in share:
        buffer: Buffer = decode_buffer(row.payload)
        found[sides[buffer.channel]] += len(buffer.values)
    return found
