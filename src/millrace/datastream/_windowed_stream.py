"""WindowedStream and AllWindowedStream: records by window, for a function that makes results of each window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from millrace.common.errors import ProgramError, short_repr
from millrace.common.time import DurationLike, to_millis
from millrace.common.typeinfo import TypeInformation, Types
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.windowing.assigners import MergingWindowAssigner, WindowAssigner
from millrace.runtime.windowing.choose import window_operator
from millrace.runtime.windowing.contents import Incremental
from millrace.runtime.windowing.evictors import Evictor
from millrace.runtime.windowing.functions import WindowCall
from millrace.runtime.windowing.spec import WindowSpec
from millrace.runtime.windowing.triggers import Trigger

from ._checks import at_site, require_callable, require_instance, require_methods
from ._combining import combined
from ._rolling import RollingExtreme, RollingSum, require_field
from .functions import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    KeySelector,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)

if TYPE_CHECKING:
    from ._data_stream import DataStream
    from ._keyed_stream import KeyedStream
    from .stream_execution_environment import StreamExecutionEnvironment


class _Windows:
    """What both kinds of windowed streams share: the settings, and the ways to compute."""

    _with_key = True
    _apply_base: type[Function] = WindowFunction
    _process_base: type[Function] = ProcessWindowFunction

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise ProgramError(
                at_site(f"window takes a WindowAssigner, not {short_repr(window_assigner)}."),
                action="Write, for example, window(TumblingEventTimeWindows.of(Duration.of_seconds(10))).",
            )
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._keyed_stream._env

    def get_input_type(self) -> TypeInformation:
        """The type of the records in the windows."""
        return self._keyed_stream.get_type()

    # --- settings -------------------------------------------------------------------------------------------

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """When windows fire, in place of what the assigner says."""
        if not isinstance(trigger, Trigger):
            raise ProgramError(at_site(f"trigger takes a Trigger, not {short_repr(trigger)}."))
        self._require_mergeable(trigger)
        self._trigger = trigger
        return self

    def _require_mergeable(self, trigger: Trigger[Any, Any]) -> None:
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ProgramError(
                at_site(
                    f"A merging window assigner ({self._assigner!r}) cannot be used with a trigger that does not "
                    f"support merging ({trigger!r})."
                ),
                action="Give the trigger can_merge and on_merge.",
            )

    def evictor(self, evictor: Evictor) -> Self:
        """What is taken out of a window before or after its function. It needs all records: see `apply`, `process`."""
        if not isinstance(evictor, Evictor):
            raise ProgramError(at_site(f"evictor takes an Evictor, not {short_repr(evictor)}."))
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """How long windows take records after their end. Each of those fires the window again."""
        lateness = to_millis(time_ms)
        if lateness < 0:
            raise ProgramError(at_site(f"The allowed lateness cannot be negative, got {lateness} ms."))
        if lateness and not self._assigner.is_event_time():
            raise ProgramError(
                at_site(f"Nothing is late in {self._assigner!r}: the allowed lateness is for event-time windows."),
                action="Drop allowed_lateness, or use windows of event time.",
            )
        self._lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Where records go that come after the allowed lateness; without it they are dropped and counted."""
        if not isinstance(output_tag, OutputTag):
            raise ProgramError(at_site(f"side_output_late_data takes an OutputTag, not {short_repr(output_tag)}."))
        self._late_tag = output_tag
        return self

    # --- ways to compute ------------------------------------------------------------------------------------

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Joins the records of a window into one as they come; the window function, if any, is given that one."""
        function = require_callable(reduce_function, ReduceFunction, "reduce", "reduce on windows")
        incremental = Incremental(function, aggregates=False, type_info=self._keyed_stream._type)
        return self._incremental("reduce", incremental, window_function, output_type, self._keyed_stream._type)

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Adds the records of a window to an accumulator as they come; the window function, if any, is given the
        result."""
        methods = ("create_accumulator", "add", "get_result", "merge")
        function = require_methods(aggregate_function, AggregateFunction, "aggregate on windows", *methods)
        incremental = Incremental(function, aggregates=True, type_info=accumulator_type)
        return self._incremental("aggregate", incremental, window_function, output_type, None)

    def _incremental(
        self,
        what: str,
        incremental: Incremental,
        window_function: Any,
        output_type: TypeInformation | None,
        own_type: TypeInformation | None,
    ) -> DataStream:
        if self._evictor is not None:
            raise ProgramError(
                at_site(
                    f"{what} keeps one value for each window of {self._assigner!r}, and an evictor "
                    f"({type(self._evictor).__name__}) needs all records."
                ),
                action="Use process(...) or apply(...) with the evictor.",
            )
        if window_function is None:
            return self._operator(incremental, None, output_type, own_type)
        return self._operator(incremental, self._window_call(window_function, what), output_type)

    def _window_call(self, function: Any, what: str) -> WindowCall:
        require_instance(function, what)
        if callable(getattr(function, "process", None)):
            return WindowCall(function, "process", self._with_key)
        checked = require_callable(function, self._apply_base, "apply", f"{what} with a window function")
        return WindowCall(checked, "apply", self._with_key)

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Calls a window function, or a callable like its `apply`, with all records of a window."""
        function = require_callable(window_function, self._apply_base, "apply", "apply on windows")
        return self._operator(None, WindowCall(function, "apply", self._with_key), output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Calls a process window function with all records of a window."""
        function = require_methods(process_window_function, self._process_base, "process on windows", "process")
        return self._operator(None, WindowCall(function, "process", self._with_key), output_type)

    # --- built-in aggregations --------------------------------------------------------------------------------

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The sum of a field; other fields are those of the window's first record."""
        field = require_field(position_to_sum, "sum")
        return self._built_in("sum", field, RollingSum(field))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The least value of a field; other fields are those of the window's first record."""
        return self._extreme(position_to_min, "min")

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The greatest value of a field; other fields are those of the window's first record."""
        return self._extreme(position_to_max, "max")

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record with the least value of a field; of several the first."""
        return self._extreme(position_to_min_by, "min_by")

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record with the greatest value of a field; of several the first."""
        return self._extreme(position_to_max_by, "max_by")

    def _extreme(self, field: int | str, operation: str) -> DataStream:
        whole = operation.endswith("by")
        function = RollingExtreme(require_field(field, operation), greatest=operation.startswith("max"), whole=whole)
        return self.reduce(function) if whole else self._built_in(operation, field, function)

    def _built_in(self, operation: str, field: int | str, function: ReduceFunction) -> DataStream:
        """A reduction that may begin before the exchange."""
        if self._evictor is None:
            stream = combined(self._keyed_stream, self._assigner, self._firing(), operation, field)
            self._keyed_stream = stream or self._keyed_stream
        return self.reduce(function)

    def _firing(self) -> Trigger[Any, Any]:
        return self._trigger or self._assigner.get_default_trigger(self._keyed_stream._env)

    # --- the operator -----------------------------------------------------------------------------------------

    def _operator(
        self,
        incremental: Incremental | None,
        call: WindowCall | None,
        output_type: TypeInformation | None,
        own_type: TypeInformation | None = None,
    ) -> DataStream:
        trigger = self._firing()
        self._require_mergeable(trigger)
        spec = WindowSpec(
            self._assigner,
            trigger,
            self._evictor,
            self._lateness,
            self._late_tag,
            self._keyed_stream._type,
            incremental,
            call,
        )
        name = f"{self._name}({self._assigner!r})"
        return self._keyed_stream._keyed(name, window_operator(spec), output_type, stream_type=own_type)

    _name = "Window"


class WindowedStream(_Windows):
    """The records of a keyed stream by key and window.

    >>> from millrace.common import Duration
    >>> from millrace.datastream import StreamExecutionEnvironment
    >>> from millrace.datastream.window import TumblingEventTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection([("a", 1), ("b", 1), ("a", 1)])
    >>> words.key_by(0).window(TumblingEventTimeWindows.of(Duration.of_seconds(10))).sum(1)
    DataStream(Window(TumblingEventTimeWindows(10000, 0)))
    """


class AllWindowedStream(_Windows):
    """The records of a whole stream by window: one subtask sees them all."""

    _with_key = False
    _apply_base = AllWindowFunction
    _process_base = ProcessAllWindowFunction
    _name = "AllWindow"

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(data_stream.key_by(_OneKey(), Types.BYTE()), window_assigner)

    def _operator(
        self,
        incremental: Incremental | None,
        call: WindowCall | None,
        output_type: TypeInformation | None,
        own_type: TypeInformation | None = None,
    ) -> DataStream:
        return super()._operator(incremental, call, output_type, own_type).force_non_parallel()


class _OneKey(KeySelector):
    """The same key for all records."""

    def get_key(self, value: Any) -> int:
        return 0
