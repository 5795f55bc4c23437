"""Joins in event time, and with a table: what is said of them before they become an operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from millrace.common.errors import NotSupportedError, ProgramError, short_repr
from millrace.common.time import DurationLike, to_millis
from millrace.common.typeinfo import TypeInformation, Types
from millrace.graph.partitioning import Broadcast
from millrace.runtime.operators.joins.interval import IntervalJoinOperator
from millrace.runtime.operators.joins.lookup import LookupJoinOperator, pair
from millrace.runtime.operators.joins.temporal import TemporalJoinOperator
from millrace.runtime.operators.joins.timed import JoinInput, TimedJoinOperator
from millrace.runtime.output_tag import OutputTag

from ._checks import at_site, refuse, require_instance, require_methods, require_type
from ._data_stream import DataStream, add_operator
from ._fields import key_selector
from ._keyed_stream import KeyedStream
from .functions import Function, ProcessJoinFunction

if TYPE_CHECKING:
    from collections.abc import Callable

_SIDES = {"inner": (False, False), "left": (True, False), "right": (False, True), "outer": (True, True)}


@dataclass(frozen=True)
class _Join:
    """Two keyed streams to be joined: what the joins in event time have in common."""

    operation: str
    left: KeyedStream
    right: KeyedStream
    inputs: tuple[JoinInput, JoinInput]

    @staticmethod
    def of(operation: str, left: KeyedStream, right: Any, how: str, *kinds: str) -> _Join:
        """The join, if the two streams can be joined."""
        if not isinstance(right, KeyedStream):
            raise ProgramError(
                at_site(f"{operation} takes a stream by key, not {short_repr(right)}."),
                action="Put key_by(...) behind the second stream, too.",
            )
        left._require_same_environment(right)
        one, other = left.get_key_type(), right.get_key_type()
        if one is not None and other is not None and one != other:
            raise ProgramError(
                at_site(f"{operation} needs keys of one type, not of {one.describe()} and {other.describe()}."),
                action="Give both streams the same key_type.",
            )
        outer = require_how(operation, how, *kinds)
        sides = zip((left, right), outer, strict=True)
        first, second = (JoinInput(stream._type, is_outer) for stream, is_outer in sides)
        return _Join(operation, left, right, (first, second))

    def with_late(self, side: int, tag: Any) -> _Join:
        """The join whose late records of one side go to a side output."""
        if not isinstance(tag, OutputTag):
            raise ProgramError(at_site(f"The late data of {self.operation} goes to an OutputTag, not {tag!r}."))
        inputs = list(self.inputs)
        inputs[side] = replace(inputs[side], late=tag)
        return replace(self, inputs=(inputs[0], inputs[1]))

    def function(self, func: Any) -> Any:
        """The function of `process`."""
        operator = f"process of {self.operation}"
        if isinstance(func, Function) and not isinstance(func, ProcessJoinFunction):
            refuse(func, (Function,), operator, "Subclass ProcessJoinFunction.")
        return require_methods(func, ProcessJoinFunction, operator, "process_element")

    def stream(self, name: str, operator: TimedJoinOperator, output_type: TypeInformation | None) -> DataStream:
        """The joined stream."""
        left, right = self.left, self.right
        declared = require_type(output_type, f"output_type of {name!r}")
        key_type = left.get_key_type() or right.get_key_type()
        return add_operator(
            left._env, name, operator, (left._outlets, right._outlets), declared, key_type=key_type
        )


def require_how(operation: str, how: Any, *kinds: str) -> tuple[bool, bool]:
    """Of which sides records without a partner are kept."""
    if how not in kinds:
        known = ", ".join(map(repr, kinds))
        raise ProgramError(at_site(f"The parameter how of {operation} is one of {known}, not {how!r}."))
    return _SIDES[how]


class IntervalJoin:
    """Two streams by key, to be joined `between` two bounds."""

    def __init__(self, left: KeyedStream, right: Any, how: str) -> None:
        self._join = _Join.of("interval_join", left, right, how, *_SIDES)

    def in_event_time(self) -> IntervalJoin:
        """Join by the records' timestamps. This is the default, and all there is."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Refused, as in Flink."""
        raise NotSupportedError(
            at_site("interval_join joins in event time only."), action="Leave out in_processing_time()."
        )

    def between(self, lower_bound: DurationLike, upper_bound: DurationLike) -> IntervalJoined:
        """Join a left record at t with the right ones from `t + lower_bound` to `t + upper_bound`, both included.

        Bounds are Durations, Times, timedeltas or milliseconds, and may be negative.
        """
        lower, upper = (
            _require_span(bound, which) for bound, which in ((lower_bound, "lower"), (upper_bound, "upper"))
        )
        if lower > upper:
            raise ProgramError(
                at_site(f"The lower bound of interval_join, {lower} ms, is above the upper one, {upper} ms."),
                action="Write between(lower_bound, upper_bound).",
            )
        return IntervalJoined(self._join, lower, upper)


