"""Patterns: what sequence of events is looked for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, overload

from millrace.common.errors import ProgramError, short_repr
from millrace.common.time import DurationLike, to_millis
from millrace.datastream._checks import at_site

from .conditions import ALWAYS, Condition, IsInstance, both, either, user_condition
from .skip import AfterMatchSkipStrategy


class WithinType(Enum):
    """What a time limit is measured between."""

    FIRST_AND_LAST = "first_and_last"
    PREVIOUS_AND_CURRENT = "previous_and_current"


class Contiguity(Enum):
    """What may stand between an event of a pattern and the one before it."""

    STRICT = "next"
    SKIP_TILL_NEXT = "followed_by"
    SKIP_TILL_ANY = "followed_by_any"
    NOT_NEXT = "not_next"
    NOT_FOLLOW = "not_followed_by"


NEGATIVE = frozenset({Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOW})


@dataclass(frozen=True)
class Quantifier:
    """How often a pattern is to be found. `high` is None for a loop without end."""

    low: int = 1
    high: int | None = 1
    quantified: bool = False
    optional: bool = False
    greedy: bool = False
    inner: Contiguity = Contiguity.SKIP_TILL_NEXT

    @property
    def looping(self) -> bool:
        """Whether there is no upper bound."""
        return self.high is None


@dataclass(frozen=True, eq=False, repr=False)
class Pattern:
    """A sequence of patterns, of which this is the last. Each call gives a new one and leaves this one as it is.

    >>> from datetime import timedelta
    >>> failures = (
    ...     Pattern.begin("failures").where(lambda event: event["type"] == "fail").times(3).consecutive()
    ...     .followed_by("success").where(lambda event: event["type"] == "success")
    ...     .within(timedelta(minutes=1))
    ... )
    >>> failures
    Pattern(failures{3} -> success)
    """

    name: str
    previous: Pattern | None = None
    contiguity: Contiguity = Contiguity.STRICT
    group: Pattern | None = None
    skip_strategy: AfterMatchSkipStrategy = field(default_factory=AfterMatchSkipStrategy.no_skip)
    condition: Condition = ALWAYS
    until_condition: Condition | None = None
    quantifier: Quantifier = Quantifier()
    windows: tuple[tuple[WithinType, int], ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' -> '.join(one._text() for one in reversed(list(self.chain())))})"

    def _text(self) -> str:
        how = self.quantifier
        name = f"({str(self.group)[8:-1]})" if self.group is not None else self.name
        prefix = "not " if self.contiguity in NEGATIVE else ""
        if how.quantified:
            name += f"{{{how.low}}}" if how.low == how.high else f"{{{how.low},{how.high or ''}}}"
        return f"{prefix}{name}{'?' if how.optional else ''}{'+' if how.greedy else ''}"

    def chain(self) -> Iterator[Pattern]:
        """This pattern and those before it, last first."""
        pattern: Pattern | None = self
        while pattern is not None:
            yield pattern
            pattern = pattern.previous

    def window(self, within_type: WithinType) -> int | None:
        """The time limit in milliseconds."""
        return dict(self.windows).get(within_type)

    # --- sequences ----------------------------------------------------------------------------------------------

    @overload
    @staticmethod
    def begin(name: str, skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern: ...

    @overload
    @staticmethod
    def begin(name: Pattern, skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern: ...

    @staticmethod
    def begin(name: str | Pattern, skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern:
        """Begin a sequence with a pattern of this name, or with a group of patterns."""
        if skip_strategy is not None and not isinstance(skip_strategy, AfterMatchSkipStrategy):
            raise ProgramError(at_site(f"begin takes an AfterMatchSkipStrategy, not {short_repr(skip_strategy)}."))
        return _pattern(None, name, Contiguity.STRICT, skip_strategy or AfterMatchSkipStrategy.no_skip())

    def next(self, name: str | Pattern) -> Pattern:
        """Then, with nothing in between: strict contiguity."""
        return _pattern(self, name, Contiguity.STRICT, self.skip_strategy)

    def followed_by(self, name: str | Pattern) -> Pattern:
        """Then, with anything in between that does not match: relaxed contiguity."""
        return _pattern(self, name, Contiguity.SKIP_TILL_NEXT, self.skip_strategy)

    def followed_by_any(self, name: str | Pattern) -> Pattern:
        """Then, with anything in between, matching events as well: each of them makes a match of its own."""
        return _pattern(self, name, Contiguity.SKIP_TILL_ANY, self.skip_strategy)

    def not_next(self, name: str) -> Pattern:
        """The next event must not match this pattern."""
        return self._negative(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """No event matches this pattern until the pattern after it does or, at the end, until the time is over."""
        return self._negative(name, Contiguity.NOT_FOLLOW)

    def _negative(self, name: str, contiguity: Contiguity) -> Pattern:
        if isinstance(name, Pattern):
            raise _malformed(f"{contiguity.value} takes a name, not a group of patterns.")
        if self.quantifier.optional:
            raise _malformed(
                f"{contiguity.value}({name!r}) stands behind {self.name!r}, which is optional.",
                action="Look for two patterns, one with the optional part and one without it.",
            )
        return _pattern(self, name, contiguity, self.skip_strategy)

    # --- conditions ---------------------------------------------------------------------------------------------

    def where(self, condition: Any) -> Pattern:
        """The event must also fit this: a function of the event, or of the event and a context."""
        return self._with_condition("where", condition, both)

    def or_where(self, condition: Any) -> Pattern:
        """The event may also fit this instead of all that was asked for before."""
        return self._with_condition("or_where", condition, either)

    def subtype(self, subtype_class: type) -> Pattern:
        """The event must also be an instance of the class."""
        self._require_no_group("subtype")
        if not inspect.isclass(subtype_class):
            raise _malformed(f"subtype takes a class, not {short_repr(subtype_class)}.")
        return replace(self, condition=both(self.condition, IsInstance(subtype_class)))

    def _with_condition(self, method: str, condition: Any, combine: Any) -> Pattern:
        self._require_no_group(method)
        return replace(self, condition=combine(self.condition, user_condition(condition, method)))

    def until(self, condition: Any) -> Pattern:
        """An event that fits this ends the loop, and is not part of it. State of the loop is freed then."""
        if self.until_condition is not None:
            raise _malformed(f"{self.name!r} has an until condition already.")
        if not self.quantifier.looping:
            raise _malformed(
                f"until(...) ends loops, and {self.name!r} is none.",
                action="Put one_or_more() or times_or_more(...) before it.",
            )
        return replace(self, until_condition=user_condition(condition, "until"))

    # --- how often ----------------------------------------------------------------------------------------------

    def times(self, from_times: int, to_times: int | None = None) -> Pattern:
        """So many times, or from so many to so many times. From 0 means: or not at all."""
        low, high = from_times, from_times if to_times is None else to_times
        lowest = 1 if to_times is None else 0
        if type(low) is not int or type(high) is not int or not lowest <= low <= high or high < 1:
            raise _malformed(f"times takes a number from 1 or a range of such numbers, not {(low, high)}.")
        return self._quantified("times", max(low, 1), high, optional=low == 0)

    def times_or_more(self, times: int) -> Pattern:
        """So many times at least."""
        if type(times) is not int or times < 1:
            raise _malformed(f"times_or_more takes a number from 1, not {times!r}.")
        return self._quantified("times_or_more", times, None)

    def one_or_more(self) -> Pattern:
        """Once or more often: `A` then `B` finds, in `a1 a2 b`, the matches `a1 b`, `a1 a2 b` and `a2 b`."""
        return self._quantified("one_or_more", 1, None)

    def _quantified(self, method: str, low: int, high: int | None, optional: bool = False) -> Pattern:
        self._require_positive(method)
        how = self.quantifier
        if how.quantified:
            raise _malformed(f"{self.name!r} has a quantifier already, and now {method}(...).")
        optional = optional or how.optional
        return replace(self, quantifier=replace(how, low=low, high=high, quantified=True, optional=optional))

    def optional(self) -> Pattern:
        """It need not be found."""
        self._require_positive("optional")
        if self.quantifier.optional:
            raise _malformed(f"{self.name!r} is optional already.")
        self._require_no_greedy_before()
        return replace(self, quantifier=replace(self.quantifier, optional=True))

    def _require_no_greedy_before(self) -> None:
        if self.previous is not None and self.previous.quantifier.greedy:
            raise _malformed(f"{self.name!r} cannot be optional: {self.previous.name!r}, before it, is greedy.")

    def greedy(self) -> Pattern:
        """Take as many events as there are: an event that fits this pattern is not taken by the one behind it."""
        self._require_positive("greedy")
        if self.group is not None:
            raise _malformed("A group of patterns cannot be greedy.")
        if not self.quantifier.quantified:
            raise _malformed(
                f"{self.name!r} is found once, and cannot be greedy.",
                action="Put times(...), one_or_more() or times_or_more(...) before greedy().",
            )
        if self.quantifier.inner is Contiguity.SKIP_TILL_ANY:
            raise _malformed(f"{self.name!r} cannot be greedy and allow combinations.")
        return replace(self, quantifier=replace(self.quantifier, greedy=True))

    def consecutive(self) -> Pattern:
        """Nothing stands between the events of the loop."""
        return self._with_inner("consecutive", Contiguity.STRICT)

    def allow_combinations(self) -> Pattern:
        """Anything stands between the events of the loop: `a1 a2 a3` taken twice is `a1 a2`, `a1 a3` and `a2 a3`."""
        if self.quantifier.greedy:
            raise _malformed(f"{self.name!r} cannot be greedy and allow combinations.")
        return self._with_inner("allow_combinations", Contiguity.SKIP_TILL_ANY)

    def _with_inner(self, method: str, inner: Contiguity) -> Pattern:
        how = self.quantifier
        if not how.quantified:
            raise _malformed(
                f"{method}() is about the events of a loop, and {self.name!r} is found once.",
                action="Put times(...), one_or_more() or times_or_more(...) before it.",
            )
        if how.inner is inner:
            raise _malformed(f"{method}() was applied to {self.name!r} already.")
        if how.inner is not Contiguity.SKIP_TILL_NEXT:
            raise _malformed(f"{self.name!r} is either consecutive or allows combinations, not both.")
        return replace(self, quantifier=replace(how, inner=inner))

    # --- time ---------------------------------------------------------------------------------------------------

    def within(self, window_time: DurationLike, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Pattern:
        """The time limit: less than this lies between the first event and the last one of the whole match or, with
        `PREVIOUS_AND_CURRENT`, between an event of this pattern and the one before it. An int is in milliseconds."""
        millis = _millis(window_time)
        if not isinstance(within_type, WithinType):
            raise _malformed(f"within takes a WithinType, not {short_repr(within_type)}.")
        if within_type is WithinType.PREVIOUS_AND_CURRENT:
            self._require_no_group("within(..., PREVIOUS_AND_CURRENT)")
        return replace(self, windows=tuple({**dict(self.windows), within_type: millis}.items()))

    # --- checks -------------------------------------------------------------------------------------------------

    def _require_no_group(self, method: str) -> None:
        if self.group is not None:
            raise _malformed(
                f"{method} cannot be applied to a group of patterns.", action="Put it on the patterns in the group."
            )

    def _require_positive(self, method: str) -> None:
        if self.contiguity in NEGATIVE:
            raise _malformed(f"{method} cannot be applied to {self.name!r}, which must not be found.")


def _pattern(
    previous: Pattern | None, name: Any, contiguity: Contiguity, strategy: AfterMatchSkipStrategy
) -> Pattern:
    if isinstance(name, Pattern):
        return Pattern("GroupPattern", previous, contiguity, name, strategy)
    if not isinstance(name, str) or not name:
        raise _malformed(f"A pattern has a name, a string that is not empty, not {short_repr(name)}.")
    return Pattern(name, previous, contiguity, None, strategy)


def _millis(window_time: Any) -> int:
    millis = to_millis(window_time)
    if millis <= 0:
        raise _malformed(f"within takes a span of time of at least a millisecond, not {short_repr(window_time)}.")
    return millis


def _malformed(message: str, action: str | None = None) -> ProgramError:
    return ProgramError(at_site(message), action=action)
