"""Durable bytes for values of a declared type.

A batch is one msgpack array. Its elements are the values in a *plain* form, chosen per type so that C code
can write and read most of them unchanged:

    numbers, strings, booleans, bytes   themselves; a BIG_INT beyond 64 bits: extension 1, two's complement
    BIG_DEC                             its string
    INSTANT                             [seconds, nanos]
    SQL_DATE                            its ordinal
    SQL_TIME, SQL_TIMESTAMP             their ISO strings: the zone's offset, but neither its name nor fold
    TUPLE, DATACLASS                    [field, ...]
    ROW                                 [head, field, ...]; head is the kind's number, or [number, names] when
                                        the row's names are not those of its type
    LIST and the arrays                 [element, ...]
    MAP                                 a msgpack map, or [[key, ...], [value, ...]] if keys need a plain form
    ENUM                                the member's name; the number of a Flag
    PICKLED_BYTE_ARRAY                  a pickle, the only place where one is used

None is nil everywhere. A batch with a string that UTF-8 cannot hold (a lone surrogate) begins with the byte
0xC1, which msgpack never uses, and has all of its strings in Python's ``unicode_escape``.

The bytes depend on the values alone. Maps keep their order, so that a restored job iterates as the lost one
did.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, Flag
from functools import singledispatch
from itertools import repeat
from types import GenericAlias
from typing import Any, NamedTuple, Optional, TypeAlias

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from . import pickling
from .errors import DecodingError, TypeMismatchError
from .time import Instant
from .typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DateTypeInfo,
    EnumTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from .typeinfo._arrays import regroup
from .typeinfo._base import over_present
from .typeinfo._map import flatten_maps, rebuild_maps
from .types import Row, RowKind, make_row

__all__ = ["Codec"]

Convert: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]

# The one byte that no msgpack value begins with.
_ESCAPED = b"\xc1"
_BIG_INT_EXT = 1
_KINDS = tuple(RowKind)
# What reading raises when the bytes, or the classes that a pickle names, are not what they were.
_UNREADABLE = (
    msgspec.MsgspecError,
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    TypeError,
    ValueError,
)


class Plan(NamedTuple):
    """How one type goes to bytes: what msgpack reads, and how a column becomes that (None: it is that already)."""

    annotation: Any
    to_plain: Convert | None = None
    from_plain: Convert | None = None


class Codec:
    """Encodes and decodes values of one type. Values must be as ``coerce_batch`` returns them.

    >>> from millrace.common import Types
    >>> codec = Codec(Types.TUPLE([Types.STRING(), Types.SQL_DATE()]))
    >>> data = codec.encode_batch([("a", date(2024, 2, 29)), ("b", None)])
    >>> codec.decode_batch(data)
    [('a', datetime.date(2024, 2, 29)), ('b', None)]
    >>> codec.decode(codec.encode(("c", None)))
    ('c', None)
    """

    __slots__ = ("_decoder", "_encoder", "_from_plain", "_to_plain", "_type_info")

    def __init__(self, type_info: TypeInformation) -> None:
        plan = plan_for(type_info)
        self._type_info = type_info
        self._encoder = Encoder()
        self._decoder = Decoder(_list_of(plan))
        self._to_plain = _past_none(plan.to_plain)
        self._from_plain = _past_none(plan.from_plain)

    def __reduce__(self) -> tuple[Any, ...]:
        return Codec, (self._type_info,)

    def encode(self, value: Any) -> bytes:
        return self.encode_batch([value])

    def decode(self, data: bytes) -> Any:
        return self.decode_batch(data)[0]

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        try:
            plain = self._to_plain(values)
            return self._write(plain)
        except (TypeError, AttributeError, OverflowError, ValueError) as error:
            self._explain(values, error)
            raise

    def decode_batch(self, data: bytes) -> list[Any]:
        try:
            if data[:1] == _ESCAPED:
                plain = _map_strings(self._decoder.decode(data[1:]), _unescape)
            else:
                plain = self._decoder.decode(data)
            done = self._from_plain(plain)
        except _UNREADABLE as error:
            raise DecodingError(
                f"bytes that should hold {self._type_info.describe()} do not: {error}",
                action="Was the type changed since they were written?",
            ) from error
        return done if isinstance(done, list) else list(done)

    def _write(self, plain: Sequence[Any]) -> bytes:
        try:
            return self._encoder.encode(plain)
        except UnicodeEncodeError:
            return _ESCAPED + self._encoder.encode(_map_strings(plain, _escape))

    def _explain(self, values: Sequence[Any], error: Exception) -> None:
        """Raises the mismatch behind a failed encoding, if there is one."""
        try:
            self._type_info.coerce_batch([value for value in values if value is not None])
        except TypeMismatchError as mismatch:
            raise mismatch from error


# mypy reads Optional[...] as a type wherever it stands; here it is a value.
_OPTIONAL: Any = Optional


def _list_of(element: Plan) -> Any:
    return GenericAlias(list, (_OPTIONAL[element.annotation],))


def _tuple_of(*annotations: Any) -> Any:
    return GenericAlias(tuple, annotations)


def _dict_of(key: Plan, item: Plan) -> Any:
    return GenericAlias(dict, (_OPTIONAL[key.annotation], _OPTIONAL[item.annotation]))


def _same(values: Sequence[Any]) -> Sequence[Any]:
    return values


def _past_none(convert: Convert | None) -> Convert:
    """``convert`` for columns in which some values are None."""
    if convert is None:
        return _same

    def over(values: Sequence[Any]) -> Sequence[Any]:
        done = over_present(values, convert)
        return values if done is None else done

    return over


def _each(convert: Callable[[Any], Any]) -> Convert:
    return lambda values: list(map(convert, values))


@singledispatch
def plan_for(type_info: TypeInformation) -> Plan:
    raise NotImplementedError(type_info)


def _big_int_to_plain(value: int) -> int | Ext:
    if -(2**63) <= value < 2**64:
        return value
    return Ext(_BIG_INT_EXT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _big_int_from_plain(value: int | Ext) -> int:
    return int.from_bytes(value.data, "big", signed=True) if isinstance(value, Ext) else value


def _instant_to_plain(value: Instant) -> tuple[int, int]:
    return value.seconds, value.nanos


def _instant_from_plain(plain: tuple[int, int]) -> Instant:
    return Instant(*plain)


_BASIC_PLANS = {
    BasicType.STRING: Plan(str),
    BasicType.CHAR: Plan(str),
    BasicType.BOOLEAN: Plan(bool),
    BasicType.BYTE: Plan(int),
    BasicType.SHORT: Plan(int),
    BasicType.INT: Plan(int),
    BasicType.LONG: Plan(int),
    BasicType.FLOAT: Plan(float),
    BasicType.DOUBLE: Plan(float),
    BasicType.BIG_INT: Plan(Any, _each(_big_int_to_plain), _each(_big_int_from_plain)),
    BasicType.BIG_DEC: Plan(str, _each(str), _each(Decimal)),
    BasicType.INSTANT: Plan(tuple[int, int], _each(_instant_to_plain), _each(_instant_from_plain)),
}


@plan_for.register
def _(type_info: BasicTypeInfo) -> Plan:
    return _BASIC_PLANS[type_info.basic_type]


@plan_for.register
def _(_type_info: DateTypeInfo) -> Plan:
    return Plan(int, _each(date.toordinal), _each(date.fromordinal))


@plan_for.register
def _(_type_info: TimeTypeInfo) -> Plan:
    return Plan(str, _each(time.isoformat), _each(time.fromisoformat))


@plan_for.register
def _(_type_info: TimestampTypeInfo) -> Plan:
    return Plan(str, _each(datetime.isoformat), _each(datetime.fromisoformat))


@plan_for.register
def _(_type_info: PickledBytesTypeInfo) -> Plan:
    return Plan(bytes, _each(pickling.dumps), _each(pickle.loads))


def _enum_name(member: Enum) -> str:
    return member.name


@plan_for.register
def _(type_info: EnumTypeInfo) -> Plan:
    if issubclass(type_info.enum_class, Flag):
        return Plan(int, _each(lambda member: member.value), _each(type_info.enum_class))
    # Not `enum_class.__getitem__`: that of an enum of strings is that of its strings.
    return Plan(str, _each(_enum_name), _each(type_info.enum_class.__members__.__getitem__))


@plan_for.register(ListTypeInfo)
@plan_for.register(ObjectArrayTypeInfo)
@plan_for.register(BasicArrayTypeInfo)
@plan_for.register(PrimitiveArrayTypeInfo)
def _(type_info: Any) -> Plan:
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return Plan(bytes)
    element = plan_for(type_info.get_element_type())
    return Plan(_list_of(element), _over_elements(element.to_plain), _over_elements(element.from_plain))


def _over_elements(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    over = _past_none(convert)
    return lambda lists: regroup(over([element for elements in lists for element in elements]), lists)


@plan_for.register
def _(type_info: MapTypeInfo) -> Plan:
    key, item = plan_for(type_info.get_key_type()), plan_for(type_info.get_value_type())
    keys_to, keys_from = _past_none(key.to_plain), _past_none(key.from_plain)
    items_to, items_from = _past_none(item.to_plain), _past_none(item.from_plain)
    if key.to_plain is None and key.from_plain is None:
        return _map_with_plain_keys(key, item, items_to, items_from)

    def to_plain(maps: Sequence[Any]) -> Sequence[Any]:
        keys, items = flatten_maps(maps)
        return list(zip(regroup(keys_to(keys), maps), regroup(items_to(items), maps), strict=True))

    def from_plain(pairs: Sequence[Any]) -> Sequence[Any]:
        keys = keys_from([key for keys, _items in pairs for key in keys])
        items = items_from([item for _keys, items in pairs for item in items])
        return rebuild_maps(keys, items, [keys for keys, _items in pairs])

    return Plan(_tuple_of(_list_of(key), _list_of(item)), to_plain, from_plain)


def _map_with_plain_keys(key: Plan, item: Plan, items_to: Convert, items_from: Convert) -> Plan:
    def over_items(convert: Convert) -> Convert:
        def over(maps: Sequence[Any]) -> Sequence[Any]:
            keys, items = flatten_maps(maps)
            return rebuild_maps(keys, convert(items), maps)

        return over

    annotation = _dict_of(key, item)
    if item.to_plain is None and item.from_plain is None:
        return Plan(annotation)
    return Plan(annotation, over_items(items_to), over_items(items_from))


class _Fields:
    """The plans of a record's fields."""

    def __init__(self, field_types: Iterable[TypeInformation]) -> None:
        plans = [plan_for(field_type) for field_type in field_types]
        self.annotations = [_OPTIONAL[plan.annotation] for plan in plans]
        self._to = [_past_none(plan.to_plain) for plan in plans]
        self._from = [_past_none(plan.from_plain) for plan in plans]
        self.is_plain = all(plan.to_plain is None and plan.from_plain is None for plan in plans)

    def to_plain(self, columns: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        return [convert(column) for convert, column in zip(self._to, columns, strict=True)]

    def from_plain(self, columns: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        return [convert(column) for convert, column in zip(self._from, columns, strict=True)]


@plan_for.register
def _(type_info: TupleTypeInfo) -> Plan:
    fields = _Fields(type_info.get_field_types())
    annotation = _tuple_of(*fields.annotations)
    if fields.is_plain:
        return Plan(annotation)
    return Plan(
        annotation,
        lambda records: list(zip(*fields.to_plain(zip(*records, strict=True)), strict=True)),
        lambda records: list(zip(*fields.from_plain(zip(*records, strict=True)), strict=True)),
    )


@plan_for.register
def _(type_info: DataclassTypeInfo) -> Plan:
    fields = _Fields(type_info.get_field_types())

    def to_plain(records: Sequence[Any]) -> Sequence[Any]:
        columns = fields.to_plain(type_info.columns_of(records))
        return list(zip(*columns, strict=True)) if columns else [()] * len(records)

    def from_plain(records: Sequence[Any]) -> Sequence[Any]:
        columns = fields.from_plain(zip(*records, strict=True))
        return [type_info.build(values) for values in (zip(*columns, strict=True) if columns else records)]

    return Plan(_tuple_of(*fields.annotations), to_plain, from_plain)


@plan_for.register
def _(type_info: RowTypeInfo) -> Plan:
    fields, names = _Fields(type_info.get_field_types()), type_info.names

    def head(row: Row) -> Any:
        return row._row_kind.value if row._fields == names else (row._row_kind.value, row._fields)

    def make(values: list[Any], head: Any) -> Row:
        if isinstance(head, int):
            return make_row(values, names, _KINDS[head])
        kind, own_names = head
        return make_row(values, None if own_names is None else tuple(own_names), _KINDS[kind])

    def to_plain(rows: Sequence[Any]) -> Sequence[Any]:
        columns = fields.to_plain(zip(*(row._values for row in rows), strict=True))
        return list(zip(map(head, rows), *columns, strict=True))

    def from_plain(records: Sequence[Any]) -> Sequence[Any]:
        heads, *columns = zip(*records, strict=True)
        done = fields.from_plain(columns)
        values = map(list, zip(*done, strict=True)) if done else map(list, repeat((), len(records)))
        return list(map(make, values, heads))

    return Plan(_tuple_of(Any, *fields.annotations), to_plain, from_plain)


def _escape(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _unescape(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape")


def _map_strings(plain: Any, convert: Callable[[str], str]) -> Any:
    """``plain`` with every string in it converted."""
    if isinstance(plain, str):
        return convert(plain)
    if isinstance(plain, (list, tuple)):
        return type(plain)(_map_strings(item, convert) for item in plain)
    if isinstance(plain, dict):
        return {_map_strings(key, convert): _map_strings(item, convert) for key, item in plain.items()}
    return plain
