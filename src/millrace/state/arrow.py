"""State as Arrow: which Arrow type stands for a type information, and how values go there and back.

Rows, tuples and dataclasses are structs, enums are the names of their members, and what Arrow cannot hold exactly
(BIG_INT, BIG_DEC) is text. Instants are cut to microseconds. Values without a type are given one by Arrow if it can,
and are shown by their `repr` otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import singledispatch
from typing import Any, NamedTuple

from millrace.common.time import Instant
from millrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DateTypeInfo,
    EnumTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from millrace.common.types import Row, make_row

Change = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Shape(NamedTuple):
    """How values of a type look in Arrow. `type` None: Arrow finds out."""

    type: Any
    to_arrow: Change
    from_arrow: Change


def to_arrow(shape: Shape, values: list[Any]) -> Any:
    """An Arrow array of values of a shape."""
    import pyarrow as pa

    if shape.type is not None:
        return pa.array([None if value is None else shape.to_arrow(value) for value in values], shape.type)
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array(list(map(repr, values)), pa.string())


def int64() -> Shape:
    """The shape of stamps, counts and key groups."""
    import pyarrow as pa

    return Shape(pa.int64(), value_itself, int)


def text() -> Shape:
    """The shape of names."""
    import pyarrow as pa

    return Shape(pa.string(), value_itself, value_itself)


def shape_of(type_info: Any) -> Shape:
    """The shape of a type, with every None left as it is."""
    shape = _shape(type_info)
    return Shape(shape.type, _past_none(shape.to_arrow), _past_none(shape.from_arrow))


def list_of(shape: Shape) -> Shape:
    """The shape of lists."""
    import pyarrow as pa

    if shape.type is None:
        return _UNKNOWN
    return Shape(pa.list_(shape.type), _each(shape.to_arrow), _each(shape.from_arrow))


def map_of(key: Shape, value: Shape) -> Shape:
    """The shape of dicts. Arrow (and what is made of it) may hand them back as lists of pairs."""
    import pyarrow as pa

    if key.type is None or value.type is None:
        return _UNKNOWN

    def there(entries: dict[Any, Any]) -> list[tuple[Any, Any]]:
        return [(key.to_arrow(name), value.to_arrow(item)) for name, item in entries.items()]

    def back(entries: Any) -> dict[Any, Any]:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        return {key.from_arrow(name): value.from_arrow(item) for name, item in pairs}

    return Shape(pa.map_(key.type, value.type), there, back)


def _past_none(change: Change) -> Change:
    # NaN is how pandas says None; a type of floats keeps it, since it changes nothing.
    def past_none(value: Any) -> Any:
        return None if value is None else change(value)

    return value_itself if change is value_itself else past_none


def _each(change: Change) -> Change:
    return lambda values: [change(value) for value in values]


def value_itself(value: Any) -> Any:
    """No change at all."""
    return value


_UNKNOWN = Shape(None, value_itself, value_itself)


@singledispatch
def _shape(type_info: Any) -> Shape:
    element = getattr(type_info, "get_element_type", None)
    return _UNKNOWN if element is None else list_of(shape_of(element()))


_ARROW_NAMES = {
    BasicType.STRING: "string",
    BasicType.CHAR: "string",
    BasicType.BOOLEAN: "bool",
    BasicType.BYTE: "int8",
    BasicType.SHORT: "int16",
    BasicType.INT: "int32",
    BasicType.LONG: "int64",
    BasicType.FLOAT: "float32",
    BasicType.DOUBLE: "float64",
}


@_shape.register
def _(type_info: BasicTypeInfo) -> Shape:
    import pyarrow as pa

    match type_info.basic_type:
        case BasicType.BIG_INT:
            return Shape(pa.string(), str, int)
        case BasicType.BIG_DEC:
            return Shape(pa.string(), str, lambda value: Decimal(str(value)))
        case BasicType.INSTANT:
            return Shape(pa.timestamp("us", "UTC"), _instant_to_arrow, _instant_from_arrow)
        case BasicType.FLOAT | BasicType.DOUBLE as kind:
            return Shape(pa.type_for_alias(_ARROW_NAMES[kind]), value_itself, value_itself)
        case kind:
            return Shape(pa.type_for_alias(_ARROW_NAMES[kind]), value_itself, _without_nan)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) or type(value).__name__ == "float64":
        return None if value != value else int(value) if value.is_integer() else value  # noqa: PLR0124 - a NaN
    return value


def _instant_to_arrow(value: Instant) -> int:
    return int(value.seconds * 1_000_000 + value.nanos // 1_000)


def _instant_from_arrow(value: Any) -> Any:
    if isinstance(value, Instant):
        return value
    micros = (_plain_datetime(value).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1_000)


def _plain_datetime(value: Any) -> datetime:
    """In UTC, without saying so. pandas has a datetime of its own."""
    if not isinstance(value, datetime):
        return value  # type: ignore[no-any-return] # and the type will refuse it
    plain: datetime = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    return plain if plain.tzinfo is None else plain.astimezone(UTC).replace(tzinfo=None)


@_shape.register
def _(_type_info: DateTypeInfo) -> Shape:
    import pyarrow as pa

    return Shape(pa.date32(), value_itself, value_itself)


@_shape.register
def _(type_info: TimeTypeInfo) -> Shape:
    import pyarrow as pa

    return Shape(pa.time64("us"), type_info.to_internal_type, value_itself)


@_shape.register
def _(type_info: TimestampTypeInfo) -> Shape:
    import pyarrow as pa

    return Shape(pa.timestamp("us"), type_info.to_internal_type, _plain_datetime)


@_shape.register
def _(type_info: EnumTypeInfo) -> Shape:
    import pyarrow as pa

    cls = type_info.enum_class
    if issubclass(cls, Flag):
        return Shape(pa.int64(), lambda member: member.value, cls)
    return Shape(
        pa.string(),
        lambda member: member.name,
        lambda said: cls[said.name if isinstance(said, Enum) else said],
    )


@_shape.register
def _(type_info: MapTypeInfo) -> Shape:
    return map_of(shape_of(type_info.get_key_type()), shape_of(type_info.get_value_type()))


@_shape.register
def _(type_info: PrimitiveArrayTypeInfo) -> Shape:
    import pyarrow as pa

    if type_info.is_bytes:
        return Shape(pa.binary(), value_itself, bytes)
    return list_of(shape_of(type_info.get_element_type()))


def _struct(names: Iterable[str], types: list[TypeInformation], make: Callable[[list[Any]], Any]) -> Shape:
    import pyarrow as pa

    names, shapes = list(names), [shape_of(kind) for kind in types]
    if any(shape.type is None for shape in shapes):
        return _UNKNOWN

    def there(record: Any) -> dict[str, Any]:
        values = record if isinstance(record, (tuple, Row)) else [getattr(record, name) for name in names]
        return {name: shape.to_arrow(value) for name, shape, value in zip(names, shapes, values, strict=True)}

    def back(record: Any) -> Any:
        values = _values_by_name(record, names)
        if len(values) != len(names):
            return record  # which the type will refuse, and say why
        made = make([shape.from_arrow(value) for shape, value in zip(shapes, values, strict=True)])
        if isinstance(record, Row) and isinstance(made, Row):
            made.set_row_kind(record.get_row_kind())
        return made

    fields = [pa.field(name, shape.type) for name, shape in zip(names, shapes, strict=True)]
    return Shape(pa.struct(fields), there, back)


def _values_by_name(record: Any, names: list[str]) -> list[Any]:
    if isinstance(record, Mapping):
        return [record.get(name) for name in names]
    if is_dataclass(record):
        return [getattr(record, name) for name in names]
    if isinstance(record, Row):
        return record.get_fields_by_names(names)
    if hasattr(record, "asDict"):  # a row of Spark's
        return [record.asDict().get(name) for name in names]
    return list(record)


@_shape.register
def _(type_info: TupleTypeInfo) -> Shape:
    types = type_info.get_field_types()
    return _struct([f"f{place}" for place in range(len(types))], types, tuple)


@_shape.register
def _(type_info: RowTypeInfo) -> Shape:
    names = type_info.names
    return _struct(type_info.get_field_names(), type_info.get_field_types(), lambda values: make_row(values, names))


@_shape.register
def _(type_info: DataclassTypeInfo) -> Shape:
    return _struct(type_info.get_field_names(), type_info.get_field_types(), type_info.build)
