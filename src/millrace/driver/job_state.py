"""Where a job stands, and how a manifest says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millrace.driver.committables import encode_committables
from millrace.graph.job_graph import JobPlan
from millrace.runtime.epoch import Restore, SubtaskId
from millrace.runtime.sources.base import Offset
from millrace.state.handles import StateHandles
from millrace.state.manifest import Manifest, OperatorMeta, StateMeta


@dataclass
class JobState:
    """Where the job stands after its last complete epoch: all that the next one needs.

    `restore` takes the place of `subtasks` before the first epoch after a restore. `committables` are what sinks have
    prepared, by node, since the last manifest. `spark` is what Spark's own sources go on from. `final` tells that
    there is no epoch to come.
    """

    epoch: int = 0
    offsets: dict[int, Offset] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    subtasks: dict[SubtaskId, StateHandles] = field(default_factory=dict)
    restore: dict[SubtaskId, Restore] = field(default_factory=dict)
    feedback: dict[SubtaskId, list[str]] = field(default_factory=dict)
    described: dict[str, list[StateMeta]] = field(default_factory=dict)
    committables: dict[int, list[Any]] = field(default_factory=dict)
    spark: dict[str, Any] = field(default_factory=dict)
    final: bool = False

    def files(self) -> set[str]:
        """The files of the job that the next epoch may read."""
        state = {file.path for handles in self.subtasks.values() for file in handles.chain}
        return state.union(*self.feedback.values())


def manifest_of(state: JobState, plan: JobPlan, job_id: str, created: int, backend: str) -> Manifest:
    """The manifest of a checkpoint at which the job stands so."""
    uids = {node.id: node.state_id for vertex in plan.vertices for node in vertex.nodes}
    feedback: dict[str, dict[str, list[str]]] = {}
    for (head, index), paths in state.feedback.items():
        feedback.setdefault(str(head), {})[str(index)] = paths
    return Manifest(
        job_id,
        state.epoch,
        job_name=plan.name,
        created=created,
        backend=backend,
        sources={uids[node_id]: offset for node_id, offset in state.offsets.items()},
        subtasks={
            str(vertex.id): [state.subtasks.get((vertex.id, i), StateHandles()) for i in range(vertex.parallelism)]
            for vertex in plan.vertices
        },
        operators=[
            OperatorMeta(
                node.state_id,
                str(vertex.id),
                vertex.parallelism,
                vertex.max_parallelism,
                node.name,
                state.described.get(node.state_id, []),
            )
            for vertex in plan.vertices
            for node in vertex.nodes
        ],
        feedback=feedback,
        spark=state.spark,
        committables=encode_committables(state.committables, uids),
        finished=sorted(uids[node_id] for node_id in state.finished),
        final=state.final,
    )
