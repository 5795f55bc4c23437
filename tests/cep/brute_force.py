"""What a pattern means, told in the plainest way: all sequences of events are tried.

A quantifier stands for several fixed numbers of events. With the numbers fixed, a match is a sequence of events, each
with a condition that it fits and a rule about what lies between it and the event before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from millrace.cep import Pattern

STRICT, NEXT, ANY = "next", "followed_by", "followed_by_any"
INNER = {NEXT: None, STRICT: "consecutive", ANY: "allow_combinations"}
NOT_NEXT, NOT_FOLLOW = "not_next", "not_followed_by"

# The letter that must not be found, and that is never looked for.
UNWANTED = "x"

# An event is a letter, a number that tells it from the others, and a timestamp; a key may stand before them.
Event = tuple[Any, ...]


@dataclass(frozen=True)
class Place:
    """Where one event of a match goes: its pattern, the letters that fit, what may stand before it."""

    name: str
    letters: str
    rule: str
    absent: str | None = None

    def fits(self, event: Event) -> bool:
        return event[-3] in self.letters


@dataclass(frozen=True)
class Stage:
    """A pattern of the sequence: the letters that it takes (or a group of patterns), from `low` to `high` of them
    (None: no end). `absent` is what must not be found before it."""

    letters: str
    contiguity: str
    low: int
    high: int | None
    optional: bool
    inner: str
    absent: str | None = None
    group: tuple[Stage, ...] = ()

    @property
    def quantified(self) -> bool:
        return (self.low, self.high) != (1, 1)

    def fits(self, event: Event) -> bool:
        return event[-3] in self.letters

    def added_to(self, pattern: Pattern | None, name: str) -> Pattern:
        """The pattern, and behind it this one."""
        if pattern is not None and self.absent is not None:
            pattern = getattr(pattern, self.absent)(f"not {name}").where(lambda event: event[-3] == UNWANTED)
        what = _sequence(self.group, f"{name}.") if self.group else name
        pattern = Pattern.begin(what) if pattern is None else getattr(pattern, self.contiguity)(what)
        pattern = pattern if self.group else pattern.where(self.fits)
        if self.quantified:
            pattern = pattern.times_or_more(self.low) if self.high is None else pattern.times(self.low, self.high)
            inner = INNER[self.inner]
            pattern = getattr(pattern, inner)() if inner else pattern
        return pattern.optional() if self.optional else pattern

    def choices(self, name: str, events: int, followed_by_absence: bool) -> Iterator[list[Place]]:
        """The places that the pattern may stand for, when there are so many events."""
        high = events if self.high is None else self.high
        for count in [*([0] if self.optional else []), *range(self.low, min(high, events) + 1)]:
            turns = []
            for again in range(count):
                rule = self.inner if again else self.contiguity
                # In a loop, what must not follow it must not come from its first event on.
                absent = NOT_FOLLOW if again and followed_by_absence else None
                turns.append(self._turn(name, events, rule, absent))
            for chosen in _one_of_each(turns, events):
                yield [place for turn in chosen for place in turn]

    def _turn(self, name: str, events: int, rule: str, absent: str | None) -> list[list[Place]]:
        if not self.group:
            return [[Place(name, self.letters, rule, absent)]]
        head = replace(self.group[0], contiguity=rule)
        return list(_places((head, *self.group[1:]), f"{name}.", events))


def _sequence(stages: tuple[Stage, ...], prefix: str) -> Pattern:
    pattern: Pattern | None = None
    for number, stage in enumerate(stages):
        pattern = stage.added_to(pattern, f"{prefix}{number}")
    assert pattern is not None
    return pattern


def _places(stages: tuple[Stage, ...], prefix: str, events: int) -> Iterator[list[Place]]:
    """The places of a sequence, for each choice of numbers."""
    following = [*(stage.absent == NOT_FOLLOW for stage in stages[1:]), False]
    choices = [
        list(stage.choices(f"{prefix}{number}", events, absence))
        for number, (stage, absence) in enumerate(zip(stages, following, strict=True))
    ]
    for chosen in _one_of_each(choices, events):
        places: list[Place] = []
        absent = None
        for stage, part in zip(stages, chosen, strict=True):
            absent = absent or stage.absent
            if part:
                places += [replace(part[0], absent=absent or part[0].absent), *part[1:]]
                absent = None
        yield places


def _one_of_each(choices: list[list[list[Place]]], most: int) -> Iterator[list[list[Place]]]:
    """One choice of each, with so many places at most."""
    if not choices:
        yield []
        return
    for first in choices[0]:
        if len(first) <= most:
            for others in _one_of_each(choices[1:], most - len(first)):
                yield [first, *others]


@dataclass(frozen=True)
class Sequenced:
    """A sequence of patterns with a time limit."""

    stages: tuple[Stage, ...]
    window: int | None

    def pattern(self) -> Pattern:
        """The pattern as a program writes it."""
        pattern = _sequence(self.stages, "")
        return pattern if self.window is None else pattern.within(self.window)

    def matches(self, events: Sequence[Event]) -> list[dict[str, list[Event]]]:
        """The matches in events that are in order."""
        return [
            _named(places, chosen)
            for places in _places(self.stages, "", len(events))
            if places
            for chosen in self._found(places, events, -1)
        ]

    def _found(self, places: list[Place], events: Sequence[Event], last: int) -> Iterator[list[Event]]:
        """The events for the places, which come behind the one at `last`."""
        if not places:
            yield []
            return
        place = places[0]
        for index in range(last + 1, len(events)):
            event = events[index]
            if place.fits(event):
                for others in self._found(places[1:], events, index):
                    if self.window is None or [event, *others][-1][-1] - event[-1] < self.window:
                        yield [event, *others]
            if last >= 0 and _stops(place, event, first=index == last + 1):
                return


def _stops(place: Place, event: Event, first: bool) -> bool:
    """Whether an event that is not taken may not be passed by."""
    if event[-3] == UNWANTED and (place.absent == NOT_FOLLOW or (place.absent == NOT_NEXT and first)):
        return True
    return place.rule == STRICT or (place.rule == NEXT and place.fits(event))


def _named(places: list[Place], chosen: list[Event]) -> dict[str, list[Event]]:
    match: dict[str, list[Event]] = {}
    for place, event in zip(places, chosen, strict=True):
        match.setdefault(place.name, []).append(event)
    return match


def canonical(matches: Sequence[dict[str, list[Any]]]) -> list[Any]:
    """Matches in an order that is always the same."""
    return sorted(sorted(match.items()) for match in matches)


# --- random patterns --------------------------------------------------------------------------------------------


def _stage(letters: str, contiguity: str, low: int, more: int | None, optional: bool, inner: str) -> Stage:
    return Stage(letters, contiguity, low, None if more is None else low + more, optional, inner)


def _group(parts: list[Stage], around: Stage) -> Stage:
    """A group of which one part at least must be found."""
    return replace(around, group=(replace(parts[0], optional=False), *parts[1:]))


def _with_absences(stages: list[Stage], wanted: list[str | None]) -> tuple[Stage, ...]:
    """The stages, and between them what must not be found, where that has a meaning."""
    result = stages[:1]
    for stage, absent in zip(stages[1:], wanted, strict=False):
        before = result[-1]
        possible = not before.optional and not before.group
        if absent == NOT_NEXT:
            possible = possible and not before.quantified and not stage.optional and not stage.group
        result.append(replace(stage, absent=absent if possible else None))
    return tuple(result)


contiguities = st.sampled_from([STRICT, NEXT, ANY])
simple_stages = st.builds(
    _stage,
    letters=st.sampled_from(["a", "b", "c", "ab", "bc"]),
    contiguity=contiguities,
    low=st.sampled_from([1, 1, 1, 2]),
    more=st.sampled_from([0, 0, 0, 1, 2, None]),
    optional=st.sampled_from([False, False, True]),
    inner=contiguities,
)
groups = st.builds(_group, st.lists(simple_stages, min_size=1, max_size=2), simple_stages)
stages = st.one_of(simple_stages, simple_stages, simple_stages, groups)
sequences = st.builds(
    Sequenced,
    st.builds(
        _with_absences,
        st.lists(stages, min_size=1, max_size=3),
        st.lists(st.sampled_from([None, None, NOT_NEXT, NOT_FOLLOW]), min_size=2, max_size=2),
    ),
    st.sampled_from([None, None, 3, 5, 9]),
)