def _require_span(span: Any, which: str) -> int:
    try:
        return to_millis(span)
    except ProgramError as error:
        raise ProgramError(
            at_site(f"The {which} bound of interval_join: {error.message}"), action=error.action
        ) from None


class IntervalJoined:
    """An interval join with its bounds. Each setting gives the same object back, as in Flink."""

    def __init__(self, join: _Join, lower: int, upper: int) -> None:
        self._join = join
        self._bounds = (lower, upper)
        self._excluded = [0, 0]

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave out what lies exactly at the lower bound."""
        self._excluded[0] = 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave out what lies exactly at the upper bound."""
        self._excluded[1] = 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send left records behind the watermark to a side output; without one they are dropped and counted."""
        self._join = self._join.with_late(0, output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """The same for right records."""
        self._join = self._join.with_late(1, output_tag)
        return self

    def process(self, process_join_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a ProcessJoinFunction on each pair. A result's timestamp is the later one of the two."""
        function = self._join.function(process_join_function)
        lower, upper = self._bounds[0] + self._excluded[0], self._bounds[1] - self._excluded[1]
        if lower > upper:
            raise ProgramError(
                at_site("No timestamp lies between the bounds of interval_join."),
                action="Include one of the bounds, or move them apart.",
            )
        operator = IntervalJoinOperator(function, lower, upper, self._join.inputs)
        return self._join.stream("Interval Join", operator, output_type)


class TemporalJoin:
    """A stream by key, to be joined with the versions of a table as of its records' times."""

    def __init__(self, left: KeyedStream, versions: Any, how: str) -> None:
        self._join = _Join.of("temporal_join", left, versions, how, "inner", "left")

    def side_output_late_data(self, output_tag: OutputTag) -> TemporalJoin:
        """Send records behind the watermark to a side output; without one they are dropped and counted."""
        self._join = self._join.with_late(0, output_tag)
        return self

    def process(self, process_join_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a ProcessJoinFunction on each record and its version, with the record's timestamp."""
        operator = TemporalJoinOperator(self._join.function(process_join_function), self._join.inputs)
        return self._join.stream("Temporal Join", operator, output_type)


# --- with a table -------------------------------------------------------------------------------------------


def lookup_join(
    stream: DataStream,
    table: Any,
    on: Any,
    table_on: Any,
    function: Any,
    how: str,
    output_type: TypeInformation | None,
) -> DataStream:
    """See `DataStream.lookup_join`."""
    if getattr(table, "isStreaming", False):
        raise ProgramError(
            at_site("lookup_join takes a table that is at rest, and this DataFrame is a stream."),
            action="Use temporal_join: env.from_data_frame(...) with timestamps, by key.",
        )
    outer, _ = require_how("lookup_join", how, "inner", "left")
    selectors = (on, _table_on(on, table_on))
    call = _require_function(function)
    rows = stream._env.from_data_frame(table).name("Lookup Table")
    return join_rows(stream, rows, selectors, call, outer, output_type)


def _table_on(on: Any, table_on: Any) -> Any:
    if table_on is not None:
        return table_on
    parts = on if isinstance(on, (list, tuple)) and on else (on,)
    if all(isinstance(part, str) for part in parts):
        return on
    raise ProgramError(
        at_site(f"lookup_join cannot tell where {short_repr(on)} stands in the table."),
        action='Say table_on="column"; it may be left out where record and table have fields of the same names.',
    )


def _require_function(function: Any) -> Callable[[Any, Any], Any]:
    if function is None:
        return pair
    require_instance(function, "lookup_join")
    if callable(getattr(function, "join", None)) or (callable(function) and not isinstance(function, Function)):
        return function  # type: ignore[no-any-return]
    raise ProgramError(
        at_site(f"lookup_join takes a callable of a record and a row, not {short_repr(function)}."),
        action="Write lookup_join(..., function=lambda record, row: ...).",
    )


def join_rows(
    stream: DataStream,
    rows: DataStream,
    selectors: tuple[Any, Any],
    function: Callable[[Any, Any], Any],
    outer: bool,
    output_type: TypeInformation | None = None,
) -> DataStream:
    """Join a stream with rows that are read whole in the job's first epoch."""
    record_key, row_key = (
        key_selector(selector, side._type) for selector, side in zip(selectors, (stream, rows), strict=True)
    )
    operator = LookupJoinOperator(function, (record_key, row_key), rows._type, outer)
    declared = require_type(output_type, "output_type of 'Lookup Join'")
    known = None
    if function is pair and stream._type is not None and rows._type is not None:
        known = Types.TUPLE([stream._type, rows._type])
    inputs = (stream._outlets, rows._distributed(Broadcast(first=True))._outlets)
    return add_operator(stream._env, "Lookup Join", operator, inputs, declared, known)
