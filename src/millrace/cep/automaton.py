"""What a pattern is compiled to: states, and edges that an event may take. Pure data, shipped to the workers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from .conditions import Condition
from .skip import AfterMatchSkipStrategy


class Action(Enum):
    """What an edge does with the event."""

    TAKE = "take"
    IGNORE = "ignore"
    #: The event is looked at by the edges of the target: the two states are one, under a condition.
    PROCEED = "proceed"


class Kind(Enum):
    """What it means to be in a state."""

    NORMAL = "normal"
    #: The match is complete.
    FINAL = "final"
    #: Something was found that must not be: the partial match is discarded.
    STOP = "stop"
    #: The match is complete once the time is over.
    PENDING = "pending"


@dataclass(eq=False)
class State:
    """A state. `page` is the name of the pattern that it was made for: under it, events stand in a match."""

    name: str
    page: str
    kind: Kind = Kind.NORMAL
    edges: list[Edge] = field(default_factory=list, repr=False)
    start: bool = False
    #: How much less than this an event that is taken here must be away from the one before it, in milliseconds.
    gap: int | None = None
    #: Whether a partial match that waits here times out when the gap is over. It does not where it can go on.
    expires: bool = False

    def add(self, action: Action, target: State, condition: Condition) -> None:
        """Add an edge."""
        self.edges.append(Edge(action, target, condition))


@dataclass(eq=False)
class Edge:
    """A way out of a state."""

    action: Action
    target: State
    condition: Condition


@dataclass
class Automaton:
    """A compiled pattern. `window` limits the time from the first event to the last, in milliseconds."""

    start: State
    states: tuple[State, ...]
    window: int | None
    skip_strategy: AfterMatchSkipStrategy

    def __getstate__(self) -> dict[str, Any]:
        """Edges as the numbers of their states: a chain of many states would be too deep for pickle."""
        numbers = {state: number for number, state in enumerate(self.states)}
        edges = [[(edge.action, numbers[edge.target], edge.condition) for edge in state.edges] for state in self.states]
        bare = tuple(replace(state, edges=[]) for state in self.states)
        return {**self.__dict__, "start": numbers[self.start], "states": bare, "edges": edges}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        edges, states = saved.pop("edges"), saved["states"]
        for state, out in zip(states, edges, strict=True):
            for action, target, condition in out:
                state.add(action, states[target], condition)
        self.__dict__.update(saved, start=states[saved["start"]])
