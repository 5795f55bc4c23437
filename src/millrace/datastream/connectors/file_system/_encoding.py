"""How records become the bytes of a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millrace.common.errors import ConfigurationError
from millrace.common.serialization import BulkWriter, BulkWriterFactory, Encoder, SerializationSchema
from millrace.common.typeinfo import TypeInformation

from ._table import TableType

__all__ = ["ColumnarWriterFactory", "SchemaEncoder"]


class SchemaEncoder(Encoder):
    """Writes what a serialization schema makes of each record, with a line end behind it: JSON lines, CSV.

    >>> import io
    >>> from millrace.common import SimpleStringSchema
    >>> stream = io.BytesIO()
    >>> SchemaEncoder(SimpleStringSchema()).encode("one", stream)
    >>> stream.getvalue()
    b'one\\n'
    """

    def __init__(self, schema: SerializationSchema, delimiter: bytes = b"\n") -> None:
        self._schema = schema
        self._delimiter = delimiter

    def open(self) -> None:
        """Once in every worker."""
        self._schema.open()

    def encode(self, element: Any, stream: Any) -> None:
        stream.write(self._schema.serialize(element) + self._delimiter)

    def encode_all(self, elements: list[Any], stream: Any) -> None:
        """Many at once, which costs less."""
        end = self._delimiter
        stream.write(end.join(map(self._schema.serialize, elements)) + end)


class EncodedFile:
    """Feeds a row format's encoder."""

    def __init__(self, encoder: Encoder, stream: Any) -> None:
        self._encoder = encoder
        self._encode_all = getattr(encoder, "encode_all", None)
        self._stream = stream

    def add_element(self, element: Any) -> None:
        self._encoder.encode(element, self._stream)

    def add_elements(self, elements: list[Any]) -> None:
        """Many at once."""
        if self._encode_all is not None:
            self._encode_all(elements, self._stream)
            return
        encode, stream = self._encoder.encode, self._stream
        for element in elements:
            encode(element, stream)

    def finish(self) -> None:
        """Rows need no end."""


class EncodedFiles(BulkWriterFactory):
    """A row format as a bulk format, so that there is one kind of writer."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def open(self) -> None:
        """Once in every worker."""
        opening = getattr(self._encoder, "open", None)
        if opening is not None:
            opening()

    def create(self, stream: Any) -> BulkWriter:
        return EncodedFile(self._encoder, stream)


# Records that are gathered before they become a row group: some ten megabytes of narrow rows.
_ROWS_PER_GROUP = 65_536

_FORMATS = ("parquet", "orc")


class ColumnarWriterFactory(BulkWriterFactory):
    """Writes Parquet or ORC. The type of the records (ROW with names, TUPLE or DATACLASS) makes the schema.

    >>> from millrace.common import Types
    >>> ColumnarWriterFactory(Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])).schema
    id: int64
    name: string
    """

    def __init__(
        self,
        type_info: TypeInformation,
        file_format: str = "parquet",
        compression: str = "snappy",
        rows_per_group: int = _ROWS_PER_GROUP,
    ) -> None:
        if file_format not in _FORMATS:
            raise ConfigurationError(f"{file_format!r} is no columnar format", action="Use 'parquet' or 'orc'.")
        self._type = TableType(type_info)
        self._format = file_format
        self._compression = compression
        self._rows_per_group = rows_per_group

    @property
    def schema(self) -> Any:
        """The Arrow schema of the files."""
        return self._type.schema

    def create(self, stream: Any) -> BulkWriter:
        return _ColumnarFile(self._type, self._rows_per_group, self._open(stream))

    def _open(self, stream: Any) -> Any:
        if self._format == "parquet":
            from pyarrow.parquet import ParquetWriter

            return ParquetWriter(stream, self.schema, compression=self._compression)
        from pyarrow.orc import ORCWriter

        return ORCWriter(stream, compression=self._compression)


class _ColumnarFile:
    def __init__(self, table_type: TableType, rows_per_group: int, writer: Any) -> None:
        self._type = table_type
        self._rows_per_group = rows_per_group
        self._writer = writer
        self._rows: list[Any] = []

    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    def add_elements(self, elements: Iterable[Any]) -> None:
        """Many at once; coerced here, where the error can name the record."""
        self._rows += self._type.type.coerce_batch(list(elements))
        if len(self._rows) >= self._rows_per_group:
            self._write()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        self._writer.write(self._type.table(rows))

    def finish(self) -> None:
        if self._rows:
            self._write()
        self._writer.close()
