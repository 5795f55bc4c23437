"""Serializers of the built-in windows."""

from __future__ import annotations

import struct
from typing import BinaryIO

from millrace.common.serializer import TypeSerializer

from .windows import CountWindow, GlobalWindow, TimeWindow

_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Start and end, eight bytes each.

    >>> import io
    >>> stream = io.BytesIO()
    >>> TimeWindowSerializer().serialize(TimeWindow(-10, 5), stream)
    >>> TimeWindowSerializer().deserialize(io.BytesIO(stream.getvalue()))
    TimeWindow(start=-10, end=5)
    """

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(_TWO_LONGS.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """The id, eight bytes."""

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(stream.read(_LONG.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One byte: all global windows are the same."""

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow()
