"""Two streams for one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from millrace.runtime.operators.connected import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoFlatMapOperator,
    KeyedCoMapOperator,
    KeyedCoProcessOperator,
)
from millrace.state.descriptors import MapStateDescriptor

from ._checks import at_site, refuse, require_methods, require_type
from ._data_stream import DataStream, add_operator
from ._keyed_stream import KeyedStream
from .functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)

if TYPE_CHECKING:
    from .stream_execution_environment import StreamExecutionEnvironment


class ConnectedStreams:
    """Two streams whose operator tells them apart and keeps state for both."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        stream1._require_same_environment(stream2)
        self.stream1 = stream1
        self.stream2 = stream2

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self.stream1._env

    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Both streams by key: equal keys of the two meet, and share state."""
        keyed1 = self.stream1.key_by(key_selector1, key_type)
        return ConnectedStreams(keyed1, self.stream2.key_by(key_selector2, key_type))

    @property
    def _keyed(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a CoMapFunction."""
        function = require_methods(func, CoMapFunction, "map on connected streams", "map1", "map2")
        operator = KeyedCoMapOperator(function) if self._keyed else CoMapOperator(function)
        return self._transform("Co-Map", operator, output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a CoFlatMapFunction."""
        function = require_methods(
            func, CoFlatMapFunction, "flat_map on connected streams", "flat_map1", "flat_map2"
        )
        operator = KeyedCoFlatMapOperator(function) if self._keyed else CoFlatMapOperator(function)
        return self._transform("Co-Flat Map", operator, output_type)

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a CoProcessFunction or, where both streams have keys, a KeyedCoProcessFunction."""
        if not self._keyed:
            refuse(
                func, (KeyedCoProcessFunction,), "process on connected streams without keys",
                "Put key_by(selector1, selector2) in front of process(...).",
            )
        base = KeyedCoProcessFunction if self._keyed else CoProcessFunction
        function = require_methods(
            func, base, "process on connected streams", "process_element1", "process_element2"
        )
        if self._keyed:
            return self._transform("Co-Keyed-Process", KeyedCoProcessOperator(function), output_type)
        return self._transform("Co-Process", CoProcessOperator(function), output_type)

    def _transform(self, name: str, operator: Operator, output_type: TypeInformation | None) -> DataStream:
        declared = require_type(output_type, f"output_type of {name!r}")
        first = self.stream1
        key_type = first.get_key_type() if isinstance(first, KeyedStream) else None
        inputs = (first._outlets, self.stream2._outlets)
        return add_operator(first._env, name, operator, inputs, declared, key_type=key_type)


class BroadcastStream:
    """A stream whose records reach every subtask, with the states that they are kept in."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: Any) -> None:
        wrong = [item for item in broadcast_state_descriptors if not isinstance(item, MapStateDescriptor)]
        if wrong:
            raise ProgramError(at_site(f"broadcast takes MapStateDescriptors, not {short_repr(wrong[0])}."))
        names = [descriptor.name for descriptor in broadcast_state_descriptors]
        if len(set(names)) < len(names):
            raise ProgramError(at_site(f"A broadcast state stands twice: {', '.join(names)}."))
        self.input_stream = input_stream.broadcast()
        self.broadcast_state_descriptors = tuple(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream and a broadcast one."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Any,
    ) -> None:
        non_broadcast_stream._require_same_environment(broadcast_stream.input_stream)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = tuple(broadcast_state_descriptors)

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Runs a KeyedBroadcastProcessFunction where the first stream has keys, else a BroadcastProcessFunction."""
        first = self.non_broadcast_stream
        keyed = isinstance(first, KeyedStream)
        operation = f"process on a {'keyed ' if keyed else ''}stream with a broadcast one"
        methods = ("process_element", "process_broadcast_element")
        if isinstance(first, KeyedStream):
            refuse(func, (BroadcastProcessFunction,), operation, "Subclass KeyedBroadcastProcessFunction.")
            function = require_methods(func, KeyedBroadcastProcessFunction, operation, *methods)
            operator: Operator = KeyedBroadcastProcessOperator(function, self.broadcast_state_descriptors)
            return self._transform("Co-Process-Broadcast-Keyed", operator, output_type, first.get_key_type())
        refuse(func, (KeyedBroadcastProcessFunction,), operation, "Put key_by(...) in front of connect(...).")
        function = require_methods(func, BroadcastProcessFunction, operation, *methods)
        operator = BroadcastProcessOperator(function, self.broadcast_state_descriptors)
        return self._transform("Co-Process-Broadcast", operator, output_type, None)

    def _transform(
        self, name: str, operator: Operator, output_type: TypeInformation | None, key_type: TypeInformation | None
    ) -> DataStream:
        declared = require_type(output_type, f"output_type of {name!r}")
        first, second = self.non_broadcast_stream, self.broadcast_stream.input_stream
        inputs = (first._outlets, second._outlets)
        return add_operator(first._env, name, operator, inputs, declared, key_type=key_type)
