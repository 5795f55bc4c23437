"""A pattern over a stream, and what is made of its matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.typeinfo import TypeInformation, Types
from millrace.datastream import DataStream, KeyedStream
from millrace.datastream._checks import at_site, require_callable, require_methods, require_type
from millrace.datastream.output_tag import OutputTag

from .automaton import Automaton
from .compiler import compile_pattern
from .functions import (
    EventComparator,
    PatternContext,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from .matching import Match
from .operator import CepOperator, OnMatch
from .pattern import Pattern


def _same_key(_: Any) -> int:
    """The key of a stream without keys."""
    return 0


class CEP:
    """Where a pattern meets a stream.

    >>> from millrace.datastream import StreamExecutionEnvironment
    >>> from millrace.common import Types, WatermarkStrategy
    >>> from millrace.testing import InProcessExecutor
    >>> env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    >>> events = env.from_collection([("ann", "fail", 1), ("ann", "fail", 2), ("bob", "fail", 3)])
    >>> timed = events.assign_timestamps_and_watermarks(
    ...     WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event[2])
    ... )
    >>> twice = Pattern.begin("failures").where(lambda event: event[1] == "fail").times(2).within(1000)
    >>> CEP.pattern(timed.key_by(0), twice).select(lambda match: match["failures"][0][0]).execute_and_collect(limit=2)
    ['ann']
    """

    @staticmethod
    def pattern(
        input: DataStream, pattern: Pattern, comparator: EventComparator | Callable[[Any, Any], int] | None = None
    ) -> PatternStream:
        """Look for a pattern: on a keyed stream in the events of each key, else in all events, in one subtask.

        `comparator` orders events that have the same timestamp; without it they stay as they came.
        """
        if not isinstance(input, DataStream):
            raise ProgramError(at_site(f"CEP.pattern takes a stream, not {short_repr(input)}."))
        if not isinstance(pattern, Pattern):
            raise ProgramError(
                at_site(f"CEP.pattern takes a Pattern, not {short_repr(pattern)}."),
                action="Begin one with Pattern.begin(...).",
            )
        compare = getattr(comparator, "compare", comparator)
        if compare is not None and not callable(compare):
            raise ProgramError(at_site(f"The comparator is a function of two events, not {short_repr(comparator)}."))
        return PatternStream(input, compile_pattern(pattern), compare)


@dataclass(frozen=True, eq=False)
class PatternStream:
    """The matches of a pattern, before something is made of them. `CEP.pattern` makes it.

    By default it works in event time: events are put in the order of their timestamps once the watermark has passed
    them, and those that come behind the watermark are dropped and counted in `numLateRecordsDropped`.
    """

    _stream: DataStream
    _automaton: Automaton
    _comparator: Callable[[Any, Any], int] | None = None
    _late_tag: OutputTag | None = None
    _event_time: bool = True

    def in_event_time(self) -> PatternStream:
        """Time is that of the events. This is the default."""
        return replace(self, _event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Time is that of the machines: events are taken as they come, at the processing time of their epoch."""
        return replace(self, _event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Send events that come too late to a side output of the result."""
        return replace(self, _late_tag=_require_tag(late_data_output_tag, "side_output_late_data"))

    # --- results ------------------------------------------------------------------------------------------------

    def select(
        self,
        function: PatternSelectFunction | Callable[[Match], Any],
        output_type: TypeInformation | None = None,
        *,
        timeout_tag: OutputTag | None = None,
        timeout_fn: PatternTimeoutFunction | Callable[[Match, int], Any] | None = None,
    ) -> DataStream:
        """One record for each match and, with `timeout_tag` and `timeout_fn`, one on the side output for each
        partial match that times out: `timeout_fn(match, timestamp)`."""
        chosen = require_callable(function, PatternSelectFunction, "select", "select")
        timed_out = _require_timeout(timeout_tag, timeout_fn, PatternTimeoutFunction, "select")
        on_timeout = None if timed_out is None else _TimedOut(timed_out[0], timed_out[1], flat=False)
        return self._transform(chosen, _Selected(chosen), on_timeout, output_type)

    def flat_select(
        self,
        function: PatternFlatSelectFunction | Callable[[Match], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
        *,
        timeout_tag: OutputTag | None = None,
        timeout_fn: PatternFlatTimeoutFunction | Callable[[Match, int], Iterable[Any] | None] | None = None,
    ) -> DataStream:
        """Any number of records for each match, and for each partial match that times out."""
        chosen = require_callable(function, PatternFlatSelectFunction, "flat_select", "flat_select")
        timed_out = _require_timeout(timeout_tag, timeout_fn, PatternFlatTimeoutFunction, "flat_select")
        on_timeout = None if timed_out is None else _TimedOut(timed_out[0], timed_out[1], flat=True)
        return self._transform(chosen, _FlatSelected(chosen), on_timeout, output_type)

    def process(self, function: PatternProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a PatternProcessFunction, which sees timed-out partial matches too if it is a
        TimedOutPartialMatchHandler."""
        chosen = require_methods(function, PatternProcessFunction, "process", "process_match")
        handles = isinstance(chosen, TimedOutPartialMatchHandler) or hasattr(chosen, "process_timed_out_match")
        on_timeout = _Method(chosen, "process_timed_out_match") if handles else None
        return self._transform(chosen, _Method(chosen, "process_match"), on_timeout, output_type)

    def _transform(
        self, function: Any, on_match: OnMatch, on_timeout: OnMatch | None, output_type: TypeInformation | None
    ) -> DataStream:
        operator = CepOperator(
            self._automaton,
            function,
            on_match,
            on_timeout,
            further_functions=(on_timeout.function,) if isinstance(on_timeout, _TimedOut) else (),
            event_type=self._stream._type,
            comparator=self._comparator,
            late_tag=self._late_tag,
            event_time=self._event_time,
        )
        declared = require_type(output_type, "output_type of the matches")
        if isinstance(self._stream, KeyedStream):
            return self._stream._keyed("CepOperator", operator, declared)
        whole = self._stream.key_by(_same_key, Types.INT())
        return whole._keyed("GlobalCepOperator", operator, declared).force_non_parallel()


def _require_tag(tag: Any, method: str) -> OutputTag:
    if not isinstance(tag, OutputTag):
        raise ProgramError(at_site(f"{method} takes an OutputTag, not {short_repr(tag)}."))
    return tag


def _require_timeout(tag: Any, function: Any, base: Any, method: str) -> tuple[OutputTag, Any] | None:
    if tag is None and function is None:
        return None
    if tag is None or function is None:
        raise ProgramError(
            at_site(f"{method} was given {'a timeout_fn' if tag is None else 'a timeout_tag'} alone."),
            action="Give both: the function, and the side output that its results go to.",
        )
    checked = require_callable(function, base, "timeout", f"{method}(timeout_fn=...)")
    return _require_tag(tag, f"{method}(timeout_tag=...)"), checked


# --- the shapes of functions, as one -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Selected:
    function: Any

    def __call__(self, match: Match, ctx: PatternContext) -> Iterable[Any]:
        return [getattr(self.function, "select", self.function)(match)]


@dataclass(frozen=True)
class _FlatSelected:
    function: Any

    def __call__(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        results: Iterable[Any] | None = getattr(self.function, "flat_select", self.function)(match)
        return results


@dataclass(frozen=True)
class _Method:
    function: Any
    method: str

    def __call__(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        results: Iterable[Any] | None = getattr(self.function, self.method)(match, ctx)
        return results


@dataclass(frozen=True)
class _TimedOut:
    tag: OutputTag
    function: Any
    flat: bool

    def __call__(self, match: Match, ctx: PatternContext) -> None:
        result = getattr(self.function, "timeout", self.function)(match, ctx.timestamp())
        for value in (result or ()) if self.flat else (result,):
            ctx.output(self.tag, value)
