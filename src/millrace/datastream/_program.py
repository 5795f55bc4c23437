"""The program under construction: its operators and streams, and which of them the next job runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation
from millrace.graph.partitioning import KeyGroups, Partitioning
from millrace.graph.stream_graph import DEFAULT_SLOT_SHARING_GROUP, NodeKind, StreamEdge, StreamGraph, StreamNode
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.feedback import FeedbackHead, FeedbackTail
from millrace.runtime.operators.source import SourceOperator

from ._site import call_site

_PREFIXES = {NodeKind.SOURCE: "Source: ", NodeKind.SINK: "Sink: ", NodeKind.OPERATOR: ""}


class Outlet(NamedTuple):
    """One of the streams that a view is made of: an operator's main or side output, and how it is distributed."""

    node_id: int
    tag: str | None = None
    partitioning: Partitioning | None = None


@dataclass
class Program:
    """The nodes and edges of everything that was written so far.

    `pending` lists the operators that the next job runs, with all that feeds them. `slot_groups` holds what was
    set: an operator without an entry takes the group of its inputs, as in Flink.
    """

    graph: StreamGraph = field(default_factory=lambda: StreamGraph(""))
    pending: list[int] = field(default_factory=list)
    slot_groups: dict[int, str] = field(default_factory=dict)
    data_frames: dict[int, Any] = field(default_factory=dict)
    print_sinks: dict[int, str | None] = field(default_factory=dict)
    # Source operators that a limited number of subtasks can read: their largest parallelism.
    limits: dict[int, int] = field(default_factory=dict)

    def add(
        self,
        name: str,
        operator: Operator,
        inputs: Sequence[Sequence[Outlet]],
        parallelism: int,
        kind: NodeKind = NodeKind.OPERATOR,
        **settings: Any,
    ) -> StreamNode:
        """A new operator behind its inputs. Sources alone are no job: they do not become pending."""
        node_id = max(self.graph.nodes, default=0) + 1
        site = call_site()
        node = StreamNode(node_id, _PREFIXES[kind] + name, kind, operator, parallelism, site=site, **settings)
        self.graph.nodes[node_id] = node
        for side, outlets in enumerate(inputs):
            for outlet in outlets:
                self.graph.edges.append(StreamEdge(outlet.node_id, node_id, side, outlet.tag, outlet.partitioning))
        if kind is not NodeKind.SOURCE:
            self.pending.append(node_id)
        return node

    def type_of(self, outlets: Sequence[Outlet]) -> TypeInformation | None:
        """The declared type of the first outlet's operator."""
        return self.graph.nodes[outlets[0].node_id].output_type

    # --- names -------------------------------------------------------------------------------------------

    @staticmethod
    def rename(node: StreamNode, name: str) -> None:
        """Give an operator a name; sources and sinks keep what tells them from the others."""
        node.name = _PREFIXES[node.kind] + name

    @staticmethod
    def plain_name(node: StreamNode) -> str:
        """The name without that prefix."""
        return node.name.removeprefix(_PREFIXES[node.kind])

    # --- the graph of a job --------------------------------------------------------------------------------

    def job_graph(self, name: str, chaining: bool, max_parallelism: int | None, uids_needed: bool) -> StreamGraph:
        """The part that the next job runs, checked, with every setting resolved. A copy: the program may go on."""
        part = self._with_iterations()
        if not part.nodes:
            raise ProgramError(
                "No operators defined in streaming topology. Cannot execute.",
                action="Add a transformation or a sink behind the source, such as .print().",
            )
        nodes = {node_id: replace(node) for node_id, node in sorted(part.nodes.items())}
        graph = StreamGraph(name, nodes, part.edges, chaining)
        for node in nodes.values():
            node.max_parallelism = node.max_parallelism or max_parallelism
            node.slot_sharing_group = self._slot_group(graph, node)
            if isinstance(node.operator, FeedbackTail):
                node.parallelism = nodes[node.operator.head].parallelism
        _check_uids(graph, uids_needed)
        _check_parallelism(graph)
        _check_keys(graph)
        return graph

    def _with_iterations(self) -> StreamGraph:
        """What is pending and all that feeds it. An iteration that is in it comes whole, with its feedback."""
        roots = list(self.pending)
        tails = [node for node in self.graph.nodes.values() if isinstance(node.operator, FeedbackTail)]
        while True:
            part = self.graph.upstream_closure(roots)
            missing = [tail.id for tail in tails if tail.operator.head in part.nodes and tail.id not in part.nodes]
            if not missing:
                break
            roots += missing
        closed = {tail.operator.head for tail in tails}
        for node in part.nodes.values():
            if isinstance(node.operator, FeedbackHead) and node.id not in closed:
                raise ProgramError(
                    f"The iteration {node.name!r} has no feedback (at {node.site}).",
                    action="Call close_with(feedback_stream) on what iterate() gave you.",
                )
        return part

    def _slot_group(self, graph: StreamGraph, node: StreamNode) -> str:
        if node.id in self.slot_groups:
            return self.slot_groups[node.id]
        groups = {graph.nodes[edge.source].slot_sharing_group for edge in graph.inputs(node.id)}
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


def label(node: StreamNode) -> str:
    """An operator in an error message: its name and where it was made."""
    return f"{node.name!r} (at {node.site})" if node.site else repr(node.name)


def is_bounded(graph: StreamGraph) -> bool:
    """Whether every source ends."""
    return all(node.bounded for node in graph.nodes.values() if isinstance(node.operator, SourceOperator))


def iterates(graph: StreamGraph) -> bool:
    """Whether records are fed back somewhere."""
    return any(isinstance(node.operator, FeedbackTail) for node in graph.nodes.values())


def _check_uids(graph: StreamGraph, needed: bool) -> None:
    seen: dict[str, StreamNode] = {}
    for node in graph.nodes.values():
        if node.uid is None:
            if needed:
                raise ProgramError(
                    f"Operator {label(node)} has no uid, and automatic ones are disabled.",
                    action="Call .uid(...) on it, or enable_auto_generated_uids() on the configuration.",
                )
            continue
        other = seen.setdefault(node.uid, node)
        if other is not node:
            raise ProgramError(
                f"The uid {node.uid!r} belongs to two operators: {label(other)} and {label(node)}.",
                action="Give each operator its own: state is found by it.",
            )


def _check_parallelism(graph: StreamGraph) -> None:
    for node in graph.nodes.values():
        if node.max_parallelism is not None and node.parallelism > node.max_parallelism:
            raise ProgramError(
                f"Operator {label(node)} has parallelism {node.parallelism}, more than its max parallelism "
                f"{node.max_parallelism}.",
                action="Lower the parallelism, or raise the max parallelism.",
            )


def _check_keys(graph: StreamGraph) -> None:
    for node in graph.nodes.values():
        if not node.operator.keyed:
            continue
        if not any(isinstance(edge.partitioning, KeyGroups) for edge in graph.inputs(node.id)):
            raise ProgramError(
                f"Operator {label(node)} keeps state for each key, but its input has no key.",
                action="Put key_by(...) in front of it.",
            )
