"""The program as its author wrote it: one node for each operator, one edge for each stream between two."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from millrace.graph.partitioning import Partitioning

if TYPE_CHECKING:
    from millrace.common.typeinfo import TypeInformation

DEFAULT_SLOT_SHARING_GROUP = "default"


class ChainingStrategy(Enum):
    """Where an operator may stand in a chain, as in Flink."""

    ALWAYS = "ALWAYS"
    HEAD = "HEAD"
    NEVER = "NEVER"


class NodeKind(Enum):
    """What a node is in an execution plan."""

    SOURCE = "Data Source"
    OPERATOR = "Operator"
    SINK = "Data Sink"


@dataclass
class StreamNode:
    """One operator of the program, with the settings that its author gave it.

    `operator` is the runtime operator before it is opened; each subtask works on its own copy.
    `site` is the line of the program that made the node, for error messages.
    """

    id: int
    name: str
    kind: NodeKind
    operator: Any
    parallelism: int
    max_parallelism: int | None = None
    uid: str | None = None
    description: str | None = None
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    output_type: TypeInformation | None = None
    site: str = ""
    parallelism_set: bool = False
    buffer_timeout: int | None = None
    key_type: TypeInformation | None = None
    bounded: bool = True

    @property
    def state_id(self) -> str:
        """What the operator's state is stored under: its uid or, without one, its place in the program."""
        return self.uid if self.uid is not None else f"@{self.id}"


@dataclass(frozen=True)
class StreamEdge:
    """A stream from one node to one input of another.

    `tag` names the side output that it carries (None: the main output). `partitioning` None means what Flink
    does by default: forward between equal parallelisms, rebalance between different ones.
    """

    source: int
    target: int
    input: int = 0
    tag: str | None = None
    partitioning: Partitioning | None = None


@dataclass
class StreamGraph:
    """The nodes and edges of one job."""

    name: str
    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)
    chaining: bool = True

    def inputs(self, node_id: int) -> list[StreamEdge]:
        """The edges into a node, in the order in which they were made."""
        return [edge for edge in self.edges if edge.target == node_id]

    def outputs(self, node_id: int) -> list[StreamEdge]:
        """The edges out of a node, in the order in which they were made."""
        return [edge for edge in self.edges if edge.source == node_id]

    def upstream_closure(self, roots: list[int]) -> StreamGraph:
        """The part of the graph that the roots need: themselves and all that feeds them."""
        wanted: set[int] = set()
        stack = list(roots)
        while stack:
            node_id = stack.pop()
            if node_id not in wanted:
                wanted.add(node_id)
                stack.extend(edge.source for edge in self.inputs(node_id))
        return StreamGraph(
            self.name,
            {node_id: node for node_id, node in self.nodes.items() if node_id in wanted},
            [edge for edge in self.edges if edge.source in wanted and edge.target in wanted],
            self.chaining,
        )
