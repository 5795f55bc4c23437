"""Types and values that fit them, for property tests."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from millrace.common import Instant, Row, RowKind, TypeInformation, Types


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Inner:
    tags: list[str]
    weights: dict[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    sensor: str
    value: float
    count: int | None
    at: datetime
    colour: Colour
    inner: Inner | None = None
    small: float = field(default=0.0, metadata={"type_info": Types.FLOAT()})


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
_DATETIMES = st.datetimes(timezones=_ZONES).map(lambda at: at.replace(fold=0))
_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates, too
_FLOATS = st.floats(allow_nan=False)
_READINGS = st.builds(
    Reading,
    sensor=_TEXT,
    value=_FLOATS,
    count=st.none() | ints(64),
    at=_DATETIMES,
    colour=st.sampled_from(Colour),
    inner=st.none()
    | st.builds(Inner, tags=st.lists(_TEXT, max_size=3), weights=st.dictionaries(_TEXT, _FLOATS, max_size=3)),
    small=st.floats(width=32, allow_nan=False),
)

Typed = tuple[TypeInformation, st.SearchStrategy[Any]]

LEAVES: list[Typed] = [
    (Types.STRING(), _TEXT),
    (Types.CHAR(), st.characters(exclude_categories=())),
    (Types.BOOLEAN(), st.booleans()),
    (Types.BYTE(), ints(8)),
    (Types.SHORT(), ints(16)),
    (Types.INT(), ints(32)),
    (Types.LONG(), ints(64)),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    (Types.DOUBLE(), _FLOATS),
    (Types.BIG_INT(), st.integers(-(2**200), 2**200)),
    (Types.BIG_DEC(), st.decimals(allow_nan=False)),
    (Types.INSTANT(), st.builds(Instant, ints(40), st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times(timezones=_ZONES).map(lambda at: at.replace(fold=0))),
    (Types.SQL_TIMESTAMP(), _DATETIMES),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=8)),
    (Types.PRIMITIVE_ARRAY(Types.INT()), st.lists(ints(32), max_size=4)),
    (Types.BASIC_ARRAY(Types.STRING()), st.lists(st.none() | _TEXT, max_size=4)),
    (Types.PICKLED_BYTE_ARRAY(), st.none() | st.integers() | st.text(max_size=4)),
    (Types.ENUM(Colour), st.sampled_from(Colour)),
    (Types.ENUM(Access), st.sampled_from([Access.READ, Access.READ | Access.WRITE, Access(0)])),
    (Types.DATACLASS(Reading), _READINGS),
]


def typed() -> st.SearchStrategy[Typed]:
    """A type together with the strategy of its values."""
    return st.recursive(st.sampled_from(LEAVES), _composite, max_leaves=5)


def _composite(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        st.lists(inner, max_size=4).map(_tuple),
        st.lists(inner, max_size=4).map(_row),
        st.lists(inner, max_size=4).map(_row_named),
        inner.map(lambda one: (Types.LIST(one[0]), st.lists(st.none() | one[1], max_size=3))),
        inner.map(lambda one: (Types.OBJECT_ARRAY(one[0]), st.lists(st.none() | one[1], max_size=3))),
        st.tuples(st.sampled_from(LEAVES[:15]), inner).map(_map),
    )


def _tuple(fields: list[Typed]) -> Typed:
    return Types.TUPLE([kind for kind, _ in fields]), st.tuples(*(st.none() | values for _, values in fields))


def _row(fields: list[Typed]) -> Typed:
    names = st.none() | st.just([f"n{i}" for i in range(len(fields))])
    return Types.ROW([kind for kind, _ in fields]), _rows(fields, names)


def _row_named(fields: list[Typed]) -> Typed:
    names = [f"n{i}" for i in reversed(range(len(fields)))]
    return Types.ROW_NAMED(names, [kind for kind, _ in fields]), _rows(fields, st.just(names))


def _rows(fields: list[Typed], names: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    values = st.tuples(*(st.none() | values for _, values in fields))
    return st.builds(_make, values, names, st.sampled_from(RowKind))


def _make(values: tuple[Any, ...], names: list[str] | None, kind: RowKind) -> Row:
    row = Row.of_kind(kind, *values)
    if names is not None:
        row.set_field_names(names)
    return row


def _map(pair: tuple[Typed, Typed]) -> Typed:
    (key, keys), (item, items) = pair
    return Types.MAP(key, item), st.dictionaries(st.none() | keys, st.none() | items, max_size=3)


def batches(of: Typed) -> st.SearchStrategy[tuple[TypeInformation, list[Any]]]:
    return st.tuples(st.just(of[0]), st.lists(of[1], max_size=6))
