"""What becomes of the other matches and partial matches when a match is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.common.errors import ProgramError

# Numbers of events in the order of their processing, by the name that each has in a match.
EventIds = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """Says which matches and partial matches a match that was found discards.

    With any strategy but `no_skip`, a match is held back while a partial match that began earlier is under way:
    it might become a match that discards this one.

    >>> AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    AfterMatchSkipStrategy(kind='skip_to_first', pattern_name='b', throws=True)
    """

    kind: str
    pattern_name: str | None = None
    throws: bool = False

    @classmethod
    def no_skip(cls) -> AfterMatchSkipStrategy:
        """Every match counts. This is the default."""
        return cls("no_skip")

    @classmethod
    def skip_to_next(cls) -> AfterMatchSkipStrategy:
        """Discards what began with the same event as the match."""
        return cls("skip_to_next")

    @classmethod
    def skip_past_last_event(cls) -> AfterMatchSkipStrategy:
        """Discards what began within the match: matches do not overlap."""
        return cls("skip_past_last_event")

    @classmethod
    def skip_to_first(cls, pattern_name: str) -> AfterMatchSkipStrategy:
        """Discards what began before the first event that the match has under the name."""
        return cls("skip_to_first", pattern_name)

    @classmethod
    def skip_to_last(cls, pattern_name: str) -> AfterMatchSkipStrategy:
        """Discards what began before the last event that the match has under the name."""
        return cls("skip_to_last", pattern_name)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail where the match has no event under the name, or where the name's event is the match's first."""
        if self.pattern_name is None:
            raise ProgramError(
                f"{self.kind} names no pattern that a match could miss.",
                action="Use throw_exception_on_miss() with skip_to_first or skip_to_last.",
            )
        return replace(self, throws=True)

    @property
    def skips(self) -> bool:
        """Whether anything is ever discarded."""
        return self.kind != "no_skip"

    def keep_from(self, match: EventIds) -> int | None:
        """The number of the first event that others may have begun with; None where nothing is discarded."""
        match self.kind:
            case "skip_to_next":
                return min(ids[0] for ids in match.values()) + 1
            case "skip_past_last_event":
                return max(ids[-1] for ids in match.values()) + 1
            case "skip_to_first" | "skip_to_last":
                return self._element(match)
        return None

    def _element(self, match: EventIds) -> int | None:
        ids = match.get(self.pattern_name or "")
        if not ids:
            if self.throws:
                raise ProgramError(f"Could not skip to {self.pattern_name!r}: the match has no such event.")
            return None
        found = ids[0 if self.kind == "skip_to_first" else -1]
        if self.throws and found == min(ids[0] for ids in match.values()):
            raise ProgramError(f"Could not skip to {self.pattern_name!r}: it is the first event of the match.")
        return found
