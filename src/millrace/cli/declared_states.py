"""Which state a program's operators would ask for: learned by opening its functions here, with state in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from millrace.cli.info import PlannedJob, PlanningExecutor
from millrace.common.errors import MillraceError
from millrace.common.job_id import JobID
from millrace.graph.job_graph import Vertex, plan_job
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph, StreamNode
from millrace.runtime.epoch import JobSettings
from millrace.runtime.subtask import Subtask
from millrace.state.errors import StateCorruptedError
from millrace.state.manifest import OperatorMeta, StateMeta
from millrace.state.tables import Table


@dataclass(frozen=True)
class DeclaredOperator:
    """An operator of the program, as a savepoint of it would describe it.

    `declared` holds the types as the program has them, by section, name and role. `unknown` says why the states are
    not known. `fixed` tells that the program itself chose the max parallelism.
    """

    meta: OperatorMeta
    types: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    unknown: str = ""
    fixed: bool = False


@dataclass(frozen=True)
class DeclaredJob:
    """A job of the program."""

    name: str
    operators: list[DeclaredOperator]


class DeclaringExecutor(PlanningExecutor):
    """Takes jobs as an executor does, and asks their functions for their states instead of running them."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[DeclaredJob] = []

    def submit(self, graph: StreamGraph, job: JobOptions) -> PlannedJob:
        """Take a job. Its functions are opened now, while the script's modules are as the job would find them."""
        planned = super().submit(graph, job)
        operators = [op for vertex in plan_job(graph).vertices for op in declared_operators(vertex, job)]
        self.jobs.append(DeclaredJob(graph.name, operators))
        return planned


class _NoFiles:
    """The files of a job that has none yet, and will not write any."""

    def read(self, path: str) -> bytes:
        raise StateCorruptedError("the file is missing", path=path)

    def write(self, path: str, data: bytes) -> None:
        """Forget it."""

    def list(self, directory: str) -> list[str]:
        return []

    def delete(self, path: str) -> None:
        """There is nothing."""


def declared_operators(vertex: Vertex, job: JobOptions) -> Iterator[DeclaredOperator]:
    """The operators of a chain, with the states that they ask for when they are opened."""
    try:
        own_copy: Vertex = cloudpickle.loads(cloudpickle.dumps(vertex))
        subtask = Subtask(own_copy, 0, _settings(job), _NoFiles())
    except Exception as error:
        for node in vertex.nodes:
            yield DeclaredOperator(_meta(vertex, node, []), unknown=_reason(error))
        return
    failures = {node.id: _open(subtask, node.id) for node in reversed(own_copy.nodes)}
    found = subtask.state.describe()
    for node in vertex.nodes:
        types = _types(subtask, node)
        meta = _meta(vertex, node, found.get(node.state_id, []))
        yield DeclaredOperator(meta, types, failures[node.id], node.max_parallelism is not None)


def _settings(job: JobOptions) -> JobSettings:
    """Of a job that does not run: what `open` may ask for."""
    return JobSettings(
        JobID().to_hex_string(),
        job.job_name,
        directory="",
        batch_mode=job.batch_mode,
        parameters=dict(job.parameters),
        cached_files=dict(job.cached_files),
        broadcast_variables=dict(job.broadcast_variables),
    )


def _open(subtask: Subtask, node_id: int) -> str:
    """Open and close an operator's function; returns why that failed, or nothing."""
    operator = subtask.operators[node_id]
    try:
        operator.open()
        operator.restore()
        operator.close()
    except Exception as error:
        return _reason(error)
    return ""


def _reason(error: BaseException) -> str:
    text = error.message if isinstance(error, MillraceError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _types(subtask: Subtask, node: StreamNode) -> dict[tuple[str, str], dict[str, Any]]:
    backends = subtask.backends(node)
    tables: list[tuple[str, Table]] = [("keyed", table) for table in backends.keyed.tables()]
    tables += [("operator", table) for table in backends.operator.tables()]
    tables += [("timers", table) for table in backends.timers.tables()]
    return {
        (section, table.name): {role: codec.type_info for role, codec in table.codecs.items()}
        for section, table in tables
    }


def _meta(vertex: Vertex, node: StreamNode, states: list[StateMeta]) -> OperatorMeta:
    max_parallelism = node.max_parallelism or vertex.max_parallelism
    return OperatorMeta(node.state_id, str(vertex.id), vertex.parallelism, max_parallelism, node.name, states)
