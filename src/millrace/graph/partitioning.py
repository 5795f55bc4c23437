"""How records travel along an edge: Flink's ship strategies, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Partitioning:
    """The common base; `name` is what an execution plan shows."""

    name: ClassVar[str] = "FORWARD"


@dataclass(frozen=True)
class Forward(Partitioning):
    """Subtask i sends to subtask i. The only strategy along which operators chain."""

    name: ClassVar[str] = "FORWARD"


@dataclass(frozen=True)
class Rebalance(Partitioning):
    """Evenly over all subtasks of the target."""

    name: ClassVar[str] = "REBALANCE"


@dataclass(frozen=True)
class Rescale(Partitioning):
    """Evenly over the target's subtasks that stand next to the sending one."""

    name: ClassVar[str] = "RESCALE"


@dataclass(frozen=True)
class Shuffle(Partitioning):
    """Uniformly at random; the draw depends on the record's place in the stream, so a replay draws the same."""

    name: ClassVar[str] = "SHUFFLE"


@dataclass(frozen=True)
class Broadcast(Partitioning):
    """Every record to every subtask; with `first`, before all other records of the epoch."""

    first: bool = False

    name: ClassVar[str] = "BROADCAST"


@dataclass(frozen=True)
class Global(Partitioning):
    """Every record to the first subtask."""

    name: ClassVar[str] = "GLOBAL"


@dataclass(frozen=True)
class KeyGroups(Partitioning):
    """By the key group of each record's key."""

    selector: Callable[[Any], Any]
    name: ClassVar[str] = "HASH"


@dataclass(frozen=True)
class Custom(Partitioning):
    """By the user's partitioner: `partition(key, number_of_targets) -> target`."""

    partition: Callable[[Any, int], int]
    selector: Callable[[Any], Any]
    name: ClassVar[str] = "CUSTOM"
