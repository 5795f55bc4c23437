"""How far the search for a pattern is in the events of one key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .automaton import State

# The events of a match by the names of their patterns.
Match = dict[str, list[Any]]


class Event:
    """An event, numbered once a partial match holds it."""

    __slots__ = ("id", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int, id: int = -1) -> None:
        self.value = value
        self.timestamp = timestamp
        self.id = id


class Step:
    """An event in its place in a partial match, and what came before it. Partial matches share their beginnings."""

    __slots__ = ("before", "event", "page")

    def __init__(self, page: str, event: Event, before: Step | None) -> None:
        self.page = page
        self.event = event
        self.before = before

    def back(self) -> Iterator[Step]:
        """The steps from this one to the first."""
        step: Step | None = self
        while step is not None:
            yield step
            step = step.before

    def path(self) -> dict[str, list[Event]]:
        """The events by the names of their patterns, oldest first."""
        found: dict[str, list[Event]] = {}
        for step in reversed(list(self.back())):
            found.setdefault(step.page, []).append(step.event)
        return found


class Run:
    """A partial match: the state that it has reached, its last step and its first event."""

    __slots__ = ("first", "last", "state")

    def __init__(self, state: State, last: Step, first: Event) -> None:
        self.state = state
        self.last = last
        self.first = first


@dataclass
class Matching:
    """The partial matches of a key, in the order in which they began.

    `held` are complete matches that wait for partial matches that began earlier (see AfterMatchSkipStrategy).
    """

    runs: list[Run] = field(default_factory=list)
    held: list[Run] = field(default_factory=list)
    next_id: int = 0
    changed: bool = False

    def __bool__(self) -> bool:
        return bool(self.runs or self.held)


def values_of(path: dict[str, list[Event]]) -> Match:
    """The events themselves."""
    return {page: [event.value for event in events] for page, events in path.items()}
