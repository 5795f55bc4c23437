"""CSV: a record is a line of texts.

    numbers, strings              themselves; NaN and the infinities: NaN, Infinity, -Infinity
    booleans                      true, false
    SQL_DATE, SQL_TIME, SQL_TIMESTAMP, INSTANT
                                  ISO 8601
    bytes                         Base64
    ENUM                          the member's name; the number of a Flag
    lists of these                their texts with `;` between
    None                          the null literal; without one an empty text, which is an empty string again in STRING

Records and maps inside a record are refused.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, DecimalException
from enum import Flag
from itertools import islice
from math import isfinite
from typing import Any, BinaryIO

from millrace.common.errors import DecodingError, TypeMismatchError
from millrace.common.serialization import one_or_all
from millrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from millrace.common.typeinfo._base import Column

from .files import FileFormat, FileWriter, FileWriterFactory, OnBadRecord, telling
from .json import _named, instant_from_text, instant_to_text
from .plans import Dialect, Field, Plan, each, nullable, record_shape

__all__ = ["CsvCodec", "CsvFileFormat", "CsvOptions", "CsvWriterFactory"]

# The module's own limit, 128 KiB for a field, is for all of the process; a longer text is no mistake.
csv.field_size_limit(2**31 - 1)

_COMMENT = "#"
_BATCH = 2048


@dataclass(frozen=True)
class CsvOptions:
    """How lines are written."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    array_delimiter: str = ";"
    line_end: str = "\n"
    allow_comments: bool = False
    header: bool = False
    strict_header: bool = False
    skip_first: bool = False

    def for_module(self) -> dict[str, Any]:
        """For the module csv."""
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "escapechar": self.escape,
            "doublequote": self.escape is None,
            "quoting": csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            "lineterminator": "\r\n",  # What decides which characters are quoted; `line_end` is put behind the line.
        }


class CsvCodec:
    """Lines and records of a type.

    >>> from millrace.common import Types
    >>> codec = CsvCodec(Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())]))
    >>> codec.encode_all([('say "hi", twice', [1, 2])])
    [b'"say ""hi"", twice",1;2\\n']
    >>> codec.decode_all([b"a,3\\n"])
    [('a', [3])]
    """

    def __init__(self, type_info: TypeInformation, options: CsvOptions | None = None) -> None:
        self.type_info = type_info
        self.options = options or CsvOptions()
        dialect = _CsvDialect(self.options)
        shape = record_shape(type_info)
        if shape is None or not shape.fields:
            dialect.refuse(type_info, "", "a line holds the fields of a record")
        self.names = [field.name for field in shape.fields]
        plan = dialect.plan(type_info)
        self._to_plain, self._from_plain = nullable(plan.to_plain), nullable(plan.from_plain)
        self._settings = self.options.for_module()

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvCodec, (self.type_info, self.options)

    def encode_all(self, values: Sequence[Any]) -> list[bytes]:
        """The lines of records."""
        records = self.type_info.coerce_batch(list(values))
        lines = _Lines()
        try:
            csv.writer(lines, **self._settings).writerows(self._to_plain(records))
            return [(line[:-2] + self.options.line_end).encode() for line in lines.written]
        except (csv.Error, UnicodeEncodeError) as error:
            raise TypeMismatchError("what CSV can hold", records[0], str(error)) from error

    def decode_all(self, messages: Sequence[bytes]) -> list[Any]:
        """The records of messages that hold one line each; None for a comment."""
        try:
            texts = [str(message, "utf-8") for message in messages]
        except UnicodeDecodeError as error:
            raise DecodingError(f"a message is not UTF-8: {error}") from error
        if not self.options.allow_comments:
            return self._records(texts)
        found = iter(self._records([text for text in texts if not text.startswith(_COMMENT)]))
        return [None if text.startswith(_COMMENT) else next(found) for text in texts]

    def _records(self, texts: list[str]) -> list[Any]:
        try:
            rows = list(csv.reader(texts, strict=True, **self._settings))
        except csv.Error as error:
            raise DecodingError(f"a message is no line of CSV: {error}") from error
        if len(rows) != len(texts):  # A quote was opened in one message and closed in another.
            raise DecodingError("a message is no line of CSV: a quote is not closed")
        return self.to_records([row or [""] for row in rows])

    def to_records(self, rows: list[list[str]]) -> list[Any]:
        """The records of fields as texts."""
        width = len(self.names)
        for row in rows:
            if len(row) != width:
                raise DecodingError(f"a line has {len(row)} fields instead of {width}: {row!r:.120}")
        return self.type_info.coerce_batch(list(self._from_plain(rows)))


