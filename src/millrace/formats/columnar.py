"""Files of columns: Parquet and ORC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import orc, parquet

from millrace.common.errors import DecodingError
from millrace.common.typeinfo import TypeInformation

from .arrow import ArrowCodec
from .files import FileFormat, FileWriter, FileWriterFactory, OnBadRecord, after

__all__ = ["OrcFileFormat", "OrcWriterFactory", "ParquetFileFormat", "ParquetWriterFactory"]

# Rows of a Parquet row group or an ORC stripe: enough to compress well, few enough to be held in memory by each writer.
_GROUP_ROWS = 65_536
# What a file that is none raises.
_NO_FILE = (pa.ArrowException, OSError)


class _ColumnarFormat(FileFormat):
    def __init__(self, type_info: TypeInformation, batch_size: int = 2048) -> None:
        self._codec = ArrowCodec(type_info, self.name)
        self._batch_size = batch_size

    name = ""

    def get_produced_type(self) -> TypeInformation:
        return self._codec.type_info

    def read(
        self, stream: BinaryIO, skip: int = 0, on_error: OnBadRecord | None = None
    ) -> Iterator[list[Any]]:
        try:
            yield from after(map(self._codec.from_batch, self._batches(stream)), skip)
        except _NO_FILE as error:
            raise DecodingError(f"a file is no {self.name} file of its type: {error}") from error

    def _batches(self, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class ParquetFileFormat(_ColumnarFormat):
    """Reads Parquet files; columns are found by name.

    >>> import io
    >>> from millrace.common import Types
    >>> kind = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    >>> file = io.BytesIO()
    >>> writer = ParquetWriterFactory(kind).create(file)
    >>> writer.add_elements([(1, "a"), (2, None)])
    >>> writer.finish()
    >>> list(ParquetFileFormat(kind).read(file, skip=1))
    [[Row(id=2, name=None)]]
    """

    name = "Parquet"

    def _batches(self, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
        file = parquet.ParquetFile(stream)
        wanted = [name for name in self._codec.schema.names if name in file.schema_arrow.names]
        return file.iter_batches(self._batch_size, columns=wanted)  # type: ignore[no-any-return]


class OrcFileFormat(_ColumnarFormat):
    """Reads ORC files; columns are found by name."""

    name = "ORC"

    def _batches(self, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
        file = orc.ORCFile(stream)
        wanted = [name for name in self._codec.schema.names if name in file.schema.names]
        for stripe in range(file.nstripes):
            found = file.read_stripe(stripe, columns=wanted)
            for start in range(0, found.num_rows, self._batch_size):
                yield found.slice(start, self._batch_size)


class _ColumnarWriter(FileWriter):
    """Gathers records into groups of rows."""

    def __init__(self, codec: ArrowCodec, write: Callable[[pa.RecordBatch], None], close: Callable[[], None]) -> None:
        self._codec = codec
        self._write = write
        self._close = close
        self._held: list[pa.RecordBatch] = []
        self._loose: list[Any] = []
        self._rows = 0

    def add_element(self, element: Any) -> None:
        self._loose.append(element)
        if len(self._loose) >= 1_000:  # Few enough to name the record that does not fit soon.
            self._take_loose()

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._take_loose()
        self._hold(self._codec.to_batch(elements))

    def finish(self) -> None:
        self._take_loose()
        self._write_group()
        self._close()

    def _take_loose(self) -> None:
        if self._loose:
            loose, self._loose = self._loose, []
            self._hold(self._codec.to_batch(loose))

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._rows:
            for batch in pa.Table.from_batches(self._held, self._codec.schema).combine_chunks().to_batches():
                self._write(batch)
        self._held, self._rows = [], 0


class ParquetWriterFactory(FileWriterFactory):
    """Writes Parquet files, compressed with Snappy if nothing else is said."""

    extension = ".parquet"

    def __init__(self, type_info: TypeInformation, **options: Any) -> None:
        self._codec = ArrowCodec(type_info, "Parquet")
        self._options = options

    def create(self, stream: BinaryIO) -> FileWriter:
        writer = parquet.ParquetWriter(stream, self._codec.schema, **self._options)
        return _ColumnarWriter(self._codec, writer.write_batch, writer.close)


class OrcWriterFactory(FileWriterFactory):
    """Writes ORC files."""

    extension = ".orc"

    def __init__(self, type_info: TypeInformation, **options: Any) -> None:
        self._codec = ArrowCodec(type_info, "ORC")
        self._options = options

    def create(self, stream: BinaryIO) -> FileWriter:
        writer: Any = None

        def write(batch: pa.RecordBatch) -> None:
            nonlocal writer
            writer = writer or orc.ORCWriter(stream, **self._options)
            writer.write(pa.Table.from_batches([batch]))

        def close() -> None:
            if writer is None:  # A file without records, too, is an ORC file with its columns.
                orc.write_table(self._codec.schema.empty_table(), stream)
            else:
                writer.close()

        return _ColumnarWriter(self._codec, write, close)
