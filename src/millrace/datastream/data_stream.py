"""Streams: what transformations are called on. PyFlink keeps all of these in one module."""

from ._collect import CloseableIterator
from ._connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from ._data_stream import DataStream
from ._iteration import IterativeStream
from ._keyed_stream import KeyedStream
from ._sinks import DataStreamSink

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IterativeStream",
    "KeyedStream",
]
