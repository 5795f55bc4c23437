"""Harnesses with a pattern in them. Events are tuples of a user, a letter and anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.cep import CEP, Pattern, PatternStream
from millrace.cep.saved import events_descriptor, matches_descriptor, waiting_descriptor
from millrace.common import Types
from millrace.testing.harnesses import Harness, _OneInput, _program

EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])


def is_a(letter: str) -> Callable[[Any], bool]:
    """The condition that the event's letter is this one (it may have a number behind it)."""
    return lambda event: event[1][0] == letter


def a_then_b() -> Pattern:
    return Pattern.begin("a").where(is_a("a")).followed_by("b").where(is_a("b")).within(100)


def letters(match: dict[str, list[Any]]) -> str:
    """The user and the letters of a match."""
    events = [event for found in match.values() for event in found]
    return f"{events[0][0]}: {' '.join(event[1] for event in events)}"


class PatternHarness(_OneInput):
    """Runs `make(CEP.pattern(stream.key_by(0), pattern))`."""

    def __init__(
        self,
        pattern: Pattern,
        make: Callable[[PatternStream], Any] = lambda found: found.select(letters),
        *,
        keyed: bool = True,
        typed: bool = True,
        comparator: Any = None,
        **options: Any,
    ) -> None:
        self._type = EVENT if typed else None

        def transform(stream: Any) -> Any:
            return make(CEP.pattern(stream.key_by(0, Types.STRING()) if keyed else stream, pattern, comparator))

        options.setdefault("input_types", (self._type,))
        super().__init__(_program(1, transform, options), options)

    def push_letters(self, events: str, user: str = "u") -> None:
        """`a1@5 b@7`: letters with their timestamps."""
        for event in events.split():
            letter, _, time = event.partition("@")
            self.push((user, letter), int(time) if time else None)

    def kept(self) -> dict[str, Any]:
        """All that is in state, by table; the epoch ends."""
        self.end_epoch()
        keys = {
            descriptor.name: self.keys(descriptor)
            for descriptor in (waiting_descriptor(self._type), matches_descriptor(), events_descriptor(self._type))
        }
        timers = {"event timers": self.event_time_timers, "processing timers": self.processing_time_timers}
        return {name: found for name, found in {**keys, **timers}.items() if found}


__all__ = ["EVENT", "Harness", "PatternHarness", "a_then_b", "is_a", "letters"]
