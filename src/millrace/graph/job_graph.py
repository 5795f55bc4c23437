"""From the program's operators to the vertices that run: chaining, levels and slots.

    StreamGraph  --chain-->  vertices  --lay out-->  levels of slots  =  JobPlan

A vertex is a chain of operators that hand lists of records to each other in one Python frame each. A level is
one Spark stage; a slot is one partition of it. The plan is plain data: it is shipped to the workers once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from millrace.graph.partitioning import Forward, KeyGroups, Partitioning, Rebalance
from millrace.graph.stream_graph import ChainingStrategy, StreamEdge, StreamGraph, StreamNode
from millrace.state.key_groups import default_max_parallelism


@dataclass(frozen=True)
class ChainLink:
    """An edge inside a chain: the output `tag` of one operator is handed to the next one."""

    source: int
    target: int
    tag: str | None


@dataclass(frozen=True)
class OutEdge:
    """An edge that leaves a vertex, seen from the sender.

    `channel` is the number of the sender's subtask 0 among the target's input channels; the others follow it.
    """

    source_node: int
    tag: str | None
    target_vertex: int
    target_level: int
    target_parallelism: int
    target_slot: int
    target_max_parallelism: int
    partitioning: Partitioning
    channel: int


@dataclass(frozen=True)
class InEdge:
    """An edge that enters a vertex, seen from the receiver; its channels are `channel ... channel + parallelism`."""

    source_vertex: int
    input: int
    channel: int
    parallelism: int
    partitioning: Partitioning


@dataclass(frozen=True)
class Vertex:
    """A chain of operators and its place in the job. `nodes[0]` is the head, which receives all input."""

    id: int
    name: str
    nodes: tuple[StreamNode, ...]
    links: tuple[ChainLink, ...]
    parallelism: int
    max_parallelism: int
    level: int
    slot: int
    inputs: tuple[InEdge, ...] = ()
    outputs: tuple[OutEdge, ...] = ()

    @property
    def channels(self) -> int:
        """How many input channels one subtask has."""
        return sum(edge.parallelism for edge in self.inputs)

    @property
    def keyed(self) -> bool:
        """Whether the head receives records by key."""
        return any(isinstance(edge.partitioning, KeyGroups) for edge in self.inputs)


@dataclass(frozen=True)
class JobPlan:
    """What runs: the vertices, and the number of slots of each level."""

    name: str
    vertices: tuple[Vertex, ...]
    slots: tuple[int, ...]
    stream_graph: StreamGraph = field(repr=False)

    def level(self, level: int) -> list[Vertex]:
        """The vertices of one level."""
        return [vertex for vertex in self.vertices if vertex.level == level]

    def vertex(self, vertex_id: int) -> Vertex:
        """The vertex with this id (the id of its head operator)."""
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)


def plan_job(graph: StreamGraph) -> JobPlan:
    """Chain the graph's operators, and lay the chains out in levels and slots."""
    graph = _resolve_partitionings(graph)
    heads = _chain_heads(graph)
    chains = _collect_chains(graph, heads)
    levels = _levels(graph, heads, chains)
    vertices, slots = _lay_out(chains, levels)
    return JobPlan(graph.name, _connect(graph, heads, vertices), slots, graph)


def _resolve_partitionings(graph: StreamGraph) -> StreamGraph:
    """Give every edge without a strategy Flink's default one."""

    def resolved(edge: StreamEdge) -> StreamEdge:
        if edge.partitioning is not None:
            return edge
        same = graph.nodes[edge.source].parallelism == graph.nodes[edge.target].parallelism
        return replace(edge, partitioning=Forward() if same else Rebalance())

    return replace(graph, edges=[resolved(edge) for edge in graph.edges])


