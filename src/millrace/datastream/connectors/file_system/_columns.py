"""Files of columns, through Arrow: Parquet, ORC, CSV; and Avro, whose records are dicts as well."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from millrace.common.errors import ConfigurationError, DecodingError
from millrace.common.typeinfo import TypeInformation
from millrace.common.types import make_row
from millrace.runtime.sources.base import CHUNK_RECORDS
from millrace.state.arrow import shape_of

from ._formats import BulkFormat, Extent, InputFile, StreamFormat, in_lists
from ._table import TableType


class _Records:
    """Makes records of dicts by column."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type = type_info
        self._table = None if type_info is None else TableType(type_info)

    @property
    def columns(self) -> list[str] | None:
        """The columns to read, or None for all."""
        return None if self._table is None else self._table.names

    def of_batch(self, batch: Any) -> list[Any]:
        """The records of an Arrow batch or table."""
        if self._table is not None:
            return self._table.records(batch)
        names = tuple(batch.schema.names)
        columns = [column.to_pylist() for column in batch.columns]
        return [make_row(list(values), names) for values in zip(*columns, strict=True)]

    def of_dicts(self, dicts: list[dict[str, Any]]) -> list[Any]:
        """The records of dicts by column."""
        if self.type is None:
            return [make_row(list(each.values()), tuple(each)) for each in dicts]
        return self.type.coerce_batch(list(map(shape_of(self.type).from_arrow, dicts)))


def _pieces(table: Any) -> Iterator[Any]:
    return iter(table.to_batches(max_chunksize=CHUNK_RECORDS))


class _Columnar(BulkFormat):
    def __init__(self, type_info: TypeInformation | None) -> None:
        self._records = _Records(type_info)

    def get_produced_type(self) -> TypeInformation | None:
        return self._records.type


class ParquetFormat(_Columnar):
    """Cut by row groups."""

    def extent(self, file: InputFile) -> Extent:
        from pyarrow.parquet import ParquetFile

        with file.open() as stream, ParquetFile(stream) as parquet:
            return Extent(parquet.num_row_groups, parquet.metadata.num_rows)

    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        from pyarrow.parquet import ParquetFile

        with file.open() as stream, ParquetFile(stream) as parquet:
            self._require_columns(file, parquet.schema_arrow.names)
            groups = list(range(start, min(end, parquet.num_row_groups)))
            for batch in parquet.iter_batches(CHUNK_RECORDS, groups, self._records.columns):
                yield self._records.of_batch(batch)

    def _require_columns(self, file: InputFile, there: list[str]) -> None:
        missing = [name for name in self._records.columns or () if name not in there]
        if missing:
            raise DecodingError(
                f"the file {file.path} has no column {', '.join(map(repr, missing))}; it has {', '.join(there)}",
                action="Declare the fields that the files have, or read the old and the new files by two sources.",
            )


class OrcFormat(ParquetFormat):
    """Cut by stripes."""

    def extent(self, file: InputFile) -> Extent:
        from pyarrow.orc import ORCFile

        with file.open() as stream:
            orc = ORCFile(stream)
            return Extent(orc.nstripes, orc.nrows)

    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        from pyarrow import Table
        from pyarrow.orc import ORCFile

        with file.open() as stream:
            orc = ORCFile(stream)
            self._require_columns(file, orc.schema.names)
            for stripe in range(start, min(end, orc.nstripes)):
                table = Table.from_batches([orc.read_stripe(stripe, self._records.columns)])
                for batch in _pieces(table if self._records.columns is None else table.select(self._records.columns)):
                    yield self._records.of_batch(batch)


class AvroFormat(_Columnar):
    """Read whole, file by file."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        super().__init__(type_info)
        _fastavro()

    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        with file.open() as stream:
            for dicts in in_lists(iter(_fastavro().reader(stream))):
                yield self._records.of_dicts(dicts)


def _fastavro() -> Any:
    try:
        return importlib.import_module("fastavro")
    except ImportError:
        raise ConfigurationError(
            "Avro files need the package fastavro", action="Install it: pip install fastavro."
        ) from None


class CsvFormat(StreamFormat):
    """Read whole, file by file: a quoted value may hold line ends."""

    def __init__(self, type_info: TypeInformation, delimiter: str, skip_header: bool) -> None:
        self._records = _Records(type_info)
        self._schema = TableType(type_info).schema
        self._delimiter = delimiter
        self._skip_header = skip_header

    def get_produced_type(self) -> TypeInformation | None:
        return self._records.type

    def read(self, file: InputFile, start: int, end: int) -> Iterator[list[Any]]:
        import pyarrow as pa
        from pyarrow import csv

        schema = self._schema
        parse = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        names = csv.ReadOptions(column_names=schema.names, skip_rows=int(self._skip_header))
        convert = csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
        if file.size == 0:
            return
        with file.open_from_start() as stream:
            try:
                for batch in csv.open_csv(stream, names, parse, convert):
                    for piece in _pieces(pa.Table.from_batches([batch])):
                        yield self._records.of_batch(piece)
            except pa.ArrowInvalid as error:
                raise DecodingError(
                    f"the file {file.path} is not as its type says: {error}",
                    action="Declare the columns as they are, or as STRING; see delimiter and skip_header.",
                ) from error
