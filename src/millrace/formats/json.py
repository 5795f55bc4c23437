"""JSON: records are objects, tuples and lists are arrays.

    numbers, strings, booleans    themselves; NaN and the infinities: "NaN", "Infinity", "-Infinity"
    BIG_DEC                       a number with all of its digits (read from a string, too)
    SQL_DATE, SQL_TIME, SQL_TIMESTAMP, INSTANT
                                  ISO 8601: "2024-02-29", "12:00:00.5", "2024-02-29T12:00:00+01:00"
    bytes                         Base64
    ENUM                          the member's name; the number of a Flag
    MAP                           an object; keys are strings or integers
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from types import GenericAlias
from typing import Any, Literal, Optional

import msgspec

from millrace.common.errors import DecodingError, TypeMismatchError
from millrace.common.time import Instant
from millrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from millrace.common.typeinfo._base import Column

from .plans import Dialect, Field, Plan, each, nullable

__all__ = ["JsonCodec"]

_OPTIONAL: Any = Optional
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION = re.compile(r"\.(\d{1,9})")
_FLOAT = float | Literal["NaN", "Infinity", "-Infinity"]


class JsonCodec:
    """JSON texts and records of a type; without a type, whatever the text holds.

    >>> from millrace.common import Types
    >>> codec = JsonCodec(Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.SQL_DATE()]))
    >>> codec.decode_all([b'{"at": "2024-02-29", "id": 1, "more": null}'])
    [Row(id=1, at=datetime.date(2024, 2, 29))]
    >>> codec.encode_all([(2, None)])
    [b'{"id":2,"at":null}']
    """

    def __init__(self, type_info: TypeInformation | None, fail_on_missing_field: bool = False) -> None:
        self._args = (type_info, fail_on_missing_field)
        plan = Plan(Any) if type_info is None else _JsonDialect(fail_on_missing_field).plan(type_info)
        self._type_info = type_info
        self._decode = msgspec.json.Decoder(plan.native).decode
        self._encode = msgspec.json.Encoder(decimal_format="number").encode
        self._to_plain, self._from_plain = nullable(plan.to_plain), nullable(plan.from_plain)

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonCodec, self._args

    def decode_all(self, messages: Sequence[bytes]) -> list[Any]:
        """The records of JSON texts."""
        try:
            records = list(self._from_plain(list(map(self._decode, messages))))
        except (msgspec.MsgspecError, ValueError) as error:
            raise DecodingError(f"a message is not the JSON of its type: {error}") from error
        return records if self._type_info is None else self._type_info.coerce_batch(records)

    def encode_all(self, values: Sequence[Any]) -> list[bytes]:
        """The JSON texts of records."""
        records = list(values)
        if self._type_info is not None:
            records = self._type_info.coerce_batch(records)
        try:
            return list(map(self._encode, self._to_plain(records)))
        except (TypeError, OverflowError, ValueError, msgspec.MsgspecError) as error:
            if isinstance(error, TypeMismatchError):
                raise
            raise TypeMismatchError("what JSON can hold", records[0], str(error)) from error


def _floats_to_plain(values: Column) -> Column:
    return values if all(map(isfinite, values)) else [v if isfinite(v) else _named(v) for v in values]


def _named(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124 - NaN's own test


def _decimal_to_plain(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise TypeMismatchError("BIG_DEC", value, "JSON has numbers only")
    return value


def instant_to_text(value: Instant) -> str:
    """ISO 8601 in UTC, to the nanosecond.

    >>> instant_to_text(Instant(0, 5_000_000))
    '1970-01-01T00:00:00.005Z'
    """
    try:
        second = (_EPOCH + timedelta(seconds=value.seconds)).isoformat()[:19]
    except OverflowError:
        raise TypeMismatchError("INSTANT", value, "not in the years 1 to 9999") from None
    return second + (f".{value.nanos:09d}".rstrip("0") if value.nanos else "") + "Z"


def instant_from_text(text: str) -> Instant:
    """The inverse; a text without a zone is in UTC."""
    fraction = _FRACTION.search(text)
    nanos = int(fraction.group(1).ljust(9, "0")) if fraction else 0
    at = datetime.fromisoformat(_FRACTION.sub("", text))
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return Instant((at - _EPOCH) // timedelta(seconds=1), nanos)


_BASIC = {
    BasicType.STRING: Plan(str),
    BasicType.CHAR: Plan(str),
    BasicType.BOOLEAN: Plan(bool),
    BasicType.BYTE: Plan(int),
    BasicType.SHORT: Plan(int),
    BasicType.INT: Plan(int),
    BasicType.LONG: Plan(int),
    BasicType.BIG_INT: Plan(int),
    BasicType.FLOAT: Plan(_FLOAT, _floats_to_plain, each(float)),
    BasicType.DOUBLE: Plan(_FLOAT, _floats_to_plain, each(float)),
    BasicType.BIG_DEC: Plan(Decimal, each(_decimal_to_plain)),
    BasicType.INSTANT: Plan(str, each(instant_to_text), each(instant_from_text)),
}


class _JsonDialect(Dialect):
    name = "JSON"

    def __init__(self, fail_on_missing_field: bool) -> None:
        self._all_required = fail_on_missing_field

    def leaf(self, kind: TypeInformation, path: str) -> Plan:
        if isinstance(kind, BasicTypeInfo):
            return _BASIC[kind.basic_type]
        if isinstance(kind, PrimitiveArrayTypeInfo):
            return Plan(bytes)
        if isinstance(kind, DateTypeInfo):
            return Plan(date)
        if isinstance(kind, TimeTypeInfo):
            return Plan(str, each(time.isoformat), each(time.fromisoformat))
        if isinstance(kind, TimestampTypeInfo):
            return Plan(str, each(datetime.isoformat), each(datetime.fromisoformat))
        return self.refuse(kind, path, "only Python can read a pickle")

    def record(self, kind: TypeInformation, fields: list[Field], plans: list[Plan], path: str) -> Plan:
        if isinstance(kind, TupleTypeInfo):
            return _array(plans)
        keys = [f"f{index}" for index in range(len(fields))]
        names = dict(zip(keys, (field.name for field in fields), strict=True))
        described = [self._field(*of) for of in zip(keys, fields, plans, strict=True)]
        read = msgspec.defstruct("Record", described, rename=names, kw_only=True)
        # What is written has all fields: a class without defaults takes them by position.
        written = msgspec.defstruct("Record", [(key, Any) for key in keys], rename=names)
        return Plan(read, _structs_of(written), _columns_of_structs)

    def _field(self, key: str, field: Field, plan: Plan) -> Any:
        annotation = _OPTIONAL[plan.native] if field.optional else plan.native
        if not self._all_required and field.default is not None:
            default, to_plain = field.default, nullable(plan.to_plain)
            return key, annotation, msgspec.field(default_factory=lambda: to_plain([default()])[0])
        return (key, annotation, None) if field.optional and not self._all_required else (key, annotation)

    def sequence(self, kind: TypeInformation, element: Plan, nullable_elements: bool, path: str) -> Any:
        return GenericAlias(list, (_OPTIONAL[element.native] if nullable_elements else element.native,))

    def mapping(self, kind: MapTypeInfo, key: Plan, item: Plan, path: str) -> Any:
        if key.native not in (str, int):
            self.refuse(kind, path, "the keys of an object are strings or integers")
        return GenericAlias(dict, (key.native, _OPTIONAL[item.native]))


def _array(plans: list[Plan]) -> Plan:
    if not plans:
        return Plan(GenericAlias(list, (Any,)), lambda columns: [()] * len(columns[0]), lambda records: [])
    return Plan(
        GenericAlias(tuple, tuple(_OPTIONAL[plan.native] for plan in plans)),
        lambda columns: list(zip(*columns, strict=True)),
        lambda records: list(zip(*records, strict=True)),
    )


def _structs_of(struct: Any) -> Any:
    def assemble(columns: Column) -> Column:
        if not struct.__struct_fields__:
            return [struct() for _ in columns[0]]
        return list(map(struct, *columns))

    return assemble


def _columns_of_structs(records: Column) -> Column:
    return list(zip(*map(msgspec.structs.astuple, records), strict=True))
