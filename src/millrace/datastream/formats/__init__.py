"""What records look like outside: JSON, CSV, Avro, Parquet, ORC."""

from millrace.formats.arrow import to_arrow_schema

from .avro import (
    AvroBulkWriters,
    AvroReaderFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from .csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
)
from .json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from .orc import OrcBulkWriters, OrcColumnarRowInputFormat
from .parquet import AvroParquetReaders, AvroParquetWriters, ParquetBulkWriters, ParquetColumnarRowInputFormat

__all__ = [
    "AvroBulkWriters",
    "AvroParquetReaders",
    "AvroParquetWriters",
    "AvroReaderFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "OrcBulkWriters",
    "OrcColumnarRowInputFormat",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "to_arrow_schema",
]
