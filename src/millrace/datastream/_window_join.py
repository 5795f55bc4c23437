"""Two streams that meet in windows: `stream.join(other)` and `stream.co_group(other)`.

Both are windows over the union of the two streams, whose records are told apart by a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from millrace.common.errors import ProgramError, short_repr
from millrace.common.time import DurationLike
from millrace.common.typeinfo import TypeInformation, Types
from millrace.runtime.failure import resolve
from millrace.runtime.windowing.assigners import WindowAssigner
from millrace.runtime.windowing.evictors import Evictor
from millrace.runtime.windowing.triggers import Trigger

from ._checks import at_site, require_callable, require_type
from ._fields import key_selector as as_selector
from ._windowed_stream import WindowedStream
from .functions import (
    CoGroupFunction,
    FlatJoinFunction,
    Function,
    JoinFunction,
    KeySelector,
    MapFunction,
    RuntimeContext,
    WindowFunction,
)

if TYPE_CHECKING:
    from ._data_stream import DataStream

# (0, record of the first stream, None) or (1, None, record of the second)
_Tagged = tuple[int, Any, Any]


@dataclass(frozen=True)
class _Tag(MapFunction):
    side: int

    def map(self, value: Any) -> _Tagged:
        return (0, value, None) if self.side == 0 else (1, None, value)


@dataclass(frozen=True)
class _KeyOfEither(KeySelector):
    selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]]

    def get_key(self, value: _Tagged) -> Any:
        side = value[0]
        return self.selectors[side](value[side + 1])


class _BySide(WindowFunction[Any, Any, Any, Any]):
    """Runs a function over both sides of a window."""

    def __init__(self, function: Any, method: str) -> None:
        self.function = function
        self._method = method

    def open(self, runtime_context: RuntimeContext) -> None:
        if callable(opening := getattr(self.function, "open", None)):
            opening(runtime_context)
        self._call = resolve(self.function, self._method)

    def close(self) -> None:
        if callable(closing := getattr(self.function, "close", None)):
            closing()

    def apply(self, key: Any, window: Any, inputs: Iterable[_Tagged]) -> Iterable[Any] | None:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for record in inputs:
            side = record[0]
            sides[side].append(record[side + 1])
        return self._results(*sides)

    def _results(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        found: Iterable[Any] | None = self._call(first, second)
        return found


class _Pairs(_BySide):
    """Calls a join function on every pair."""

    def _results(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        return (self._call(one, other) for one in first for other in second)


class _FlatPairs(_BySide):
    """Calls a flat join function on every pair."""

    def _results(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        return (result for one in first for other in second for result in self._call(one, other) or ())


class _TwoStreams:
    """Two streams, on the way to windows: `where(key).equal_to(key).window(assigner)`."""

    _windows: type[_WithWindow]

    def __init__(self, stream1: DataStream, stream2: Any) -> None:
        from ._data_stream import DataStream

        if not isinstance(stream2, DataStream):
            raise ProgramError(at_site(f"{self._verb} takes a DataStream, not {short_repr(stream2)}."))
        stream1._require_same_environment(stream2)
        self._streams = (stream1, stream2)

    _verb: ClassVar[str]

    def where(self, key_selector: Any, key_type: TypeInformation | None = None) -> _Where:
        """The key of the first stream's records."""
        selector = as_selector(key_selector, self._streams[0]._type)
        return _Where(self, selector, require_type(key_type, "key_type"))


class _Where:
    def __init__(
        self, streams: _TwoStreams, selector: Callable[[Any], Any], key_type: TypeInformation | None
    ) -> None:
        self._streams = streams
        self._selector = selector
        self._key_type = key_type

    def equal_to(self, key_selector: Any) -> _EqualTo:
        """The key of the second stream's records."""
        selector = as_selector(key_selector, self._streams._streams[1]._type)
        return _EqualTo(self._streams, (self._selector, selector), self._key_type)


class _EqualTo:
    def __init__(
        self,
        streams: _TwoStreams,
        selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        key_type: TypeInformation | None,
    ) -> None:
        self._streams = streams
        self._selectors = selectors
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> _WithWindow:
        """The windows in which the two streams meet."""
        first, second = self._streams._streams
        types = (first._type, second._type)
        tagged_type = None if None in types else Types.TUPLE([Types.INT(), *types])  # type: ignore[list-item]
        union = _tagged(first, 0, tagged_type).union(_tagged(second, 1, tagged_type))
        keyed = union.key_by(_KeyOfEither(self._selectors), self._key_type)
        return self._streams._windows(WindowedStream(keyed, window_assigner))


def _tagged(stream: DataStream, side: int, tagged_type: TypeInformation | None) -> DataStream:
    tagged = stream._plain_view().map(_Tag(side)).name(f"Input {side + 1}")
    tagged._type = tagged_type
    return tagged.set_parallelism(stream._parallelism())


class _WithWindow:
    """The last step: settings of the windows, and the function."""

    def __init__(self, windows: WindowedStream) -> None:
        self._window = windows

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """When windows fire, in place of what the assigner says."""
        self._window.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """What is taken out of a window. It sees `(0, first, None)` and `(1, None, second)`."""
        self._window.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """How long windows take records after their end."""
        self._window.allowed_lateness(time_ms)
        return self

    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs the function when a window fires. Results bear the last timestamp of the window."""
        raise NotImplementedError


class _JoinWindow(_WithWindow):
    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        base: type[Function] = FlatJoinFunction if isinstance(function, FlatJoinFunction) else JoinFunction
        checked = require_callable(function, base, "join", "join")
        pairs = _FlatPairs if base is FlatJoinFunction else _Pairs
        return self._window.apply(pairs(checked, "join"), output_type).name("Window join")


class _CoGroupWindow(_WithWindow):
    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        checked = require_callable(function, CoGroupFunction, "co_group", "co_group")
        return self._window.apply(_BySide(checked, "co_group"), output_type).name("Window co-group")


class JoinedStreams(_TwoStreams):
    """Pairs of records with equal keys that lie in the same window: an inner join."""

    _verb = "join"
    _windows = _JoinWindow


class CoGroupedStreams(_TwoStreams):
    """What two streams have of a key in a window, for one function."""

    _verb = "co_group"
    _windows = _CoGroupWindow
