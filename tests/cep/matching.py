"""Patterns over letters: `a1` is an event called `a`, `a1@5` one at 5 ms; without a time it comes 1 ms later."""

from __future__ import annotations

from collections.abc import Callable

from millrace.cep import Pattern
from millrace.cep.compiler import compile_pattern
from millrace.cep.matching import Match, Matching
from millrace.cep.nfa import NFA


def has(letters: str) -> Callable[[str], bool]:
    """The condition that an event is called by one of the letters: `ab1` is called `a` and `b`."""
    return lambda event: any(letter in event for letter in letters)


def timed(events: str) -> list[tuple[str, int]]:
    """The events with their times."""
    found: list[tuple[str, int]] = []
    for event in events.split():
        name, _, time = event.partition("@")
        found.append((name, int(time) if time else (found[-1][1] + 1 if found else 1)))
    return found


class Search:
    """A pattern at work on the events of one key."""

    def __init__(self, pattern: Pattern, times_out: bool = False) -> None:
        self.nfa = NFA(compile_pattern(pattern), times_out)
        self.matching = Matching()
        self.matches: list[Match] = []
        self.timed_out: list[tuple[Match, int]] = []

    def advance(self, time: int) -> None:
        for outcome in self.nfa.advance(self.matching, time):
            if outcome.complete:
                self.matches.append(outcome.match)
            else:
                self.timed_out.append((outcome.match, outcome.timestamp))

    def see(self, event: str, time: int) -> None:
        self.advance(time)
        self.matches += self.nfa.process(self.matching, event, time)


def search(pattern: Pattern, events: str, times_out: bool = False) -> Search:
    """All events, one after the other."""
    found = Search(pattern, times_out)
    for event, time in timed(events):
        found.see(event, time)
    return found


def in_order(match: Match, events: str) -> str:
    """The events of a match in the order in which they came."""
    order = [event for event, _ in timed(events)]
    return " ".join(sorted((event for under in match.values() for event in under), key=order.index))


def matches(pattern: Pattern, events: str) -> list[str]:
    """The matches, each as its events in the order in which they came, sorted."""
    return sorted(in_order(match, events) for match in search(pattern, events).matches)


def a_to_b(contiguity: str) -> Pattern:
    """`c`, then `a` in some contiguity."""
    return getattr(Pattern.begin("c").where(has("c")), contiguity)("a").where(has("a"))
