"""Execution plans for people and tools: Flink's plan JSON, and a drawing of the chains as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from millrace.graph.job_graph import JobPlan, Vertex, plan_job
from millrace.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


def plan_json(graph: StreamGraph) -> str:
    """The plan as Flink's visualizer reads it: one node for each operator, sources first."""
    resolved = plan_job(graph).stream_graph
    nodes = [_node_entry(resolved, node) for _, node in sorted(resolved.nodes.items())]
    return json.dumps({"nodes": nodes}, indent=2)


def _node_entry(graph: StreamGraph, node: StreamNode) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": node.id,
        "type": node.name,
        "pact": node.kind.value,
        "contents": node.description or node.name,
        "parallelism": node.parallelism,
    }
    predecessors = [_predecessor(edge) for edge in graph.inputs(node.id)]
    if predecessors:
        entry["predecessors"] = predecessors
    return entry


def _predecessor(edge: StreamEdge) -> dict[str, Any]:
    assert edge.partitioning is not None
    # Flink writes "second" for every input, and its visualizer does not look.
    return {"id": edge.source, "ship_strategy": edge.partitioning.name, "side": "second"}


def draw_plan(graph: StreamGraph) -> str:
    """The chains as text, level by level, with what each receives and how.

        level 0
          [1] Source: Sequence Source -> Map  x4
        level 1
          [3] KeyedProcess -> Sink: Print to Std. Out  x2
                <- [1] HASH
    """
    plan = plan_job(graph)
    lines: list[str] = []
    for level in range(len(plan.slots)):
        lines.append(f"level {level}")
        for vertex in plan.level(level):
            lines.extend(_draw_vertex(plan, vertex))
    return "\n".join(lines) + "\n"


def _draw_vertex(plan: JobPlan, vertex: Vertex) -> Iterator[str]:
    yield f"  [{vertex.id}] {vertex.name}  x{vertex.parallelism}"
    for edge in vertex.inputs:
        tags = sorted(_tags(plan, edge.source_vertex, vertex, edge.channel))
        side = f" side output {', '.join(map(repr, tags))}" if tags else ""
        which = f" (input {edge.input + 1})" if any(other.input for other in vertex.inputs) else ""
        yield f"        <- [{edge.source_vertex}] {edge.partitioning.name}{side}{which}"


def _tags(plan: JobPlan, source: int, target: Vertex, channel: int) -> Iterator[str]:
    for edge in plan.vertex(source).outputs:
        if edge.target_vertex == target.id and edge.channel == channel and edge.tag is not None:
            yield edge.tag
