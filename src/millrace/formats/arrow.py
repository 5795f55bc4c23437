"""Arrow, and with it Parquet and ORC.

    integers, floats, booleans, strings, bytes    Arrow's own of the same width; CHAR is a string
    BIG_DEC                       decimal128(38, 18), as Flink writes legacy decimals
    INSTANT                       timestamp[us, UTC]: what is finer than a microsecond is refused
    SQL_DATE                      date32
    SQL_TIME, SQL_TIMESTAMP       time64[us], timestamp[us]: a value with a zone is written in UTC and read without one
    ENUM                          the member's name; the number of a Flag
    ROW, TUPLE, DATACLASS         a struct; the record itself: the columns
    MAP                           a map; keys are not None
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millrace.common.errors import DecodingError, ProgramError, TypeMismatchError
from millrace.common.time import Instant
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

from .plans import Dialect, Field, Plan, dicts_of, each, nullable, record_shape

__all__ = ["ArrowCodec", "to_arrow_schema"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL = pa.decimal128(38, 18)


def to_arrow_schema(type_info: TypeInformation, format_name: str = "Arrow") -> pa.Schema:
    """The Arrow schema of records of a type: a column for each field.

    >>> from millrace.common import Types
    >>> print(to_arrow_schema(Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])))
    id: int64
    name: string
    """
    return ArrowCodec(type_info, format_name).schema


class ArrowCodec:
    """Lists of records and Arrow's batches of columns."""

    def __init__(self, type_info: TypeInformation, format_name: str = "Arrow") -> None:
        self._args = (type_info, format_name)
        dialect = _ArrowDialect(format_name)
        shape = record_shape(type_info)
        if shape is None or not shape.fields:
            raise ProgramError(
                f"{format_name} holds records of named fields, and {type_info.describe()} has none",
                action="Map the records to a Row, a tuple or a dataclass.",
            )
        plan = dialect.plan(type_info)
        self.type_info = type_info
        self.schema = pa.schema(list(plan.native))
        self._shape = shape
        plans = [dialect.plan(field.kind, field.name) for field in shape.fields]
        self._to = [nullable(field.to_plain) for field in plans]
        self._from = [nullable(field.from_plain) for field in plans]

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowCodec, self._args

    def to_batch(self, values: Sequence[Any]) -> pa.RecordBatch:
        """Records as columns."""
        records = self.type_info.coerce_batch(list(values))
        columns = self._shape.columns_of(records) if records else [()] * len(self._shape.fields)
        arrays = [
            _array(convert(column), field)
            for convert, column, field in zip(self._to, columns, self.schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)

    def from_batch(self, batch: pa.RecordBatch) -> list[Any]:
        """Columns as records. They are found by name; one that is not there is all None."""
        if not batch.num_rows:
            return []
        columns = [_plain_column(batch, field) for field in self.schema]
        try:
            done = [convert(column) for convert, column in zip(self._from, columns, strict=True)]
        except (ValueError, OverflowError) as error:
            raise DecodingError(f"the columns are not those of {self.type_info.describe()}: {error}") from error
        return self.type_info.coerce_batch(self._shape.build(done, batch.num_rows))


def _array(column: Any, field: pa.Field) -> pa.Array:
    try:
        return pa.array(column, field.type)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        for value in column:
            try:
                pa.array([value], field.type)
            except (pa.ArrowException, UnicodeEncodeError, OverflowError):
                raise TypeMismatchError(f"what {field.type} can hold", value, str(error)).inside(field.name) from error
        raise


def _plain_column(batch: pa.RecordBatch, field: pa.Field) -> list[Any]:
    if field.name not in batch.schema.names:
        if field.nullable:
            return [None] * batch.num_rows
        raise DecodingError(f"there is no column {field.name!r} among {', '.join(batch.schema.names)}")
    column = batch.column(field.name)
    try:
        return _python_values(column.cast(field.type))
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise DecodingError(f"the column {field.name!r} is {column.type} and not {field.type}: {error}") from error


def _python_values(column: pa.Array) -> list[Any]:
    """The column as a list. What numpy has, too, goes through it: several times as quick as Arrow's scalars."""
    kind = column.type
    quick = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if (quick and not column.null_count) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]


