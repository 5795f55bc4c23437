"""Bytes that identify a key on disk: equal keys have equal bytes, and different keys have different ones.

As in a dict, `1 == 1.0 == True` are one key. The bytes are made for looking up; the key itself stands in the row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

from millrace.common import pickling
from millrace.common.types import Row
from millrace.state.hashing import has_generated_hash, own_hash

_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_LENGTH = struct.Struct(">I")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what naive datetimes are counted from
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def identity(key: Any) -> bytes:
    """The bytes that stand for a key.

    >>> identity(1) == identity(1.0) == identity(True)
    True
    >>> len({identity(key) for key in ("1", b"1", 1, None, ("1",), 1.5)})
    6
    """
    return (_EXACT.get(type(key)) or _other(type(key)))(key)


def framed(data: bytes) -> bytes:
    """Bytes behind their length, so that no framed bytes begin with other framed bytes."""
    return _LENGTH.pack(len(data)) + data


def _int(key: int) -> bytes:
    try:
        return b"i" + _LONG.pack(key)
    except struct.error:
        return b"I" + key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True)


def _float(key: float) -> bytes:
    return _int(int(key)) if key.is_integer() else b"f" + _DOUBLE.pack(key)


def _ratio(key: Decimal | Fraction) -> bytes:
    try:
        above, below = key.as_integer_ratio()
    except (ValueError, OverflowError):  # infinite, or no number
        return _float(float(key))
    if below == 1:
        return _int(above)
    return _float(float(key)) if float(key) == key else b"q%d/%d" % (above, below)


def _complex(key: complex) -> bytes:
    return b"c" + _DOUBLE.pack(key.real) + _DOUBLE.pack(key.imag) if key.imag else _float(key.real)


def _str(key: str) -> bytes:
    return b"s" + key.encode("utf-8", "surrogatepass")


def _bytes(key: bytes) -> bytes:
    return b"b" + key


def _none(_key: None) -> bytes:
    return b"n"


def _parts(tag: bytes, parts: Iterable[bytes]) -> bytes:
    return tag + b"".join(map(framed, parts))


def _tuple(key: Iterable[Any]) -> bytes:
    return _parts(b"t", map(identity, key))


def _frozenset(key: frozenset[Any]) -> bytes:
    return _parts(b"F", sorted(map(identity, key)))


def _datetime(key: datetime) -> bytes:
    naive = key.utcoffset() is None
    since = (key.replace(fold=0) - (_EPOCH if naive else _EPOCH_UTC)) // _MICROSECOND
    return (b"d" if naive else b"D") + _LONG.pack(since)


def _date(key: date) -> bytes:
    return b"y" + _LONG.pack(key.toordinal())


def _time(key: time) -> bytes:
    since = timedelta(hours=key.hour, minutes=key.minute, seconds=key.second, microseconds=key.microsecond)
    offset = key.utcoffset()
    return (b"k" if offset is None else b"K") + _LONG.pack((since - (offset or timedelta())) // _MICROSECOND)


def _timedelta(key: timedelta) -> bytes:
    return b"l" + _int(key // _MICROSECOND)


def _uuid(key: UUID) -> bytes:
    return b"u" + key.bytes


def _enum(key: Enum) -> bytes:
    return _parts(b"e", (type(key).__qualname__.encode(), key.name.encode()))


def _row(key: Row) -> bytes:
    names = None if key._fields is None else tuple(key._fields)
    return _parts(b"r", map(identity, (names, key.get_row_kind().name, *key)))


def _dataclass(key: Any) -> bytes:
    cls = type(key)
    values = (identity(getattr(key, field.name)) for field in fields(key) if field.compare)
    return _parts(b"o", (f"{cls.__module__}.{cls.__qualname__}".encode(), *values))


def _pickled(key: Any) -> bytes:
    # The class has a hash of its own, so nothing is known of what it compares. Equal objects whose pickles differ
    # are two keys here; docs/limitations.md says so.
    return b"p" + pickling.dumps(key)


_EXACT: dict[type, Callable[[Any], bytes]] = {
    int: _int,
    bool: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    type(None): _none,
    tuple: _tuple,
}

# Subclasses of these compare as their base does, unless they define it otherwise. In this order: a datetime is a
# date, and members of an IntEnum or StrEnum equal their values.
_BASES: tuple[tuple[type, Callable[[Any], bytes]], ...] = (
    (int, _int),
    (float, _float),
    (complex, _complex),
    (Decimal, _ratio),
    (Fraction, _ratio),
    (str, _str),
    (bytes, _bytes),
    (tuple, _tuple),
    (frozenset, _frozenset),
    (datetime, _datetime),
    (date, _date),
    (time, _time),
    (timedelta, _timedelta),
    (UUID, _uuid),
    (Row, _row),
    (Enum, _enum),
)


def _other(cls: type) -> Callable[[Any], bytes]:
    for base, encode in _BASES:
        if issubclass(cls, base) and own_hash(cls) is own_hash(base):
            return encode
    return _dataclass if has_generated_hash(cls) else _pickled
