"""Small stream graphs, written down."""

from __future__ import annotations

from typing import Any

from millrace.graph.partitioning import Partitioning
from millrace.graph.stream_graph import NodeKind, StreamEdge, StreamGraph, StreamNode
from millrace.runtime.operators.stateless import MapOperator


def same(value: Any) -> Any:
    return value


def node(node_id: int, parallelism: int = 1, operator: Any = None, **settings: Any) -> StreamNode:
    """An operator that passes records on, unless another one is given."""
    chosen = operator or MapOperator(same)
    return StreamNode(node_id, f"op{node_id}", NodeKind.OPERATOR, chosen, parallelism, **settings)


def edge(source: int, target: int, partitioning: Partitioning | None = None, **settings: Any) -> StreamEdge:
    return StreamEdge(source, target, partitioning=partitioning, **settings)


def stream_graph(nodes: list[StreamNode], edges: list[StreamEdge] | None = None, chaining: bool = True) -> StreamGraph:
    return StreamGraph("job", {node.id: node for node in nodes}, edges or [], chaining)
