"""The search of one key in the state room: what waits for the watermark, the partial matches, and their events.

Events lie in tables of their type, so that nothing is pickled where the stream's type is declared. The partial matches
are a JSON text of numbers and names that is written once per epoch for each key whose matches have changed:

    {"next": 7, "events": [[3, 1500], ...], "steps": [["name", 3, -1], ...], "runs": [["state", 0, 3], ...],
     "held": [["state", 4, 5], ...]}

An event is its number and its timestamp; a step the pattern's name, its event and the step before it; a run the state's
name, its last step and its first event.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import msgspec

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation, Types
from millrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

from .automaton import State
from .matching import Event, Matching, Run, Step


def waiting_descriptor(event_type: TypeInformation | None) -> ListStateDescriptor:
    """The state of the events that wait for the watermark, with their timestamps."""
    pair = None if event_type is None else Types.TUPLE([Types.LONG(), event_type])
    return ListStateDescriptor("cep-waiting", pair)


def matches_descriptor() -> ValueStateDescriptor:
    """The state of the partial matches."""
    return ValueStateDescriptor("cep-matches", Types.STRING())


def events_descriptor(event_type: TypeInformation | None) -> MapStateDescriptor:
    """The state of the events that partial matches hold, by number."""
    return MapStateDescriptor("cep-events", Types.LONG(), event_type)


class Search:
    """The search of one key, in memory for an epoch. `timer` is when its only timer is due."""

    __slots__ = ("_arrived", "_saved", "_saved_events", "_took", "matching", "timer", "waiting")

    def __init__(self) -> None:
        # (timestamp, order of arrival, event), a heap.
        self.waiting: list[tuple[int, int, Any]] = []
        self.matching = Matching()
        self.timer: int | None = None
        self._arrived = 0
        self._saved = 0
        self._took = False
        self._saved_events: set[int] = set()

    def wait(self, timestamp: int, value: Any) -> None:
        """Keep an event until time has come to it."""
        heappush(self.waiting, (timestamp, self._arrived, value))
        self._arrived += 1

    def take_next(self) -> tuple[int, list[Any]]:
        """The earliest timestamp of what waits, and the events that have it, in the order of their arrival."""
        timestamp = self.waiting[0][0]
        values = []
        while self.waiting and self.waiting[0][0] == timestamp:
            values.append(heappop(self.waiting)[2])
        self._took = True
        return timestamp, values


class SearchStore:
    """Reads and writes searches. All methods work on the key that the state room's context names."""

    def __init__(self, keyed: Any, event_type: TypeInformation | None, states: dict[str, State]) -> None:
        self._waiting = keyed.get_state(waiting_descriptor(event_type))
        self._matches = keyed.get_state(matches_descriptor())
        self._events = keyed.get_state(events_descriptor(event_type))
        self._states = states

    def load(self) -> Search:
        """The search of the current key; a new one if there is none."""
        search = Search()
        for timestamp, value in self._waiting.get() or ():
            search.wait(timestamp, value)
        search._saved = search._arrived
        saved = self._matches.value()
        if saved is not None:
            self._read(search, msgspec.json.decode(saved))
        return search

    def _read(self, search: Search, saved: dict[str, Any]) -> None:
        values = dict(self._events.items())
        events = {number: Event(values[number], timestamp, number) for number, timestamp in saved["events"]}
        steps: list[Step] = []
        for page, number, before in saved["steps"]:
            steps.append(Step(page, events[number], steps[before] if before >= 0 else None))

        def run(state: str, last: int, first: int) -> Run:
            return Run(self._state(state), steps[last], events[first])

        search.matching.runs = [run(*one) for one in saved["runs"]]
        search.matching.held = [run(*one) for one in saved["held"]]
        search.matching.next_id = saved["next"]
        search._saved_events = set(events)

    def _state(self, name: str) -> State:
        if name not in self._states:
            raise ProgramError(
                f"The saved state has a partial match at {name!r}, which is not in the pattern.",
                action="Restore with the pattern that the state was made with, or give the operator another uid.",
            )
        return self._states[name]

    def save(self, search: Search) -> None:
        """Write what has changed."""
        in_order = sorted(search.waiting, key=lambda one: one[1])
        if search._took:
            self._waiting.update([(timestamp, value) for timestamp, _, value in in_order])
        elif search._arrived > search._saved:
            self._waiting.add_all([(timestamp, value) for timestamp, _, value in in_order[search._saved :]])
        if search.matching.changed:
            self._save_matches(search)

    def _save_matches(self, search: Search) -> None:
        matching = search.matching
        steps, order = _steps_of(matching)
        events = {step.event.id: step.event for step in order}
        for number in search._saved_events - events.keys():
            self._events.remove(number)
        for number in sorted(events.keys() - search._saved_events):
            self._events.put(number, events[number].value)
        if not matching:
            self._matches.clear()
            return
        text = {
            "next": matching.next_id,
            "events": [[number, event.timestamp] for number, event in sorted(events.items())],
            "steps": [[step.page, step.event.id, -1 if step.before is None else steps[step.before]] for step in order],
            "runs": [[run.state.name, steps[run.last], run.first.id] for run in matching.runs],
            "held": [[run.state.name, steps[run.last], run.first.id] for run in matching.held],
        }
        self._matches.update(msgspec.json.encode(text).decode())


def _steps_of(matching: Matching) -> tuple[dict[Step, int], list[Step]]:
    """The steps of all partial matches, each after the one before it, and the place of each."""
    places: dict[Step, int] = {}
    for run in (*matching.runs, *matching.held):
        new = []
        for step in run.last.back():
            if step in places:
                break
            new.append(step)
        for step in reversed(new):
            places[step] = len(places)
    return places, list(places)
