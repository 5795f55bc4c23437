"""What a pattern means, told in the plainest way: all sequences of events are tried.

A quantifier stands for several fixed numbers of events. With the numbers fixed, a match is a sequence of events, each
with a condition that it fits and a rule about what lies between it and the event before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import strategies as st

from millrace.cep import Pattern

STRICT, NEXT, ANY = "next", "followed_by", "followed_by_any"
INNER = {NEXT: None, STRICT: "consecutive", ANY: "allow_combinations"}

# An event is a letter, a number that tells it from the others, and a timestamp.
Event = tuple[str, int, int]


@dataclass(frozen=True)
class Stage:
    """A pattern of the sequence: the letters that it takes, and from `low` to `high` of them (None: no end)."""

    letters: str
    contiguity: str
    low: int
    high: int | None
    optional: bool
    inner: str

    def fits(self, event: Event) -> bool:
        return event[0] in self.letters

    def counts(self, events: int) -> list[int]:
        high = events if self.high is None else self.high
        return [*([0] if self.optional else []), *range(self.low, high + 1)]


@dataclass(frozen=True)
class Sequenced:
    """A sequence of patterns with a time limit."""

    stages: tuple[Stage, ...]
    window: int | None

    def pattern(self) -> Pattern:
        """The pattern as a program writes it."""
        pattern: Pattern | None = None
        for number, stage in enumerate(self.stages):
            name = str(number)
            pattern = Pattern.begin(name) if pattern is None else getattr(pattern, stage.contiguity)(name)
            pattern = _quantified(pattern.where(stage.fits), stage)
        assert pattern is not None
        return pattern if self.window is None else pattern.within(self.window)

    def matches(self, events: Sequence[Event]) -> list[dict[str, list[Event]]]:
        """The matches in events that are in order."""
        found = []
        for counts in product(*(stage.counts(len(events)) for stage in self.stages)):
            if 0 < sum(counts) <= len(events):
                places = [(number, again) for number, count in enumerate(counts) for again in range(count)]
                found += [_named(places, chosen) for chosen in self._choices(places, events, -1)]
        return found

    def _choices(self, places: list[tuple[int, int]], events: Sequence[Event], last: int) -> Iterator[list[Event]]:
        """The events for the places, which come behind the one at `last`."""
        if not places:
            yield []
            return
        (number, again), rest = places[0], places[1:]
        stage = self.stages[number]
        rule = ANY if last < 0 else stage.inner if again else stage.contiguity
        for index in range(last + 1, len(events)):
            if stage.fits(events[index]):
                for others in self._choices(rest, events, index):
                    chosen = [events[index], *others]
                    if self.window is None or chosen[-1][2] - chosen[0][2] < self.window:
                        yield chosen
            if rule == STRICT or (rule == NEXT and stage.fits(events[index])):
                return


def _quantified(pattern: Pattern, stage: Stage) -> Pattern:
    if (stage.low, stage.high) != (1, 1):
        pattern = pattern.times_or_more(stage.low) if stage.high is None else pattern.times(stage.low, stage.high)
        inner = INNER[stage.inner]
        pattern = getattr(pattern, inner)() if inner else pattern
    return pattern.optional() if stage.optional else pattern


def _named(places: list[tuple[int, int]], chosen: list[Event]) -> dict[str, list[Event]]:
    match: dict[str, list[Event]] = {}
    for (number, _), event in zip(places, chosen, strict=True):
        match.setdefault(str(number), []).append(event)
    return match


def canonical(matches: Sequence[dict[str, list[Any]]]) -> list[Any]:
    """Matches in an order that is always the same."""
    return sorted(sorted(match.items()) for match in matches)


def _stage(letters: str, contiguity: str, low: int, more: int | None, optional: bool, inner: str) -> Stage:
    return Stage(letters, contiguity, low, None if more is None else low + more, optional, inner)


contiguities = st.sampled_from([STRICT, NEXT, ANY])
stages = st.builds(
    _stage,
    letters=st.sampled_from(["a", "b", "c", "ab", "bc"]),
    contiguity=contiguities,
    low=st.sampled_from([1, 1, 1, 2]),
    more=st.sampled_from([0, 0, 0, 1, 2, None]),
    optional=st.sampled_from([False, False, True]),
    inner=contiguities,
)
sequences = st.builds(
    Sequenced, st.lists(stages, min_size=1, max_size=3).map(tuple), st.sampled_from([None, None, 3, 5, 9])
)
