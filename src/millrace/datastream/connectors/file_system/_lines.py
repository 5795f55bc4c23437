"""Files of lines, which can be cut anywhere: a line belongs to the part that it begins in."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import Any

from millrace.common.errors import ConfigurationError, DecodingError
from millrace.common.serialization import DeserializationSchema
from millrace.common.typeinfo import TypeInformation, Types
from millrace.runtime.sources.base import CHUNK_RECORDS

from ._formats import Extent, InputFile, StreamFormat, in_lists

# Read at once: large enough that a read does not count, small enough for one per reader.
_BLOCK = 1 << 20

# Looked at to learn how long lines are.
_SAMPLE = 1 << 16

# Charsets in which the byte 10 is a line's end and nothing else.
_CUTTABLE = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252"})


def lines_between(stream: Any, start: int, end: int) -> Iterator[bytes]:
    """The lines that begin at `start` or behind it and before `end`: bytes of whole lines, many at once.

    >>> from io import BytesIO
    >>> [*lines_between(BytesIO(b"one;two\\nthree\\nfour"), 2, 9)], [*lines_between(BytesIO(b"a\\nb"), 2, 3)]
    ([b'three\\n'], [b'b'])
    """
    place = _first_line(stream, start)
    carry = b""
    while place < end:
        block = stream.read(_BLOCK)
        data = carry + block
        # The line that holds the byte before `end` is the last.
        last = end - place - 1
        cut = data.find(b"\n", last) if last < len(data) else data.rfind(b"\n", len(carry))
        if not block:
            cut = len(data) - 1
            if cut < 0:
                return
        if cut < 0:
            carry = data
            continue
        yield data[: cut + 1]
        if not block:
            return
        carry, place = data[cut + 1 :], place + cut + 1


def _first_line(stream: Any, start: int) -> int:
    """Where the first line begins, at `start` or behind it; the stream stands there."""
    if not start:
        return 0
    stream.seek(start - 1)
    place = start - 1
    while block := stream.read(_BLOCK):
        cut = block.find(b"\n")
        if cut >= 0:
            place += int(cut) + 1
            stream.seek(place)
            break
        place += len(block)
    return place


def _pieces(lines: list[Any]) -> Iterator[list[Any]]:
    for first in range(0, len(lines), CHUNK_RECORDS):
        yield lines[first : first + CHUNK_RECORDS]


class _Lines(StreamFormat):
    _cuttable = True

    def extent(self, file: InputFile) -> Extent:
        if file.is_compressed or not self._cuttable:
            return super().extent(file)
        with file.open() as stream:
            sample = stream.read(_SAMPLE)
        length = len(sample) / max(1, sample.count(b"\n"))
        return Extent(file.size, max(1, int(file.size / max(1.0, length))))


class TextLines(_Lines):
    """Lines of text."""

    def __init__(self, charset: str) -> None:
        try:
            self._charset = codecs.lookup(charset).name
        except LookupError:
            raise ConfigurationError(f"there is no charset {charset!r}") from None
        self._cuttable = self._charset in _CUTTABLE

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        try:
            if file.is_compressed or not self._cuttable:
                yield from self._read_whole(file)
                return
            with file.open() as stream:
                for data in lines_between(stream, start, end):
                    yield from _pieces(self._lines(data))
        except UnicodeDecodeError as error:
            raise DecodingError(
                f"the file {file.path} is not {self._charset}: {error}", action="Name the charset that it has."
            ) from error

    def _lines(self, data: bytes) -> list[str]:
        text = data.decode(self._charset)
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines

    def _read_whole(self, file: InputFile) -> Iterator[list[Any]]:
        with file.open_from_start() as stream, io.TextIOWrapper(stream, self._charset, newline="\n") as lines:
            yield from in_lists(line.removesuffix("\n").removesuffix("\r") for line in lines)


class SchemaLines(_Lines):
    """Lines that a deserialization schema reads."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema
        self._is_open = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_open": False}

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()

    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        if not self._is_open:
            self._schema.open()
            self._is_open = True
        if file.is_compressed:
            with file.open_from_start() as stream, io.BufferedReader(stream) as lines:
                yield from in_lists(self._records(lines))
            return
        with file.open() as stream:
            for data in lines_between(stream, start, end):
                yield from _pieces(list(self._records(data.split(b"\n"))))

    def _records(self, lines: Any) -> Iterator[Any]:
        deserialize = self._schema.deserialize
        for line in lines:
            if message := line.rstrip(b"\r\n"):
                record = deserialize(message)
                if record is not None:
                    yield record