def _decimal_to_plain(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise TypeMismatchError("BIG_DEC", value, "a decimal column holds numbers only")
    return value


def _instant_to_plain(value: Instant) -> datetime:
    if value.nanos % 1_000:
        raise TypeMismatchError("INSTANT", value, "a timestamp column holds microseconds")
    try:
        return value.to_datetime()
    except OverflowError:
        raise TypeMismatchError("INSTANT", value, "not in the years 1 to 9999") from None


# ORC's points of time are read as nanoseconds in 64 bits.
_ORC_FIRST, _ORC_LAST = datetime(1678, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)


def _in_orc_range(kind: TypeInformation, convert: Any) -> Any:
    """The conversion, for values that ORC can hold."""

    def checked(value: Any) -> datetime:
        at: datetime = convert(value)
        if not _ORC_FIRST <= at.replace(tzinfo=UTC) < _ORC_LAST:
            raise TypeMismatchError(kind.describe(), value, "ORC holds the years 1678 to 2261")
        return at

    return each(checked)


def instant_from_datetime(at: datetime) -> Instant:
    """The same point of time."""
    span = at - _EPOCH
    return Instant(span // timedelta(seconds=1), span.microseconds * 1_000)


def utc_datetime(at: datetime) -> datetime:
    """Without a zone; what has one is brought to UTC before."""
    if at.tzinfo is None:
        return at
    try:
        return at.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise TypeMismatchError("SQL_TIMESTAMP", at, "in UTC not in the years 1 to 9999") from None


def utc_time(at: time) -> time:
    """Without a zone; what has one is brought to UTC before."""
    offset = at.utcoffset()
    if offset is None:
        return at.replace(tzinfo=None)
    return (datetime.combine(_EPOCH.date(), at.replace(tzinfo=None)) - offset).time()


_BASIC = {
    BasicType.STRING: Plan(pa.string()),
    BasicType.CHAR: Plan(pa.string()),
    BasicType.BOOLEAN: Plan(pa.bool_()),
    BasicType.BYTE: Plan(pa.int8()),
    BasicType.SHORT: Plan(pa.int16()),
    BasicType.INT: Plan(pa.int32()),
    BasicType.LONG: Plan(pa.int64()),
    BasicType.FLOAT: Plan(pa.float32()),
    BasicType.DOUBLE: Plan(pa.float64()),
    BasicType.BIG_DEC: Plan(_DECIMAL, each(_decimal_to_plain)),
    BasicType.INSTANT: Plan(pa.timestamp("us", "UTC"), each(_instant_to_plain), each(instant_from_datetime)),
}


class _ArrowDialect(Dialect):
    def __init__(self, name: str) -> None:
        self.name = name

    def leaf(self, kind: TypeInformation, path: str) -> Plan:
        if isinstance(kind, BasicTypeInfo):
            if kind.basic_type not in _BASIC:
                self.refuse(kind, path, "it has no integers of any size; take LONG or BIG_DEC")
            plan = _BASIC[kind.basic_type]
            if kind.basic_type is BasicType.INSTANT and self.name == "ORC":
                return plan._replace(to_plain=_in_orc_range(kind, _instant_to_plain))
            return plan
        if isinstance(kind, PrimitiveArrayTypeInfo):
            return Plan(pa.binary())
        if isinstance(kind, DateTypeInfo):
            return Plan(pa.date32())
        if isinstance(kind, TimeTypeInfo) and self.name != "ORC":
            return Plan(pa.time64("us"), each(utc_time))
        if isinstance(kind, TimeTypeInfo):
            self.refuse(kind, path, "it has no time of day")
        if isinstance(kind, TimestampTypeInfo):
            in_utc = _in_orc_range(kind, utc_datetime) if self.name == "ORC" else each(utc_datetime)
            return Plan(pa.timestamp("us"), in_utc)
        return self.refuse(kind, path, "only Python can read a pickle")

    def record(self, kind: TypeInformation, fields: list[Field], plans: list[Plan], path: str) -> Plan:
        if not fields:
            self.refuse(kind, path, "it has no structs without fields")
        # Inside a struct that may be missing, ORC has every field missing with it.
        native = [
            pa.field(field.name, plan.native, field.optional or bool(path))
            for field, plan in zip(fields, plans, strict=True)
        ]
        return Plan(pa.struct(native), *dicts_of([field.name for field in fields]))

    def sequence(self, kind: TypeInformation, element: Plan, nullable_elements: bool, path: str) -> Any:
        return pa.list_(pa.field("element", element.native))

    def mapping(self, kind: MapTypeInfo, key: Plan, item: Plan, path: str) -> Any:
        if record_shape(kind.get_key_type()) or not _is_hashable(kind.get_key_type()):
            self.refuse(kind, path, "the keys of a map must be indivisible")
        return pa.map_(key.native, item.native)


def _is_hashable(kind: TypeInformation) -> bool:
    return not isinstance(kind, MapTypeInfo) and (
        not hasattr(kind, "get_element_type") or bool(getattr(kind, "is_bytes", False))
    )
