"""What an event must be like: conditions as users write them, and as the automaton combines them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from millrace.common.errors import ProgramError, short_repr


class IterativeCondition(ABC):
    """A condition that looks at the event and at what was matched before it.

    A function of two parameters does the same as a subclass, which can have `open(runtime_context)` and `close()`
    besides.

    >>> class Rising(IterativeCondition):
    ...     def filter(self, value, ctx):
    ...         return all(earlier < value for earlier in ctx.get_events_for_pattern("rising"))
    """

    class Context(ABC):
        """What an iterative condition may ask: the partial match so far, and the time."""

        @abstractmethod
        def get_events_for_pattern(self, name: str) -> list[Any]:
            """The events that the partial match has under a name, oldest first; empty where there are none."""

        @abstractmethod
        def timestamp(self) -> int:
            """The event's timestamp; in processing time, when it came."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The epoch's processing time."""

    @abstractmethod
    def filter(self, value: Any, ctx: Context) -> bool:
        """Whether the event fits."""


class SimpleCondition(ABC):
    """A condition of the event alone; a function of one parameter does the same.

    Simple conditions are asked once for each event, however many partial matches there are.

    >>> class Failed(SimpleCondition):
    ...     def filter(self, value):
    ...         return value["type"] == "fail"
    """

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether the event fits."""


# --- as the automaton combines them -----------------------------------------------------------------------------


class Condition:
    """A condition of the automaton. The ones below are all that there are."""

    def leaves(self) -> Iterator[User]:
        """The user's functions in it."""
        yield from ()


@dataclass(frozen=True)
class Always(Condition):
    """Every event fits."""


@dataclass(frozen=True)
class Never(Condition):
    """No event fits."""


@dataclass(frozen=True)
class User(Condition):
    """A user's function or condition object."""

    function: Any
    iterative: bool

    def leaves(self) -> Iterator[User]:
        yield self

    def call(self) -> Callable[..., Any]:
        """The function itself, or the object's method."""
        method: Callable[..., Any] = getattr(self.function, "filter", self.function)
        return method


@dataclass(frozen=True)
class IsInstance(Condition):
    """The event is an instance of a class."""

    kind: type


@dataclass(frozen=True)
class And(Condition):
    """Both fit."""

    left: Condition
    right: Condition

    def leaves(self) -> Iterator[User]:
        yield from self.left.leaves()
        yield from self.right.leaves()


@dataclass(frozen=True)
class Or(And):
    """One of the two fits, or both."""


@dataclass(frozen=True)
class Not(Condition):
    """The other one does not fit."""

    condition: Condition

    def leaves(self) -> Iterator[User]:
        return self.condition.leaves()


ALWAYS, NEVER = Always(), Never()


def both(left: Condition, right: Condition) -> Condition:
    """Both fit."""
    if NEVER in (left, right):
        return NEVER
    if left == ALWAYS:
        return right
    return left if right == ALWAYS else And(left, right)


def either(so_far: Condition, other: Condition) -> Condition:
    """One of the two fits; where nothing was asked for so far, the other one must."""
    return other if so_far == ALWAYS else Or(so_far, other)


def negated(condition: Condition) -> Condition:
    """The opposite."""
    if condition == ALWAYS:
        return NEVER
    return ALWAYS if condition == NEVER else Not(condition)


def user_condition(condition: Any, method: str) -> Condition:
    """What `where` and its like were given."""
    if isinstance(condition, SimpleCondition):
        return User(condition, iterative=False)
    if isinstance(condition, IterativeCondition):
        return User(condition, iterative=True)
    call = getattr(condition, "filter", condition)
    if inspect.isclass(condition) or not callable(call):
        raise ProgramError(
            f"{method} takes a condition, not {short_repr(condition)}.",
            action="Give a function of the event (and of a context), or an instance of SimpleCondition or "
            "IterativeCondition.",
        )
    return User(condition, iterative=_parameters(call) > 1)


def _parameters(call: Callable[..., Any]) -> int:
    """How many arguments a callable must be given by position; 1 where it cannot be told."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return 1
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in by_position and one.default is one.empty for one in parameters)


# --- as functions ------------------------------------------------------------------------------------------------

# Takes the event (an object with `value`) and the context; None stands for "always".
Test = Callable[[Any, Any], Any]


class ConditionError(Exception):
    """A user's condition failed."""

    def __init__(self, cause: Exception, function: Any) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.function = function


class Binder:
    """Makes functions of conditions. One binder asks each simple condition once for an event."""

    def __init__(self) -> None:
        self._bound: dict[int, Test] = {}
        self.iterative = False

    def bind(self, condition: Condition) -> Test | None:
        """A function of the event and the context, or None for a condition that always holds."""
        return None if condition == ALWAYS else self._test(condition)

    def _test(self, condition: Condition) -> Test:
        match condition:
            case Or(left, right):
                first, second = self._test(left), self._test(right)
                return lambda event, ctx: first(event, ctx) or second(event, ctx)
            case And(left, right):
                first, second = self._test(left), self._test(right)
                return lambda event, ctx: first(event, ctx) and second(event, ctx)
            case Not(inner):
                test = self._test(inner)
                return lambda event, ctx: not test(event, ctx)
            case IsInstance(kind):
                return lambda event, _: isinstance(event.value, kind)
            case User(function, iterative):
                return self._user(condition, function, iterative)
        verdict = condition == ALWAYS
        return lambda _event, _ctx: verdict

    def _user(self, condition: User, function: Any, iterative: bool) -> Test:
        self.iterative |= iterative
        if id(function) not in self._bound:
            make = _iterative if iterative else _once_per_event
            self._bound[id(function)] = make(condition.call(), function)
        return self._bound[id(function)]


def _once_per_event(call: Callable[[Any], Any], function: Any) -> Test:
    last: Any = None
    verdict: Any = False

    def test(event: Any, _: Any) -> Any:
        nonlocal last, verdict
        if event is not last:
            try:
                verdict = call(event.value)
            except Exception as error:
                raise ConditionError(error, function) from error
            last = event
        return verdict

    return test


def _iterative(call: Callable[[Any, Any], Any], function: Any) -> Test:
    # A context speaks of one event and one partial match, so that it stands for both.
    last: Any = None
    verdict: Any = False

    def test(event: Any, ctx: Any) -> Any:
        nonlocal last, verdict
        if ctx is not last:
            try:
                verdict = call(event.value, ctx)
            except Exception as error:
                raise ConditionError(error, function) from error
            last = ctx
        return verdict

    return test
