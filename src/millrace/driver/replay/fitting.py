"""A program and a record become an epoch to run: the plan as it was, and what its tasks were told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from millrace.driver.coordinator import Coordinator
from millrace.driver.epoch_records import EpochRecord
from millrace.driver.replay.archive import ReplayError
from millrace.driver.restoring import Origin, job_state_of
from millrace.graph.job_graph import JobPlan, plan_job
from millrace.graph.stream_graph import StreamGraph
from millrace.runtime.epoch import EpochInput
from millrace.runtime.operators.source import SourceOperator
from millrace.state.files import JobFiles


def plan_as_recorded(graph: StreamGraph, record: EpochRecord) -> JobPlan:
    """The plan of the run, by a program that may have been mended since. Raises `ReplayError` where it does not fit.

    The run's parallelism counts, whatever the program would have by itself.
    """
    known = {meta.uid: meta for meta in record.before.operators}
    for node in graph.nodes.values():
        meta = known.get(node.state_id)
        if meta is not None:
            node.parallelism, node.max_parallelism = meta.parallelism, meta.max_parallelism
    plan = plan_job(graph)
    differences = list(_differences(plan, record))
    if differences:
        raise ReplayError(
            "The program is not the one that ran: " + "; ".join(differences) + ".",
            action="Give with --job a program with the same operators under the same uids; what their functions do may "
            "differ.",
        )
    return plan


def _differences(plan: JobPlan, record: EpochRecord) -> Iterator[str]:
    then = {meta.uid: meta for meta in record.before.operators}
    now = {node.state_id: (node, str(vertex.id)) for vertex in plan.vertices for node in vertex.nodes}
    for uid, meta in then.items():
        if uid not in now:
            yield f"it has no operator {uid!r} ({meta.name})"
        elif meta.vertex != now[uid][1]:
            yield f"{uid!r} ({meta.name}) is chained in another way, or stands at another place"
    for uid, (node, _) in now.items():
        if uid not in then:
            yield f"{uid!r} ({node.name}) is new" + (f" at {node.site}" if node.site else "")


def epoch_as_recorded(plan: JobPlan, record: EpochRecord, directory: str, files: JobFiles) -> EpochInput:
    """What the tasks of the epoch were told."""
    before = record.before
    state = job_state_of(plan, Origin(before, directory, own=True), files, before.backend)
    state = replace(state, restore=record.restores(directory, plan))
    nodes = {node.state_id: node.id for vertex in plan.vertices for node in vertex.nodes}
    ends = {nodes[uid]: offset for uid, offset in record.ends.items() if uid in nodes}
    coordinator = Coordinator(plan, state=state)
    unknown = set(coordinator.own_sources) - state.finished - set(ends)
    if unknown:
        raise ReplayError(f"The record does not say how far the sources {sorted(unknown)} were read.")
    return replace(
        coordinator.epoch_of_range(ends, record.processing_time, final=record.final),
        keep_state=record.keep_state,
        finishing=frozenset(nodes[uid] for uid in record.finishing if uid in nodes),
        completed=record.completed,
        aborted=record.aborted,
    )


def refuse_spark_sources(plan: JobPlan, vertices: set[int]) -> None:
    """What Spark has read is not there without Spark."""
    for vertex in plan.vertices:
        operator = vertex.nodes[0].operator
        if vertex.id in vertices and isinstance(operator, SourceOperator) and operator.source is None:
            raise ReplayError(
                f"{vertex.nodes[0].name!r} is read by Spark (from_data_frame), and a replay runs without Spark: its "
                "records cannot be had again.",
                action="Replay an operator that it does not feed, or test the function with millrace.testing.",
            )
