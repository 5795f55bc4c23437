"""Files of lines, each of which is a message of some schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from millrace.common.serialization import DeserializationSchema, SerializationSchema
from millrace.common.typeinfo import TypeInformation

from .files import FileFormat, FileWriter, FileWriterFactory, OnBadRecord, telling

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

    def read(
        self, stream: BinaryIO, skip: int = 0, on_error: OnBadRecord | None = None
    ) -> Iterator[list[Any]]:
        lines = filter(None, (line.rstrip(b"\r\n") for line in stream))
        messages = islice(lines, skip, None)
        while batch := list(islice(messages, _BATCH)):
            yield self._schema.deserialize_batch(batch, telling(batch, on_error))


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
