"""Files of lines, each of which is a message of some schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from millrace.common.serialization import DeserializationSchema, SerializationSchema
from millrace.common.typeinfo import TypeInformation

from .files import FileFormat, FileWriter, FileWriterFactory, after

__all__ = ["LineFormat", "LineWriterFactory"]

_BATCH = 2048


class LineFormat(FileFormat):
    """Reads a record from each line; empty lines are left out.

    >>> import io
    >>> from millrace.common import SimpleStringSchema
    >>> list(LineFormat(SimpleStringSchema()).read(io.BytesIO(b"a\\r\\nb")))
    [['a', 'b']]
    """

    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()

    def read(self, stream: BinaryIO, skip: int = 0) -> Iterator[list[Any]]:
        return after(self._batches(stream), skip)

    def _batches(self, stream: Iterable[bytes]) -> Iterator[list[Any]]:
        lines = iter(stream)
        while taken := list(islice(lines, _BATCH)):
            messages = [message for line in taken if (message := line.rstrip(b"\r\n"))]
            records = self._schema.deserialize_batch(messages)
            yield [record for record in records if record is not None]


class LineWriterFactory(FileWriterFactory):
    """Writes a line for each record. A message must have no line break inside."""

    extension = ".txt"

    def __init__(self, schema: SerializationSchema, extension: str = ".txt") -> None:
        self._schema = schema
        self.extension = extension

    def create(self, stream: BinaryIO) -> FileWriter:
        return _LineWriter(self._schema, stream)


class _LineWriter(FileWriter):
    def __init__(self, schema: SerializationSchema, stream: BinaryIO) -> None:
        self._schema = schema
        self._stream = stream

    def add_elements(self, elements: Sequence[Any]) -> None:
        lines = [line.rstrip(b"\r\n") for line in self._schema.serialize_batch(elements)]
        self._stream.write(b"".join([line + b"\n" for line in lines]))

    def finish(self) -> None:
        """Every line is written already."""
