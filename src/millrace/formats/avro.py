"""Avro: schemas from types and types from schemas, single records and files.

    BYTE, SHORT, INT              int
    BIG_DEC                       bytes, logical type decimal(38, 18)
    INSTANT                       long, logical type timestamp-micros: what is finer is refused
    SQL_DATE, SQL_TIME            logical types date, time-micros
    SQL_TIMESTAMP                 long, logical type local-timestamp-micros
    ENUM                          an enum; a long for a Flag
    ROW, TUPLE, DATACLASS         a record; what may be None is a union with null
    MAP                           a map; keys are strings

fastavro does the work. It is an extra: `pip install 'millrace[avro]'`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, BinaryIO

from millrace.common.errors import DecodingError, ProgramError, TypeMismatchError
from millrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    EnumTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)

from .arrow import _decimal_to_plain, _instant_to_plain, instant_from_datetime, utc_datetime, utc_time
from .avro_schema import type_from_avro, without_logical_strings
from .files import FileFormat, FileWriter, FileWriterFactory, OnBadRecord, after
from .plans import Dialect, Field, Plan, dicts_of, each, nullable, record_shape

__all__ = ["AvroCodec", "AvroFileFormat", "AvroWriterFactory", "fastavro"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What fastavro raises for bytes or values that do not fit; it has no class of its own for most of it.
_WRONG = (ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError, OverflowError, ArithmeticError)
# How many records a file's list holds.
_BATCH = 2048


def fastavro() -> ModuleType:
    """The package, or an error that says how to get it."""
    try:
        import fastavro
    except ImportError as error:
        raise ProgramError(
            "Avro needs the package fastavro, which is not installed", action="pip install 'millrace[avro]'"
        ) from error
    import fastavro.schema

    module: ModuleType = fastavro
    return module


class AvroCodec:
    """Single Avro records, without a header, and the records of a type. The schema comes from the type, or the type
    from the schema.

    >>> from millrace.common import Types
    >>> codec = AvroCodec(Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]))
    >>> codec.decode_all(codec.encode_all([(1, "a")]))
    [Row(id=1, name='a')]
    """

    def __init__(self, type_info: TypeInformation | None = None, schema: Any = None) -> None:
        self._args = (type_info, schema)
        package = fastavro()
        if schema is None:
            assert type_info is not None
            plan = _AvroDialect().plan(type_info)
            schema = plan.native
        else:
            type_info = type_info or type_from_avro(schema)
            plan = _AvroDialect().plan(type_info)
        if record_shape(type_info) is None:
            raise ProgramError(
                f"an Avro message holds a record, and {type_info.describe()} is none",
                action="Map the records to a Row, a tuple or a dataclass.",
            )
        self.type_info: TypeInformation = type_info
        try:
            self.schema = package.parse_schema(without_logical_strings(schema))
        except (package.schema.SchemaParseException, package.schema.UnknownType, *_WRONG) as error:
            raise ProgramError(f"the Avro schema cannot be used: {error!r}") from error
        self._read, self._write = package.schemaless_reader, package.schemaless_writer
        self._to_plain, self._from_plain = nullable(plan.to_plain), nullable(plan.from_plain)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroCodec, self._args

    def decode_all(self, messages: Sequence[bytes]) -> list[Any]:
        """The records of messages."""
        return self.to_records(list(map(self._decode, messages)))

    def encode_all(self, values: Sequence[Any]) -> list[bytes]:
        """The messages of records."""
        return list(map(self._encode, self.to_plain(values)))

    def to_plain(self, values: Sequence[Any]) -> list[Any]:
        """Records as fastavro writes them."""
        return list(self._to_plain(self.type_info.coerce_batch(list(values))))

    def to_records(self, plain: list[Any]) -> list[Any]:
        """What fastavro has read, as records."""
        try:
            done = list(self._from_plain(plain))
        except TypeMismatchError:
            raise
        except _WRONG as error:
            raise DecodingError(f"a record is not what its Avro schema says: {error!r}") from error
        return self.type_info.coerce_batch(done)

    def _decode(self, message: bytes) -> Any:
        stream = io.BytesIO(message)
        try:
            record = self._read(stream, self.schema, None)
        except _WRONG as error:
            raise DecodingError(f"a message is not what its Avro schema says: {error!r}") from error
        if stream.tell() != len(message):
            raise DecodingError(f"a message has {len(message) - stream.tell()} bytes behind its Avro record")
        return record

    def _encode(self, plain: Any) -> bytes:
        stream = io.BytesIO()
        try:
            self._write(stream, self.schema, plain)
        except _WRONG as error:
            raise TypeMismatchError("what its Avro schema says", plain, str(error)) from error
        return stream.getvalue()


def _aware(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else utc_datetime(at).replace(tzinfo=UTC)


def _logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


_BASIC = {
    BasicType.STRING: Plan("string"),
    BasicType.CHAR: Plan("string"),
    BasicType.BOOLEAN: Plan("boolean"),
    BasicType.BYTE: Plan("int"),
    BasicType.SHORT: Plan("int"),
    BasicType.INT: Plan("int"),
    BasicType.LONG: Plan("long"),
    BasicType.FLOAT: Plan("float"),
    BasicType.DOUBLE: Plan("double"),
    BasicType.BIG_DEC: Plan(_logical("bytes", "decimal", precision=38, scale=18), each(_decimal_to_plain)),
    BasicType.INSTANT: Plan(
        _logical("long", "timestamp-micros"), each(_instant_to_plain), each(instant_from_datetime)
    ),
}


class _AvroDialect(Dialect):
    name = "Avro"

    def __init__(self) -> None:
        self._named = 0

    def leaf(self, kind: TypeInformation, path: str) -> Plan:
        if isinstance(kind, BasicTypeInfo):
            if kind.basic_type not in _BASIC:
                self.refuse(kind, path, "it has no integers of any size; take LONG or BIG_DEC")
            return _BASIC[kind.basic_type]
        if isinstance(kind, PrimitiveArrayTypeInfo):
            return Plan("bytes")
        if isinstance(kind, DateTypeInfo):
            return Plan(_logical("int", "date"))
        if isinstance(kind, TimeTypeInfo):
            return Plan(_logical("long", "time-micros"), each(utc_time))
        if isinstance(kind, TimestampTypeInfo):
            return Plan(_logical("long", "local-timestamp-micros"), each(_aware), each(utc_datetime))
        return self.refuse(kind, path, "only Python can read a pickle")

    def record(self, kind: TypeInformation, fields: list[Field], plans: list[Plan], path: str) -> Plan:
        for field in fields:
            if not _NAME.fullmatch(field.name):
                self.refuse(kind, path, f"a field's name has letters, digits and _, and {field.name!r} has others")
        described = [
            {"name": field.name, "type": ["null", plan.native], "default": None}
            if field.optional
            else {"name": field.name, "type": plan.native}
            for field, plan in zip(fields, plans, strict=True)
        ]
        native = {"type": "record", "name": self._new_name("Record"), "fields": described}
        return Plan(native, *dicts_of([field.name for field in fields]))

    def sequence(self, kind: TypeInformation, element: Plan, nullable_elements: bool, path: str) -> Any:
        return {"type": "array", "items": ["null", element.native] if nullable_elements else element.native}

    def mapping(self, kind: MapTypeInfo, key: Plan, item: Plan, path: str) -> Any:
        if key.native != "string":
            self.refuse(kind, path, "the keys of its maps are strings")
        return {"type": "map", "values": ["null", item.native]}

    def enum(self, kind: EnumTypeInfo, path: str) -> Any:
        names = [member.name for member in kind.enum_class]
        if not names or not all(_NAME.fullmatch(name) for name in names):
            self.refuse(kind, path, "an enum has members whose names have letters, digits and _")
        return {"type": "enum", "name": self._new_name("Enum"), "symbols": names}

    def _new_name(self, what: str) -> str:
        self._named += 1
        return f"{what}{self._named}"


class AvroFileFormat(FileFormat):
    """Reads Avro files as records of a type, or as rows of what a schema describes."""

    def __init__(self, codec: AvroCodec) -> None:
        self._codec = codec

    def get_produced_type(self) -> TypeInformation:
        return self._codec.type_info

    def read(
        self, stream: BinaryIO, skip: int = 0, on_error: OnBadRecord | None = None
    ) -> Iterator[list[Any]]:
        return after(self._batches(stream), skip)

    def _batches(self, stream: BinaryIO) -> Iterator[list[Any]]:
        plain: list[Any] = []
        try:
            for record in fastavro().reader(stream):
                plain.append(record)
                if len(plain) == _BATCH:
                    yield self._codec.to_records(plain)
                    plain = []
        except _WRONG as error:
            raise DecodingError(f"a file is no Avro file, or ends too early: {error!r}") from error
        if plain:
            yield self._codec.to_records(plain)


class AvroWriterFactory(FileWriterFactory):
    """Writes Avro files."""

    extension = ".avro"

    def __init__(self, codec: AvroCodec, compression: str = "null") -> None:
        self._codec = codec
        self._compression = compression

    def create(self, stream: BinaryIO) -> FileWriter:
        return _AvroFileWriter(self._codec, stream, self._compression)


class _AvroFileWriter(FileWriter):
    def __init__(self, codec: AvroCodec, stream: BinaryIO, compression: str) -> None:
        from fastavro.write import Writer

        self._codec = codec
        self._writer = Writer(stream, codec.schema, codec=compression)

    def add_elements(self, elements: Sequence[Any]) -> None:
        for plain in self._codec.to_plain(elements):
            try:
                self._writer.write(plain)
            except _WRONG as error:
                raise TypeMismatchError("what its Avro schema says", plain, str(error)) from error

    def finish(self) -> None:
        self._writer.flush()
