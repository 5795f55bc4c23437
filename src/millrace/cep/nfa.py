"""Runs an automaton over the events of a key. Pure: time comes in as a number, state as a `Matching`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, is_not
from typing import Any, NamedTuple

from .automaton import Action, Automaton, Kind, State
from .conditions import NEVER, Binder, IterativeCondition, Test
from .matching import Event, Match, Matching, Run, Step, values_of

_began = attrgetter("first.id")


class Outcome(NamedTuple):
    """What time has brought: a complete match, or a partial one that timed out."""

    match: Match
    timestamp: int
    complete: bool


class _BoundEdge(NamedTuple):
    """An edge with its test, and what is known of the state that it leaves."""

    action: Action
    target: State
    test: Test | None
    page: str
    gap: int | None


@dataclass(slots=True)
class _Context(IterativeCondition.Context):
    """The context of iterative conditions. It lives for one event and one partial match."""

    last: Step | None
    event: Event
    processing_time: Callable[[], int]
    found: Match | None = None

    def get_events_for_pattern(self, name: str) -> list[Any]:
        if self.found is None:
            self.found = {} if self.last is None else values_of(self.last.path())
        return list(self.found.get(name, ()))

    def timestamp(self) -> int:
        return self.event.timestamp

    def current_processing_time(self) -> int:
        return self.processing_time()


class NFA:
    """An automaton at work. One serves all keys.

    >>> from millrace.cep import Pattern
    >>> from millrace.cep.compiler import compile_pattern
    >>> pattern = Pattern.begin("a").where(str.islower).followed_by("b").where(str.isupper)
    >>> nfa, matching = NFA(compile_pattern(pattern)), Matching()
    >>> [nfa.process(matching, letter, time) for time, letter in enumerate("x1Y")]
    [[], [], [{'a': ['x'], 'b': ['Y']}]]
    """

    def __init__(
        self, automaton: Automaton, times_out: bool = False, processing_time: Callable[[], int] = lambda: 0
    ) -> None:
        binder = Binder()
        self._edges = {state: _bound(state, binder) for state in automaton.states}
        # The states whose events are looked at by no other state.
        self._closed = {state for state, edges in self._edges.items() if not any(map(_opens, edges))}
        self._iterative = binder.iterative
        self._start = automaton.start
        self._window = automaton.window
        self._strategy = automaton.skip_strategy
        self._gaps = any(state.expires for state in automaton.states)
        self._times_out = times_out
        self._processing_time = processing_time
        self.states = {state.name: state for state in automaton.states}

    #: Whether any partial match took the event that is being processed.
    _taken = False

    # --- events -------------------------------------------------------------------------------------------------

    def process(self, matching: Matching, value: Any, timestamp: int) -> list[Match]:
        """Let the partial matches see an event; the matches that came of it. Time was advanced to it before.

        A condition that fails leaves everything as it was.
        """
        event = Event(value, timestamp, matching.next_id)
        self._taken = False
        runs: list[Run] = []
        complete: list[Run] = []
        for run in matching.runs:
            self._follow(run, event, runs, complete)
        self._begin(event, runs, complete)
        if self._taken:
            matching.next_id += 1
            matching.changed = True
        elif complete or len(runs) != len(matching.runs) or any(map(is_not, runs, matching.runs)):
            matching.changed = True
        matching.runs = runs
        return self._settle(matching, complete) if complete or matching.held else []

    def _follow(self, run: Run, event: Event, runs: list[Run], complete: list[Run]) -> None:
        """What becomes of a partial match."""
        ctx = _Context(run.last, event, self._processing_time) if self._iterative else None
        before, stopped = len(runs), False
        for edge in self._ways(run.state, event, ctx):
            target = edge.target
            if edge.action is Action.PROCEED:
                stopped = True
            elif edge.action is Action.IGNORE:
                into = complete if target.kind is Kind.FINAL else runs
                into.append(run if target is run.state else Run(target, run.last, run.first))
            elif edge.gap is None or event.timestamp - run.last.event.timestamp < edge.gap:
                self._take(edge, Step(edge.page, event, run.last), run.first, ctx, runs, complete)
        if stopped:
            del runs[before:]

    def _begin(self, event: Event, runs: list[Run], complete: list[Run]) -> None:
        """The partial matches that begin with the event."""
        ctx = _Context(None, event, self._processing_time) if self._iterative else None
        for edge in self._ways(self._start, event, ctx):
            if edge.action is Action.TAKE:
                self._take(edge, Step(edge.page, event, None), event, ctx, runs, complete)

    def _take(
        self, edge: _BoundEdge, step: Step, first: Event, ctx: Any, runs: list[Run], complete: list[Run]
    ) -> None:
        self._taken = True
        target = edge.target
        if target.kind is Kind.FINAL:
            complete.append(Run(target, step, first))
            return
        runs.append(Run(target, step, first))
        final = self._final_behind(target, step.event, ctx)
        if final is not None:
            complete.append(Run(final, step, first))

    def _ways(self, state: State, event: Event, ctx: Any) -> list[_BoundEdge]:
        """The edges that the event may take, also those of states that this one is open to. One that leads to a stop
        is an edge as well."""
        if state in self._closed:
            return [edge for edge in self._edges[state] if edge.test is None or edge.test(event, ctx)]
        found: list[_BoundEdge] = []
        waiting, seen = [state], {state}
        while waiting:
            for edge in self._edges[waiting.pop()]:
                if edge.test is not None and not edge.test(event, ctx):
                    continue
                if edge.action is not Action.PROCEED or edge.target.kind is Kind.STOP:
                    found.append(edge)
                elif edge.target not in seen:
                    seen.add(edge.target)
                    waiting.append(edge.target)
        return found

    def _final_behind(self, state: State, event: Event, ctx: Any) -> State | None:
        """The final state, where nothing more is needed to reach it."""
        if state in self._closed:
            return None
        waiting, seen = [state], {state}
        while waiting:
            for edge in self._edges[waiting.pop()]:
                target = edge.target
                if edge.action is not Action.PROCEED or target in seen:
                    continue
                if edge.test is None or edge.test(event, ctx):
                    if target.kind is Kind.FINAL:
                        return target
                    seen.add(target)
                    waiting.append(target)
        return None

    # --- matches ------------------------------------------------------------------------------------------------

    def _settle(self, matching: Matching, complete: list[Run]) -> list[Match]:
        """The matches that can be told now; the skip strategy discards others."""
        held = sorted(matching.held + complete, key=_began)
        results: list[Match] = []
        while held:
            runs, first = matching.runs, held[0]
            if self._strategy.skips and runs and _began(runs[0]) < _began(first):
                break
            path = first.last.path()
            del held[0]
            matching.changed = True
            since = None
            if self._strategy.skips:
                since = self._strategy.keep_from({page: [one.id for one in events] for page, events in path.items()})
            if since is not None:
                matching.runs = [run for run in runs if _began(run) >= since]
                held = [run for run in held if _began(run) >= since]
            results.append(values_of(path))
        matching.held = held
        return results

    # --- time ---------------------------------------------------------------------------------------------------

    def deadline(self, matching: Matching) -> int | None:
        """When the next partial match times out."""
        if not matching.runs or (self._window is None and not self._gaps):
            return None
        if self._gaps:
            return min((limit for limit in map(self._limit, matching.runs) if limit is not None), default=None)
        assert self._window is not None
        return matching.runs[0].first.timestamp + self._window

    def _limit(self, run: Run) -> int | None:
        whole = None if self._window is None else run.first.timestamp + self._window
        if not run.state.expires or run.state.gap is None:
            return whole
        gap = run.last.event.timestamp + run.state.gap
        return gap if whole is None else min(gap, whole)

    def advance(self, matching: Matching, timestamp: int) -> list[Outcome]:
        """Time has come to `timestamp`: no event is older. What times out does so in the order of time."""
        outcomes: list[Outcome] = []
        while (limit := self.deadline(matching)) is not None and limit <= timestamp:
            matching.changed = True
            over = [run for run in matching.runs if self._limit(run) == limit]
            matching.runs = [run for run in matching.runs if self._limit(run) != limit]
            complete = [run for run in over if run.state.kind is Kind.PENDING]
            if self._times_out:
                outcomes += [
                    Outcome(values_of(run.last.path()), limit, complete=False)
                    for run in over
                    if run.state.kind is not Kind.PENDING
                ]
            outcomes += [Outcome(match, limit, complete=True) for match in self._settle(matching, complete)]
        return outcomes


def _opens(edge: _BoundEdge) -> bool:
    return edge.action is Action.PROCEED and edge.target.kind is not Kind.STOP


def _bound(state: State, binder: Binder) -> list[_BoundEdge]:
    return [
        _BoundEdge(edge.action, edge.target, binder.bind(edge.condition), state.page, state.gap)
        for edge in state.edges
        if edge.condition != NEVER
    ]
