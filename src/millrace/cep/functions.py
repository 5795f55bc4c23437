"""What is done with matches: subclass one of these, or give a plain callable where one method is enough.

A match is a dict: the names of the patterns, in the order of their first events, and under each the list of its events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from millrace.datastream.functions import Function
from millrace.datastream.output_tag import OutputTag

from .matching import Match


class PatternContext(ABC):
    """`ctx` of `process_match` and `process_timed_out_match`. One object serves all matches: do not keep it."""

    @abstractmethod
    def timestamp(self) -> int:
        """When the match was complete: the timestamp of the event that completed it, or of the time limit that did.
        For a partial match, when it timed out."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The epoch's processing time."""

    @abstractmethod
    def output(self, tag: OutputTag, value: Any) -> None:
        """Send a record to a side output; `yield tag, value` does the same."""


class PatternProcessFunction(Function):
    """Sees each match; what it yields goes downstream.

    >>> class Alarm(PatternProcessFunction):
    ...     def process_match(self, match, ctx):
    ...         yield match["failures"][0]["user"], ctx.timestamp()
    """

    Context = PatternContext

    @abstractmethod
    def process_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None: ...


class TimedOutPartialMatchHandler(ABC):
    """Mix it into a PatternProcessFunction to see partial matches that `within` has ended.

    >>> LATE = OutputTag("late")
    >>> class Paid(PatternProcessFunction, TimedOutPartialMatchHandler):
    ...     def process_match(self, match, ctx):
    ...         yield match["order"][0]
    ...
    ...     def process_timed_out_match(self, match, ctx):
    ...         ctx.output(LATE, match["order"][0])
    """

    @abstractmethod
    def process_timed_out_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None: ...


class PatternSelectFunction(Function):
    """Makes one record of each match."""

    @abstractmethod
    def select(self, match: Match) -> Any: ...


class PatternFlatSelectFunction(Function):
    """Makes any number of records of each match: yields them, or returns them in a list."""

    @abstractmethod
    def flat_select(self, match: Match) -> Iterable[Any] | None: ...


class PatternTimeoutFunction(Function):
    """Makes one record of each partial match that timed out, at `timestamp`."""

    @abstractmethod
    def timeout(self, match: Match, timestamp: int) -> Any: ...


class PatternFlatTimeoutFunction(Function):
    """Makes any number of records of each partial match that timed out, at `timestamp`."""

    @abstractmethod
    def timeout(self, match: Match, timestamp: int) -> Iterable[Any] | None: ...


class EventComparator(ABC):
    """Orders events of one timestamp; a function of two events does the same.

    >>> class ByName(EventComparator):
    ...     def compare(self, one, other):
    ...         return (one["name"] > other["name"]) - (one["name"] < other["name"])
    """

    @abstractmethod
    def compare(self, one: Any, other: Any) -> int:
        """Below 0 if `one` comes first, above 0 if `other` does, 0 if they stay as they came."""
