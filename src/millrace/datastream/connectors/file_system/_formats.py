"""How files are read: what stands in a file, and the records of a part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from millrace.common.errors import ConfigurationError
from millrace.common.serialization import DeserializationSchema
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.sources.base import CHUNK_RECORDS

from ._storage import Storage

__all__ = ["BulkFormat", "Extent", "FileFormat", "InputFile", "StreamFormat"]

# What a record is taken to need where nothing is known of the file.
_BYTES_PER_RECORD = 100


class Extent(NamedTuple):
    """How long a file is in the units in which its format can be cut (bytes, row groups; 1: not at all), and about
    how many records it has."""

    units: int
    records: int


class InputFile(NamedTuple):
    """A file to read, of the length that it had when it was found."""

    storage: Storage
    path: str
    size: int

    @property
    def is_compressed(self) -> bool:
        """Whether its name says so: .gz, .bz2, .zst, .lz4, .br."""
        return self._codec is not None

    @property
    def _codec(self) -> str | None:
        import pyarrow as pa

        try:
            return str(pa.Codec.detect(self.path).name)
        except (ValueError, TypeError):
            return None

    def open(self) -> Any:
        """The bytes as they are, at any place."""
        return self.storage.open(self.path)

    def open_from_start(self) -> Any:
        """The bytes in their order, decompressed."""
        import pyarrow as pa

        stream, codec = self.open(), self._codec
        return stream if codec is None else pa.CompressedInputStream(stream, codec)


class FileFormat(ABC):
    """Reads one kind of file. Pickled to the workers.

    A format that cannot be cut overrides `read` alone, and reads the whole file.
    """

    def extent(self, file: InputFile) -> Extent:
        """How a file can be cut."""
        return Extent(1, max(1, file.size // _BYTES_PER_RECORD))

    @abstractmethod
    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        """The records of the units from `start` to before `end`, in lists of at most some thousand."""

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the records, if it is known."""
        return None


class StreamFormat(FileFormat):
    """Formats whose records stand one after the other.

    >>> StreamFormat.text_line_format().get_produced_type()
    String
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """The lines, without their ends (LF or CR LF). Files whose names end in .gz and the like are decompressed."""
        from ._lines import TextLines

        return TextLines(charset_name)

    @staticmethod
    def json_lines_format(schema: DeserializationSchema) -> StreamFormat:
        """What a deserialization schema makes of each line; empty lines, and those of which it makes None, are left
        out. For JSON lines, and whatever else stands in lines."""
        from ._lines import SchemaLines

        return SchemaLines(schema)

    @staticmethod
    def csv_format(type_info: TypeInformation, delimiter: str = ",", skip_header: bool = False) -> StreamFormat:
        """Comma-separated values, as records of a ROW, TUPLE or DATACLASS type, column by column in its order."""
        from ._columns import CsvFormat

        return CsvFormat(type_info, delimiter, skip_header)


class BulkFormat(FileFormat):
    """Formats whose records stand together. Without a type, records are Rows with the names of the columns; with one,
    the columns are found by the names of its fields, and no other column is read."""

    @staticmethod
    def parquet_format(type_info: TypeInformation | None = None) -> BulkFormat:
        """Parquet; read in parallel by row groups."""
        from ._columns import ParquetFormat

        return ParquetFormat(type_info)

    @staticmethod
    def orc_format(type_info: TypeInformation | None = None) -> BulkFormat:
        """ORC; read in parallel by stripes."""
        from ._columns import OrcFormat

        return OrcFormat(type_info)

    @staticmethod
    def avro_format(type_info: TypeInformation | None = None) -> BulkFormat:
        """Avro container files. Needs the package `fastavro`."""
        from ._columns import AvroFormat

        return AvroFormat(type_info)


def in_lists(records: Iterator[Any]) -> Iterator[list[Any]]:
    """Records as the lists that a format gives."""
    while chunk := list(islice(records, CHUNK_RECORDS)):
        yield chunk


def require_format(value: Any, kind: str) -> FileFormat:
    """A format, or an error that says what to give."""
    if not isinstance(value, FileFormat):
        raise ConfigurationError(
            f"a file source takes a {kind}, not {value!r}", action=f"Use one of the formats of {kind}."
        )
    return value
