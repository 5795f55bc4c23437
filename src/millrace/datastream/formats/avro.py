"""Avro, message by message and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation, Types
from millrace.formats.avro import AvroCodec, AvroFileFormat, AvroWriterFactory
from millrace.formats.avro_schema import type_from_avro
from millrace.formats.files import FileWriterFactory
from millrace.formats.schemas import CodecDeserializationSchema, CodecSerializationSchema

__all__ = [
    "AvroBulkWriters",
    "AvroReaderFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
]


class AvroSchema:
    """An Avro schema.

    >>> AvroSchema.parse_string('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}').type_info
    Row(id: Long)
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.type_info = type_from_avro(schema)

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """From JSON."""
        try:
            return AvroSchema(json.loads(json_schema))
        except json.JSONDecodeError as error:
            raise ProgramError(f"the Avro schema is not JSON: {error}") from error

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """From a file of JSON."""
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return json.dumps(self.schema)


def _codec(record_class: type | None, avro_schema_string: str | None, type_info: TypeInformation | None) -> AvroCodec:
    given = [argument for argument in (record_class, avro_schema_string, type_info) if argument is not None]
    if len(given) != 1:
        raise ProgramError(
            "an Avro schema comes from one of record_class, avro_schema_string and type_info, "
            f"and {len(given)} of them were given"
        )
    if avro_schema_string is not None:
        schema = AvroSchema.parse_string(avro_schema_string)
        return AvroCodec(schema.type_info, schema.schema)
    return AvroCodec(type_info if record_class is None else Types.DATACLASS(record_class))


class AvroRowDeserializationSchema(CodecDeserializationSchema):
    """Reads Avro records without a header: rows by a schema (`avro_schema_string`) or by a type (`type_info`), or
    dataclasses (`record_class`).

    >>> from millrace.common import Types
    >>> kind = Types.ROW_NAMED(["id"], [Types.LONG()])
    >>> message = AvroRowSerializationSchema(type_info=kind).serialize((7,))
    >>> AvroRowDeserializationSchema(type_info=kind).deserialize(message)
    Row(id=7)
    """

    def __init__(
        self,
        record_class: type | None = None,
        avro_schema_string: str | None = None,
        *,
        type_info: TypeInformation | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        codec = _codec(record_class, avro_schema_string, type_info)
        super().__init__(codec, codec.type_info, ignore_parse_errors)


class AvroRowSerializationSchema(CodecSerializationSchema):
    """Writes Avro records without a header; the arguments are those of AvroRowDeserializationSchema."""

    def __init__(
        self,
        record_class: type | None = None,
        avro_schema_string: str | None = None,
        *,
        type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(_codec(record_class, avro_schema_string, type_info))


class AvroReaderFormat(AvroFileFormat):
    """Reads Avro files."""

    @staticmethod
    def for_schema(schema: AvroSchema) -> AvroReaderFormat:
        """Rows of what a schema describes."""
        return AvroReaderFormat(AvroCodec(schema.type_info, schema.schema))

    @staticmethod
    def for_type(type_info: TypeInformation) -> AvroReaderFormat:
        """Records of a type."""
        return AvroReaderFormat(AvroCodec(type_info))


class AvroBulkWriters:
    """Writes Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, compression: str = "null") -> FileWriterFactory:
        """For records that are dicts or rows of what a schema describes."""
        return AvroWriterFactory(AvroCodec(schema.type_info, schema.schema), compression)

    @staticmethod
    def for_type(type_info: TypeInformation, compression: str = "null") -> FileWriterFactory:
        """For records of a type."""
        return AvroWriterFactory(AvroCodec(type_info), compression)