def is_chained(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Whether the two ends of an edge run in one chain, by Flink's rules."""
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    return (
        graph.chaining
        and isinstance(edge.partitioning, Forward)
        and len(graph.inputs(edge.target)) == 1
        and source.parallelism == target.parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and source.chaining is not ChainingStrategy.NEVER
        and target.chaining is ChainingStrategy.ALWAYS
    )


def _chain_heads(graph: StreamGraph) -> dict[int, int]:
    """Which chain (named by its head) each node belongs to."""
    heads: dict[int, int] = {}
    for node_id in _topological(graph):
        chained = [edge for edge in graph.inputs(node_id) if is_chained(graph, edge)]
        heads[node_id] = heads[chained[0].source] if chained else node_id
    return heads


def _topological(graph: StreamGraph) -> list[int]:
    """The nodes, each after all that feed it. Ties keep the order of the program."""
    waiting = {node_id: len(graph.inputs(node_id)) for node_id in sorted(graph.nodes)}
    ready = [node_id for node_id, count in waiting.items() if count == 0]
    order: list[int] = []
    while ready:
        node_id = ready.pop(0)
        order.append(node_id)
        for edge in graph.outputs(node_id):
            waiting[edge.target] -= 1
            if waiting[edge.target] == 0:
                ready.append(edge.target)
    return order


def _collect_chains(graph: StreamGraph, heads: dict[int, int]) -> dict[int, list[StreamNode]]:
    chains: dict[int, list[StreamNode]] = {}
    for node_id in _topological(graph):
        chains.setdefault(heads[node_id], []).append(graph.nodes[node_id])
    return chains


def _levels(graph: StreamGraph, heads: dict[int, int], chains: dict[int, list[StreamNode]]) -> dict[int, int]:
    """Level of each chain: one past the highest level among the chains that feed it."""
    levels: dict[int, int] = {}
    for head, nodes in chains.items():  # in topological order
        feeders = [
            levels[heads[edge.source]]
            for node in nodes
            for edge in graph.inputs(node.id)
            if heads[edge.source] != head
        ]
        levels[head] = max(feeders, default=-1) + 1
    return levels


@dataclass(frozen=True)
class _Placed:
    nodes: tuple[StreamNode, ...]
    level: int
    slot: int
    max_parallelism: int


def _lay_out(
    chains: dict[int, list[StreamNode]], levels: dict[int, int]
) -> tuple[dict[int, _Placed], tuple[int, ...]]:
    """Give each chain its first slot: chains of one slot sharing group and level share slots."""
    width: dict[tuple[int, str], int] = {}
    for head, nodes in chains.items():
        group = (levels[head], nodes[0].slot_sharing_group)
        width[group] = max(width.get(group, 0), nodes[0].parallelism)
    first_slot: dict[tuple[int, str], int] = {}
    slots = [0] * (max(levels.values()) + 1)
    for (level, group_name), parallelism in sorted(width.items()):
        first_slot[level, group_name] = slots[level]
        slots[level] += parallelism
    placed = {}
    for head, nodes in chains.items():
        slot = first_slot[levels[head], nodes[0].slot_sharing_group]
        max_parallelism = nodes[0].max_parallelism or default_max_parallelism(nodes[0].parallelism)
        placed[head] = _Placed(tuple(nodes), levels[head], slot, max_parallelism)
    return placed, tuple(slots)


def _connect(graph: StreamGraph, heads: dict[int, int], placed: dict[int, _Placed]) -> tuple[Vertex, ...]:
    """Number the channels between the chains and build the vertices."""
    inputs: dict[int, list[InEdge]] = {head: [] for head in placed}
    outputs: dict[int, list[OutEdge]] = {head: [] for head in placed}
    links: dict[int, list[ChainLink]] = {head: [] for head in placed}
    for edge in graph.edges:
        source, target = heads[edge.source], heads[edge.target]
        if source == target and is_chained(graph, edge):
            links[source].append(ChainLink(edge.source, edge.target, edge.tag))
        else:
            _wire(edge, source, target, placed, inputs, outputs)
    return tuple(
        Vertex(
            id=head,
            name=" -> ".join(node.name for node in chain.nodes),
            nodes=chain.nodes,
            links=tuple(links[head]),
            parallelism=chain.nodes[0].parallelism,
            max_parallelism=chain.max_parallelism,
            level=chain.level,
            slot=chain.slot,
            inputs=tuple(inputs[head]),
            outputs=tuple(outputs[head]),
        )
        for head, chain in placed.items()
    )


def _wire(
    edge: StreamEdge,
    source: int,
    target: int,
    placed: dict[int, _Placed],
    inputs: dict[int, list[InEdge]],
    outputs: dict[int, list[OutEdge]],
) -> None:
    assert edge.partitioning is not None
    channel = sum(known.parallelism for known in inputs[target])
    sender, receiver = placed[source], placed[target]
    inputs[target].append(
        InEdge(source, edge.input, channel, sender.nodes[0].parallelism, edge.partitioning)
    )
    outputs[source].append(
        OutEdge(
            source_node=edge.source,
            tag=edge.tag,
            target_vertex=target,
            target_level=receiver.level,
            target_parallelism=receiver.nodes[0].parallelism,
            target_slot=receiver.slot,
            target_max_parallelism=receiver.max_parallelism,
            partitioning=edge.partitioning,
            channel=channel,
        )
    )
