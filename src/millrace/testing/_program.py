"""From a function to the one vertex that runs it: by the same calls that a program makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.typeinfo import TypeInformation
from millrace.common.watermark_strategy import WatermarkStrategy
from millrace.datastream import DataStream, StreamExecutionEnvironment
from millrace.datastream.async_data_stream import wait_as_described
from millrace.datastream.functions import AsyncFunctionDescriptor
from millrace.graph.job_graph import Vertex, plan_job
from millrace.graph.stream_graph import ChainingStrategy

# A function's method -> the stream's method that runs it. The first that the function has counts.
_ONE_INPUT = {
    "process_element": "process",
    "flat_map": "flat_map",
    "filter": "filter",
    "reduce": "reduce",
    "map": "map",
    "invoke": "add_sink",
    "create_writer": "sink_to",
}
_TWO_INPUTS = {"process_element1": "process", "flat_map1": "flat_map", "map1": "map"}

# Streams' methods whose results can be given a type.
_TYPED = frozenset({"process", "flat_map", "map"})


@dataclass(frozen=True)
class Program:
    """A program of sources (one for each input) and the operators under test behind them."""

    vertex: Vertex
    output: int

    @staticmethod
    def build(
        sources: int,
        transform: Callable[..., Any],
        *,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        input_types: tuple[TypeInformation | None, ...] = (),
    ) -> Program:
        """Call `transform(*streams)` and plan what it gives back. Its operators must form one chain."""
        env = StreamExecutionEnvironment().set_parallelism(parallelism)
        if max_parallelism is not None:
            env.set_max_parallelism(max_parallelism)
        types = (*input_types, *[None] * (sources - len(input_types)))
        streams = [env.from_collection([], type_info) for type_info in types]
        result = transform(*streams)
        graph = env.get_stream_graph("harness")
        for stream in streams:
            graph.nodes[_node_of(stream)].chaining = ChainingStrategy.NEVER
        vertices = [vertex for vertex in plan_job(graph).vertices if vertex.inputs]
        if len(vertices) != 1:
            raise ProgramError(
                f"A harness runs one chain of operators, and these are {len(vertices)}: "
                + ", ".join(vertex.name for vertex in vertices),
                action="Test each part in a harness of its own, or the whole with the fixture millrace_env.",
            )
        return Program(replace(vertices[0], outputs=()), _node_of(result))


def _node_of(stream: Any) -> int:
    """The operator behind a stream or a sink."""
    return int(stream._outlets[0].node_id if isinstance(stream, DataStream) else stream._sink.id)


def one_input(function: Any, method: str | None, output_type: TypeInformation | None) -> Callable[[Any], Any]:
    """How to put a function behind one stream."""
    if isinstance(function, AsyncFunctionDescriptor):
        return lambda stream: wait_as_described(stream, function, output_type)
    if method is None and isinstance(function, WatermarkStrategy):
        method = "assign_timestamps_and_watermarks"
    method = method or _method_for(function, _ONE_INPUT, "map")
    return lambda stream: _apply(stream, method, function, output_type)


def two_inputs(function: Any, method: str | None, output_type: TypeInformation | None) -> Callable[[Any], Any]:
    """How to put a function behind two connected streams."""
    method = method or _method_for(function, _TWO_INPUTS, None)
    return lambda connected: _apply(connected, method, function, output_type)


def _method_for(function: Any, methods: dict[str, str], of_callable: str | None) -> str:
    for name, method in methods.items():
        if callable(getattr(function, name, None)):
            return method
    if of_callable is not None and callable(function):
        return of_callable
    raise ProgramError(
        f"A harness cannot tell how to run {short_repr(function)}: it has none of the methods {', '.join(methods)}.",
        action="Give an instance of one of Millrace's function classes, or say method='...'.",
    )


def _apply(stream: Any, method: str, function: Any, output_type: TypeInformation | None) -> Any:
    if output_type is None:
        return getattr(stream, method)(function)
    if method not in _TYPED:
        raise ProgramError(f"{method} takes no output_type.")
    return getattr(stream, method)(function, output_type)
