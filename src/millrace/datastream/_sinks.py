"""The end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.graph.stream_graph import StreamNode
from millrace.runtime.operators.base import BadRecord
from millrace.runtime.output_tag import OutputTag

from ._operator_settings import OperatorSettings
from ._program import Outlet

if TYPE_CHECKING:
    from ._data_stream import DataStream
    from .stream_execution_environment import StreamExecutionEnvironment

__all__ = ["BadRecord", "DataStreamSink"]


class DataStreamSink(OperatorSettings):
    """A sink that was added, for its settings."""

    def __init__(self, env: StreamExecutionEnvironment, node: StreamNode) -> None:
        self._env = env
        self._sink = node

    def _node(self, setting: str) -> StreamNode:
        return self._sink

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The records that the sink failed on, after `on_error(output_tag)`."""
        from ._data_stream import DataStream

        return DataStream(self._env, (Outlet(self._sink.id, output_tag.tag_id),), None)

    def __repr__(self) -> str:
        return f"DataStreamSink({self._sink.name!r})"
