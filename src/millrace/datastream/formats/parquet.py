"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from millrace.common.typeinfo import TypeInformation, Types
from millrace.formats.columnar import ParquetFileFormat, ParquetWriterFactory
from millrace.formats.files import FileFormat, FileWriterFactory, OnBadRecord

from .avro import AvroSchema

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]


class ParquetColumnarRowInputFormat(ParquetFileFormat):
    """Reads Parquet files as rows (or dataclasses) of a type; columns are found by name.

    `row_type` is a TypeInformation. Timestamps without a zone are taken as they are, whatever `is_utc_timestamp` says,
    and `hadoop_config` is not looked at.
    """

    def __init__(
        self,
        row_type: TypeInformation,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__(row_type, batch_size)


class ParquetBulkWriters:
    """Writes Parquet files of records of a type."""

    @staticmethod
    def for_row_type(
        row_type: TypeInformation,
        hadoop_config: Any = None,  # noqa: ARG004 - PyFlink's
        utc_timestamp: bool = False,  # noqa: ARG004 - PyFlink's
    ) -> FileWriterFactory:
        """A writer for each file; `row_type` is a TypeInformation."""
        return ParquetWriterFactory(row_type)


class AvroParquetReaders:
    """Reads Parquet files of what an Avro schema describes."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> FileFormat:
        """The records as dicts."""
        return _GenericRecords(ParquetFileFormat(schema.type_info))


class AvroParquetWriters:
    """Writes Parquet files of what an Avro schema describes."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> FileWriterFactory:
        """For records that are dicts or rows."""
        return ParquetWriterFactory(schema.type_info)


class _GenericRecords(FileFormat):
    def __init__(self, rows: FileFormat) -> None:
        self._rows = rows

    def read(
        self, stream: BinaryIO, skip: int = 0, on_error: OnBadRecord | None = None
    ) -> Iterator[list[Any]]:
        for rows in self._rows.read(stream, skip, on_error):
            yield [row.as_dict(recursive=True) for row in rows]

    def get_produced_type(self) -> TypeInformation:
        return Types.PICKLED_BYTE_ARRAY()
