"""From a pattern to an automaton, from the last pattern to the first: a state knows where it goes on to.

The automaton is that of Flink's compiler, whose results are the specification of what a pattern means.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millrace.common.errors import ProgramError
from millrace.datastream._checks import at_site

from .automaton import Action, Automaton, Kind, State
from .conditions import ALWAYS, Condition, both, negated
from .pattern import Contiguity, Pattern, WithinType

_END = "$endState$"


def compile_pattern(pattern: Pattern) -> Automaton:
    """The automaton of a pattern, or an error that says what is wrong with the pattern."""
    patterns = list(_all_patterns(pattern))
    _require_unique_names(patterns)
    window = _window_of(patterns)
    _require_known_name(pattern, patterns)
    _require_time_for_absence(pattern, patterns, window)
    _require_progress(patterns)
    compiler = _Compiler()
    start = compiler.compile(pattern)
    return Automaton(start, tuple(compiler.states), window, pattern.skip_strategy)


# --- checks -----------------------------------------------------------------------------------------------------


def _all_patterns(pattern: Pattern) -> Iterator[Pattern]:
    """The patterns of a sequence, those in groups as well, groups before what is in them."""
    for one in pattern.chain():
        yield one
        if one.group is not None:
            yield from _all_patterns(one.group)


def _require_unique_names(patterns: list[Pattern]) -> None:
    seen = {_END}
    for pattern in patterns:
        if pattern.group is not None:
            continue
        if pattern.name in seen:
            raise _malformed(f"Two patterns are called {pattern.name!r}.", "Give each pattern a name of its own.")
        seen.add(pattern.name)


def _window_of(patterns: list[Pattern]) -> int | None:
    limits = [limit for one in patterns if (limit := one.window(WithinType.FIRST_AND_LAST)) is not None]
    window = min(limits, default=None)
    for pattern in patterns:
        gap = pattern.window(WithinType.PREVIOUS_AND_CURRENT)
        if window is not None and gap is not None and gap > window:
            raise _malformed(
                f"{pattern.name!r} may come {gap} ms after the event before it, but the whole match takes less than "
                f"{window} ms.",
                "Make the gap at most as long as the time limit of the whole.",
            )
    return window


def _require_known_name(pattern: Pattern, patterns: list[Pattern]) -> None:
    name = pattern.skip_strategy.pattern_name
    if name is not None and all(name != one.name or one.group is not None for one in patterns):
        raise _malformed(
            f"The skip strategy names {name!r}, which is no pattern of {pattern!r}.", "Name one of the patterns."
        )


def _require_time_for_absence(pattern: Pattern, patterns: list[Pattern], window: int | None) -> None:
    for one in patterns:
        if one.group is not None and one.group.contiguity is Contiguity.NOT_FOLLOW:
            raise _malformed(
                f"A group ends with {one.group.name!r}, which must not be found.",
                "Put not_followed_by behind the group.",
            )
    limit = window or pattern.window(WithinType.PREVIOUS_AND_CURRENT)
    if pattern.contiguity is Contiguity.NOT_FOLLOW and limit is None:
        raise _malformed(
            f"The last pattern, {pattern.name!r}, must not be found, and there is no time after which it was not.",
            "Add within(...), or a pattern behind it.",
        )


def _require_progress(patterns: list[Pattern]) -> None:
    for one in patterns:
        if one.group is not None and one.quantifier.looping and _may_be_empty(one.group):
            raise _malformed(
                f"The group {one.group!r} is repeated without end, and all in it is optional.",
                "Make the loop optional, and at least one pattern in it mandatory.",
            )


def _may_be_empty(pattern: Pattern) -> bool:
    """Whether the sequence may be found without an event."""
    return all(
        one.contiguity is Contiguity.NOT_FOLLOW
        or one.quantifier.optional
        or (one.group is not None and _may_be_empty(one.group))
        for one in pattern.chain()
    )


def _malformed(message: str, action: str) -> ProgramError:
    return ProgramError(at_site(message), action=action)


# --- states -----------------------------------------------------------------------------------------------------


class _Compiler:
    """Builds the states. `pattern` is where it stands, `following` what comes behind."""

    pattern: Pattern
    following: Pattern | None = None
    #: The groups that the pattern is in, the innermost last.
    groups: tuple[Pattern, ...] = ()
    #: What may stand before the first event of the group, and whether the group may be left at its first state.
    group_entry = Contiguity.STRICT
    group_optional = False

    def __init__(self) -> None:
        self.states: list[State] = []
        # States of patterns with a quantifier: such a state may be one of a loop that need not go on.
        self._of_loops: set[State] = set()
        self._names: set[str] = set()
        self._stops: dict[str, State] = {}
        # Sinks of greedy loops, as they were before the loop kept its events from them.
        self._originals: dict[State, State] = {}
        # Groups whose first pattern is being built for another occurrence than the first one.
        self._repeating: set[Pattern] = set()

    def compile(self, pattern: Pattern) -> State:
        """The start state."""
        self.pattern = pattern
        start = self._sequence(self._state(_END, Kind.FINAL))
        start.start = True
        for state in self.states:
            state.expires = state.gap is not None and not (state in self._of_loops and _can_go_on(state))
        return start

    def _sequence(self, sink: State) -> State:
        """The states of the patterns up to the current one, from the last to the first; the first state of all."""
        while self.pattern.previous is not None:
            match self.pattern.contiguity:
                case Contiguity.NOT_FOLLOW:
                    sink = self._absent_at_the_end(sink)
                case Contiguity.NOT_NEXT:
                    sink = self._not_next(sink)
                case _:
                    sink = self._positive(sink)
            self.following, self.pattern = self.pattern, self.pattern.previous
        return self._positive(sink)

    def _absent_at_the_end(self, sink: State) -> State:
        """`not_followed_by` is a condition on other states' edges; only as the last pattern it has one of its own."""
        if sink.kind is Kind.FINAL:
            state = self._waiting_state(Kind.PENDING)
            state.add(Action.IGNORE, state, ALWAYS)
        elif sink.kind is Kind.PENDING:
            state = sink
        else:
            return sink
        found = self._take()
        state.add(Action.PROCEED, self._stop(found, self.pattern.name), found)
        return state

    def _not_next(self, sink: State) -> State:
        state = self._waiting_state()
        found = self._take()
        # The match must not be complete before the next event has shown that it does not fit.
        action = Action.IGNORE if sink.kind is Kind.FINAL else Action.PROCEED
        state.add(action, sink, negated(found))
        state.add(Action.PROCEED, self._stop(found, self.pattern.name), found)
        return state

    def _positive(self, sink: State) -> State:
        how = self.pattern.quantifier
        if how.looping:
            # Once the loop has begun, what must not come before it no longer counts.
            self._first_of_loop(False)
            loop = self._loop(self._without_earlier_nots(sink))
            self._first_of_loop(True)
            state = self._times(loop, sink)
        elif how.quantified:
            state = self._times(sink, sink)
        else:
            state = self._once(sink, sink, self._take(), self._ignore(), how.optional)
        self._stop_at_nots(state)
        return state

    def _times(self, sink: State, behind: State) -> State:
        """One state for each occurrence. `sink` comes after the last of them, `behind` after those that may be left
        out."""
        how, until = self.pattern.quantifier, self.pattern.until_condition
        self._first_of_loop(False)
        take = _until(self._take(), until)
        ignore = _ignored_until(self._inner_ignore(), until)
        high = how.low if how.high is None else how.high
        if how.greedy and how.low != high:
            self._keep_from(sink, take)
        for number in range(high - 1):
            optional = number < high - how.low
            sink = self._once(sink, behind, take, ignore, optional, again=True)
            self._stop_in_loop(sink)
        self._first_of_loop(True)
        return self._once(sink, behind, take, self._ignore(), how.optional)

    def _once(
        self,
        sink: State,
        behind: State,
        take: Condition,
        ignore: Condition | None,
        optional: bool,
        again: bool = False,
    ) -> State:
        """A state that takes one event, and one for when it ignored others before: it can no longer be left out.

        `again` says that it is not the first event of the pattern.
        """
        if self.pattern.group is not None:
            return self._group(sink, behind, optional)
        state = self._waiting_state()
        after = self._without_earlier_nots(sink)
        state.add(Action.TAKE, after, take)
        if optional:
            self._leave(state, behind)
        if ignore is not None:
            ignoring = state
            # A state that may be left branches at each event; only one of the branches may do so again.
            if optional or (self._heads_group() and self.group_optional):
                ignoring = self._waiting_state()
                ignoring.add(Action.TAKE, after, take)
                ignoring.add(Action.IGNORE, ignoring, ignore)
                if not again:
                    self._stop_at_nots(ignoring)
            state.add(Action.IGNORE, ignoring, ignore)
        return state

    def _loop(self, sink: State) -> State:
        """A state that takes any number of events, and one for when it ignored others in between."""
        if self.pattern.group is not None:
            return self._looping_group(sink)
        until = self.pattern.until_condition
        take = _until(self._take(), until)
        ignore = _ignored_until(self._inner_ignore(), until)
        state = self._waiting_state()
        if self.pattern.quantifier.greedy:
            # An event that ends the loop is not kept from what comes behind, even if it would fit the loop.
            self._keep_from(sink, self._take())
        self._leave(state, sink)
        state.add(Action.TAKE, state, take)
        self._stop_in_loop(state)
        if ignore is not None:
            ignoring = self._waiting_state()
            ignoring.add(Action.TAKE, state, take)
            ignoring.add(Action.IGNORE, ignoring, ignore)
            state.add(Action.IGNORE, ignoring, ignore)
            self._stop_in_loop(ignoring)
        return state

    # --- groups -------------------------------------------------------------------------------------------------

    def _group(self, sink: State, behind: State, optional: bool) -> State:
        leave = self._always()
        after = self._without_earlier_nots(sink)
        with self._inside(optional):
            first = self._sequence(after)
        if optional:
            first.add(Action.PROCEED, behind, leave)
        return first

    def _looping_group(self, sink: State) -> State:
        leave = self._always()
        again = self._waiting_state()
        with self._inside(optional=True):
            first = self._sequence(again)
        first.add(Action.PROCEED, sink, leave)
        again.add(Action.PROCEED, first, leave)
        return first

    @contextmanager
    def _inside(self, optional: bool) -> Iterator[None]:
        """Go into the current pattern, a group, and come back."""
        before = self.pattern, self.following, self.groups, self.group_entry, self.group_optional
        group = self.pattern
        assert group.group is not None
        again = group in self._repeating
        entry = group.quantifier.inner if again else self._entry()
        optional = optional or (not again and self._heads_group() and self.group_optional)
        self.groups = (*self.groups, group)
        self.pattern, self.group_entry, self.group_optional = group.group, entry, optional
        yield
        self.pattern, self.following, self.groups, self.group_entry, self.group_optional = before

    def _first_of_loop(self, first: bool) -> None:
        if self.pattern.group is None:
            return
        if first:
            self._repeating.discard(self.pattern)
        else:
            self._repeating.add(self.pattern)

    def _heads_group(self) -> bool:
        return bool(self.groups) and self.pattern.previous is None

    def _entry(self) -> Contiguity:
        """What may stand before the first event of the current pattern: at the head of a group, what may before it."""
        return self.group_entry if self._heads_group() else self.pattern.contiguity

    # --- patterns that must not be found ------------------------------------------------------------------------

    def _earlier_nots(self) -> Iterator[tuple[Condition, str]]:
        """What must not be found before the current pattern: `not_followed_by`, with only optional ones between."""
        yield from self._nots_before(self.pattern, self.groups)

    def _nots_before(self, one: Pattern, groups: tuple[Pattern, ...]) -> Iterator[tuple[Condition, str]]:
        pattern = one.previous
        while pattern is not None:
            absent = pattern.contiguity is Contiguity.NOT_FOLLOW
            if not absent and not pattern.quantifier.optional:
                return
            if absent:
                yield self._take(pattern), pattern.name
            pattern = pattern.previous
        if groups and groups[-1] not in self._repeating:
            yield from self._nots_before(groups[-1], groups[:-1])

    def _stop_at_nots(self, state: State) -> None:
        for found, name in self._earlier_nots():
            state.add(Action.PROCEED, self._stop(found, name), found)

    def _stop_in_loop(self, state: State) -> None:
        following = self.following
        if following is not None and following.contiguity is Contiguity.NOT_FOLLOW:
            found = self._take(following)
            state.add(Action.PROCEED, self._stop(found, following.name), found)

    def _stop(self, found: Condition, name: str) -> State:
        if name not in self._stops:
            stop = self._stops[name] = self._state(name, Kind.STOP)
            stop.add(Action.TAKE, stop, found)
        return self._stops[name]

    def _without_earlier_nots(self, sink: State) -> State:
        """Behind an optional pattern that was found, what must not come before it may come: a copy says so."""
        names = {name for _, name in self._earlier_nots()}
        if not names or not self.pattern.quantifier.optional:
            return sink
        return self._copy_without(sink, names, {})

    def _copy_without(self, sink: State, names: set[str], copies: dict[State, State]) -> State:
        if sink in copies:
            return copies[sink]
        copy = copies[sink] = self._copied(sink)
        for edge in sink.edges:
            target = edge.target
            if edge.action is not Action.PROCEED:
                copy.add(edge.action, copy if target is sink else target, edge.condition)
            elif target.kind is not Kind.STOP:
                copy.add(edge.action, self._copy_without(target, names, copies), edge.condition)
            elif target.page not in names:
                copy.add(edge.action, target, edge.condition)
        return copy

    # --- greedy loops -------------------------------------------------------------------------------------------

    def _keep_from(self, sink: State, taken: Condition) -> None:
        """What the loop takes, the state behind it does not get."""
        if self.pattern.until_condition is not None:
            original = self._originals[sink] = self._copied(sink)
            for edge in sink.edges:
                original.add(edge.action, original if edge.target is sink else edge.target, edge.condition)
        for edge in sink.edges:
            edge.condition = both(edge.condition, negated(taken))

    def _leave(self, state: State, behind: State) -> None:
        """The edge by which a state is left without an event."""
        until, always = self.pattern.until_condition, self._always()
        if not self.pattern.quantifier.greedy or until is None:
            state.add(Action.PROCEED, behind, always)
            return
        if behind in self._originals:
            state.add(Action.PROCEED, self._originals[behind], both(always, until))
        state.add(Action.PROCEED, behind, both(always, negated(until)))

    # --- conditions ---------------------------------------------------------------------------------------------

    def _take(self, pattern: Pattern | None = None) -> Condition:
        return _until((pattern or self.pattern).condition, self._group_until())

    def _always(self) -> Condition:
        return _until(ALWAYS, self._group_until())

    def _group_until(self) -> Condition | None:
        return self.groups[-1].until_condition if self.groups else None

    def _ignore(self) -> Condition | None:
        """What may stand before the (first) event of the pattern; None where nothing may."""
        return self._ignored(self._entry())

    def _inner_ignore(self) -> Condition | None:
        """What may stand between the events of the pattern; None where nothing may."""
        return self._ignored(self.pattern.quantifier.inner)

    def _ignored(self, contiguity: Contiguity) -> Condition | None:
        if contiguity is Contiguity.STRICT:
            return None
        ignored = ALWAYS if contiguity is Contiguity.SKIP_TILL_ANY else negated(self.pattern.condition)
        return _ignored_until(ignored, self._group_until())

    # --- states -------------------------------------------------------------------------------------------------

    def _waiting_state(self, kind: Kind = Kind.NORMAL) -> State:
        """A state of the current pattern, in which the time limit of the pattern counts."""
        state = self._state(self.pattern.name, kind)
        state.gap = self.pattern.window(WithinType.PREVIOUS_AND_CURRENT)
        if self.pattern.quantifier.quantified:
            self._of_loops.add(state)
        return state

    def _copied(self, state: State) -> State:
        copy = self._state(state.page, state.kind)
        copy.gap = state.gap
        if state in self._of_loops:
            self._of_loops.add(copy)
        return copy

    def _state(self, page: str, kind: Kind) -> State:
        """A new state. Its name is unique and the same for the same pattern: partial matches are saved under it."""
        name, number = page, 0
        while name in self._names:
            name, number = f"{page}:{number}", number + 1
        self._names.add(name)
        state = State(name, page, kind)
        self.states.append(state)
        return state


def _can_go_on(state: State) -> bool:
    """Whether an event may be looked at by the pattern behind, too."""
    return any(
        edge.action is Action.PROCEED and edge.target.kind is Kind.NORMAL and edge.target.page != state.page
        for edge in state.edges
    )


def _until(condition: Condition, until: Condition | None) -> Condition:
    return condition if until is None else both(negated(until), condition)


def _ignored_until(condition: Condition | None, until: Condition | None) -> Condition | None:
    return None if condition is None else _until(condition, until)