class _Lines:
    """Takes each line as `csv.writer` writes it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.write = self.written.append


def _parsed(kind: TypeInformation, parse: Any) -> Any:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, DecimalException, KeyError) as error:
            raise TypeMismatchError(kind.describe(), text, str(error) or type(error).__name__) from error

    return each(convert)


def _int(text: str) -> int:
    return int(_plain_number(text))


def _float(text: str) -> float:
    return float(_plain_number(text))


def _plain_number(text: str) -> str:
    if "_" in text:
        raise ValueError("a number has no underscores")
    return text


def _bool(text: str) -> bool:
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise ValueError("neither true nor false")
    return lower == "true"


def _float_text(value: float) -> str:
    return repr(value) if isfinite(value) else _named(value)


def _base64_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _base64_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


# For each basic type: how it is written, and how it is read.
_INT, _FLOAT_TEXTS = (str, _int), (_float_text, _float)
_BASIC: dict[BasicType, tuple[Any, Any]] = {
    BasicType.BOOLEAN: (_bool_text, _bool),
    BasicType.BYTE: _INT,
    BasicType.SHORT: _INT,
    BasicType.INT: _INT,
    BasicType.LONG: _INT,
    BasicType.BIG_INT: _INT,
    BasicType.FLOAT: _FLOAT_TEXTS,
    BasicType.DOUBLE: _FLOAT_TEXTS,
    BasicType.BIG_DEC: (str, Decimal),
    BasicType.INSTANT: (instant_to_text, instant_from_text),
}
_TIMES: dict[type, tuple[Any, Any]] = {
    DateTypeInfo: (date.isoformat, date.fromisoformat),
    TimeTypeInfo: (time.isoformat, time.fromisoformat),
    TimestampTypeInfo: (datetime.isoformat, datetime.fromisoformat),
}
_TEXTS = {BasicType.STRING, BasicType.CHAR}


class _CsvDialect(Dialect):
    name = "CSV"

    def __init__(self, options: CsvOptions) -> None:
        self._options = options
        self._null = options.null_literal or ""

    def leaf(self, kind: TypeInformation, path: str) -> Plan:
        if isinstance(kind, BasicTypeInfo):
            if kind.basic_type in _TEXTS:
                return Plan(str)
            write, read = _BASIC[kind.basic_type]
        elif type(kind) in _TIMES:
            write, read = _TIMES[type(kind)]
        elif isinstance(kind, PrimitiveArrayTypeInfo):
            write, read = _base64_text, _base64_bytes
        else:
            self.refuse(kind, path, "only Python can read a pickle")
        return Plan(str, each(write), _parsed(kind, read))

    def _enum(self, kind: Any, path: str) -> Plan:
        if not issubclass(kind.enum_class, Flag):
            return super()._enum(kind, path)
        return Plan(
            str, each(lambda member: str(member.value)), _parsed(kind, lambda text: kind.enum_class(_int(text)))
        )

    def record(self, kind: TypeInformation, fields: list[Field], plans: list[Plan], path: str) -> Plan:
        if path:
            self.refuse(kind, path, "a field of a line has no fields of its own")

        def assemble(columns: Column) -> Column:
            texts = [self._texts(field, column) for field, column in zip(fields, columns, strict=True)]
            return list(zip(*texts, strict=True))

        def take_apart(rows: Column) -> Column:
            columns = zip(*rows, strict=True)
            return [self._values(field, column) for field, column in zip(fields, columns, strict=True)]

        return Plan(tuple, assemble, take_apart)

    def _texts(self, field: Field, column: Column) -> Column:
        if self._null in column and not self._keeps_empty(field):
            reason = "its text is what stands for None"
            raise TypeMismatchError(
                field.kind.describe(), self._null, reason, action="Set another null literal."
            ).inside(field.name)
        return [self._null if text is None else text for text in column] if None in column else column

    def _values(self, field: Field, column: Column) -> Column:
        if self._null not in column or self._keeps_empty(field):
            return column
        return [None if text == self._null else text for text in column]

    def _keeps_empty(self, field: Field) -> bool:
        return not self._null and field.kind == BasicTypeInfo.STRING_TYPE_INFO()

    def sequence(self, kind: TypeInformation, element: Plan, nullable_elements: bool, path: str) -> Any:
        if path.endswith("[]") or element.native is not str:
            self.refuse(kind, path, "a list holds indivisible values")
        return list

    def _sequence(self, kind: Any, path: str) -> Plan:
        plan = super()._sequence(kind, path)
        end, null = self._options.array_delimiter, self._null

        def join(elements: list[str | None]) -> str:
            texts = [null if text is None else text for text in elements]
            if any(end in text for text in texts) or texts == [""] or (null in elements and None in elements):
                raise TypeMismatchError(kind.describe(), elements, f"cannot be told apart once {end!r} stands between")
            return end.join(texts)

        def split(text: str) -> list[str | None]:
            return [None if part == null and (null or not keeps) else part for part in text.split(end)] if text else []

        keeps = kind.get_element_type() == BasicTypeInfo.STRING_TYPE_INFO()
        to_plain, from_plain = nullable(plan.to_plain), nullable(plan.from_plain)
        return Plan(
            list,
            lambda lists: list(map(join, to_plain(lists))),
            lambda texts: from_plain(list(map(split, texts))),
        )

    def mapping(self, kind: MapTypeInfo, key: Plan, item: Plan, path: str) -> Any:
        self.refuse(kind, path, "a field of a line is no map")


class CsvFileFormat(FileFormat):
    """Reads files of lines; with a header, fields are found by its names."""

    def __init__(self, type_info: TypeInformation, options: CsvOptions | None = None) -> None:
        self._codec = CsvCodec(type_info, options)

    def get_produced_type(self) -> TypeInformation:
        return self._codec.type_info

    def read(
        self, stream: BinaryIO, skip: int = 0, on_error: OnBadRecord | None = None
    ) -> Iterator[list[Any]]:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            rows = islice(self._rows(text), skip, None)
            while batch := list(islice(rows, _BATCH)):
                yield one_or_all(batch, self._to_records, telling(batch, on_error))
        except (csv.Error, UnicodeDecodeError) as error:
            raise DecodingError(f"a file is no CSV file: {error}") from error
        finally:
            text.detach()  # The stream is the caller's to close.

    def _to_records(self, rows: Sequence[Any]) -> list[Any]:
        return self._codec.to_records(list(rows))

    def _rows(self, text: Iterable[str]) -> Iterator[list[str]]:
        options = self._codec.options
        if options.allow_comments:
            text = (line for line in text if not line.startswith(_COMMENT))
        rows = filter(None, csv.reader(text, strict=True, **options.for_module()))
        order = self._order(next(rows, None)) if options.header else None
        if options.skip_first and not options.header:
            next(rows, None)
        if order is None:
            return rows
        return ([row[place] if place < len(row) else "" for place in order] for row in rows)

    def _order(self, header: list[str] | None) -> list[int] | None:
        """Where the fields are in a row."""
        if header is None or header == self._codec.names:
            return None
        missing = [name for name in self._codec.names if name not in header]
        if missing or self._codec.options.strict_header:
            raise DecodingError(f"the header is {header!r:.200} and not {self._codec.names!r:.200}")
        return [header.index(name) for name in self._codec.names]


class CsvWriterFactory(FileWriterFactory):
    """Writes files of lines."""

    extension = ".csv"

    def __init__(self, type_info: TypeInformation, options: CsvOptions | None = None) -> None:
        self._codec = CsvCodec(type_info, options)

    def create(self, stream: BinaryIO) -> FileWriter:
        return _CsvFileWriter(self._codec, stream)


class _CsvFileWriter(FileWriter):
    def __init__(self, codec: CsvCodec, stream: BinaryIO) -> None:
        self._codec = codec
        self._stream = stream
        if codec.options.header:
            lines = _Lines()
            csv.writer(lines, **codec.options.for_module()).writerow(codec.names)
            stream.write((lines.written[0][:-2] + codec.options.line_end).encode())

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._stream.write(b"".join(self._codec.encode_all(elements)))

    def finish(self) -> None:
        """Every line is written already."""
