"""Streams: what transformations are called on. PyFlink keeps all of these in one module."""

from ._collect import CloseableIterator
from ._connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from ._data_stream import DataStream
from ._iteration import IterativeStream
from ._keyed_stream import KeyedStream
from ._sinks import DataStreamSink
from ._window_join import CoGroupedStreams, JoinedStreams
from ._windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IterativeStream",
    "JoinedStreams",
    "KeyedStream",
    "WindowedStream",
]
