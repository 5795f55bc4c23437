"""KeyedStream: a stream whose records of one key are together."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from millrace.common.errors import ProgramError
from millrace.common.time import DurationLike
from millrace.common.typeinfo import TypeInformation
from millrace.graph.partitioning import KeyGroups
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.keyed import ReduceOperator
from millrace.runtime.operators.keyed_functions import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
)
from millrace.runtime.operators.process import KeyedProcessOperator
from millrace.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from millrace.runtime.windowing.assigners import WindowAssigner
from millrace.state.descriptors import ValueStateDescriptor

from ._checks import at_site, refuse, require_callable, require_methods
from ._data_stream import DataStream, Outlets, count_windows, time_windows
from ._operator_settings import refuse_view
from ._rolling import RollingExtreme, RollingSum, require_field
from ._windowed_stream import WindowedStream
from .functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)

if TYPE_CHECKING:
    from ._joins import IntervalJoin, TemporalJoin


class KeyedStream(DataStream):
    """A stream by key. Its operators have state and timers of each key.

    >>> from millrace.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection([("a", 1), ("b", 1), ("a", 1)])
    >>> words.key_by(0).sum(1)
    DataStream(Keyed Aggregation)
    """

    class AccumulateType(Enum):
        """The rolling aggregations."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(
        self, stream: DataStream, selector: Callable[[Any], Any], key_type: TypeInformation | None
    ) -> None:
        keyed = stream._distributed(KeyGroups(selector))
        super().__init__(stream._env, keyed._outlets, stream._type)
        self._stream = stream
        self._key_type = key_type

    def _plain_outlets(self) -> Outlets:
        return self._stream._plain_outlets()

    def _plain_view(self) -> DataStream:
        return self._stream._plain_view()

    def get_key_type(self) -> TypeInformation | None:
        """The declared type of the key."""
        return self._key_type

    # --- transformations ----------------------------------------------------------------------------------------

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, one out. A MapFunction may use the state of the record's key."""
        function = require_callable(func, MapFunction, "map", "map")
        return self._keyed("Map", _choose(function, KeyedMapOperator, MapOperator), output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, any number out. A FlatMapFunction may use the state of the record's key."""
        function = require_callable(func, FlatMapFunction, "flat_map", "flat_map")
        return self._keyed("Flat Map", _choose(function, KeyedFlatMapOperator, FlatMapOperator), output_type)

    def filter(self, func: Any) -> DataStream:
        """Keeps some records. A FilterFunction may use the state of the record's key."""
        function = require_callable(func, FilterFunction, "filter", "filter")
        return self._keyed("Filter", _choose(function, KeyedFilterOperator, FilterOperator), stream_type=self._type)

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a KeyedProcessFunction: state and timers of each key, timestamps, side outputs."""
        refuse(func, (KeyedCoProcessFunction,), "process on one stream", "Put connect(...) in front of process(...).")
        function = require_methods(func, KeyedProcessFunction, "process", "process_element")
        return self._keyed("KeyedProcess", KeyedProcessOperator(function), output_type)

    def reduce(self, func: Any) -> DataStream:
        """Joins each record with what was joined so far for its key.

        STREAMING mode emits every intermediate result, BATCH mode the last one of each key.
        """
        function = require_callable(func, ReduceFunction, "reduce", "reduce")
        return self._reduced("Keyed Reduce", function)

    def _reduced(self, name: str, function: Any) -> DataStream:
        operator = ReduceOperator(function, ValueStateDescriptor("reduced", self._type))
        return self._keyed(name, operator, self._type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The sum of a field so far; other fields stay those of the key's first record."""
        return self._reduced("Keyed Aggregation", RollingSum(require_field(position_to_sum, "sum")))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The least value of a field so far; other fields stay those of the key's first record."""
        return self._extreme(position_to_min, "min")

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The greatest value of a field so far; other fields stay those of the key's first record."""
        return self._extreme(position_to_max, "max")

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record with the least value of a field so far; of several the first."""
        return self._extreme(position_to_min_by, "min_by")

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record with the greatest value of a field so far; of several the first."""
        return self._extreme(position_to_max_by, "max_by")

    def _extreme(self, field: int | str, operation: str) -> DataStream:
        function = RollingExtreme(
            require_field(field, operation), greatest=operation.startswith("max"), whole=operation.endswith("by")
        )
        return self._reduced("Keyed Aggregation", function)

    def project(self, *field_indexes: int) -> DataStream:
        """Keeps some fields; the result has no key."""
        return self._stream.project(*field_indexes)

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """The stream by another key."""
        return self._stream.key_by(key_selector, key_type)

    def _keyed(
        self,
        name: str,
        operator: Operator,
        output_type: TypeInformation | None = None,
        *,
        stream_type: TypeInformation | None = None,
    ) -> DataStream:
        return self._transform(name, operator, output_type, stream_type=stream_type, key_type=self._key_type)

    # --- joins in event time ------------------------------------------------------------------------------------

    def interval_join(self, other: KeyedStream, how: str = "inner") -> IntervalJoin:
        """Joins records of equal keys whose times are near each other: `interval_join(other).between(lower, upper)`.

        `how` is "inner", "left", "right" or "outer": whether a record without a partner is joined with None, when
        the watermark says that none will come.
        """
        from ._joins import IntervalJoin

        return IntervalJoin(self, other, how)

    def temporal_join(self, versions: KeyedStream, how: str = "inner") -> TemporalJoin:
        """Joins each record with the version of its key that was the last one at its time.

        `versions` is a stream of changes: each record replaces the one before it of the same key, from its timestamp
        on. A record waits until the watermark has reached its time. With `how="left"` a record for which there
        is no version is joined with None.
        """
        from ._joins import TemporalJoin

        return TemporalJoin(self, versions, how)

    # --- windows ------------------------------------------------------------------------------------------------

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """The records of each key by window."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of so many records of a key; with a slide they overlap."""
        return WindowedStream(self, count_windows(size, slide))

    def time_window(self, size: DurationLike, slide: DurationLike | None = None) -> WindowedStream:
        """Short for `window` with tumbling event-time windows or, with a slide, sliding ones."""
        return WindowedStream(self, time_windows(size, slide))

    # --- what would take the records away from their key ----------------------------------------------------------

    def _no_distribution(self) -> NoReturn:
        raise ProgramError(
            at_site("A stream by key is distributed by its key."), action="Drop key_by, or distribute what comes after."
        )

    def shuffle(self) -> DataStream:
        self._no_distribution()

    def rebalance(self) -> DataStream:
        self._no_distribution()

    def rescale(self) -> DataStream:
        self._no_distribution()

    def forward(self) -> DataStream:
        self._no_distribution()

    def global_(self) -> DataStream:
        self._no_distribution()

    def broadcast(self, *args: Any) -> NoReturn:
        self._no_distribution()

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        self._no_distribution()

    def _node(self, setting: str) -> NoReturn:
        program = self._env._program
        refuse_view(setting, "a stream by key", program.graph.nodes[self._outlets[0].node_id])
        raise AssertionError


def _choose(function: Any, keyed: type[Operator], plain: type[Operator]) -> Operator:
    """A function object may have state and is run by key; a bare callable has none and takes the quick way."""
    return keyed(function) if isinstance(function, Function) or hasattr(function, "open") else plain(function)


setattr(KeyedStream, "global", KeyedStream.global_)
