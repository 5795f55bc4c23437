"""A hash of keys that is the same in every process and in every release.

Which subtask owns a key, and so which file holds its state, follows from this hash. Its values must never change:
`tests/state/test_key_groups.py` keeps some of them.

Keys that are equal have equal hashes, because the state of a key lives in a dict: `1 == 1.0 == True`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from numbers import Number
from typing import Any
from uuid import UUID
from zlib import crc32

from millrace.common.errors import KeyHashError, short_repr
from millrace.common.types import Row

_MASK = (1 << 64) - 1

# One odd constant per kind of key, so that "1", b"1" and 1 fall apart. Digits of the golden ratio, times 1, 3, 5, ...
_GOLDEN = 0x9E3779B97F4A7C15
(_STR, _BYTES, _NONE, _TUPLE, _SET, _DATETIME, _DATE, _TIME, _DELTA, _ENUM, _UUID, _FIELDS, _ROW) = (
    _GOLDEN * odd & _MASK for odd in range(1, 27, 2)
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what naive datetimes are counted from
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_USE_PLAIN_VALUES = "Use a key of plain values: a str, an int, a tuple of them, or a frozen dataclass."


def mix(value: int) -> int:
    """Spread a number over 64 bits (the finalizer of SplitMix64): neighbours end up far apart."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def stable_hash(key: Any) -> int:
    """A hash of 64 bits that depends on nothing but the key's value.

    >>> stable_hash(1) == stable_hash(1.0) == stable_hash(True)
    True
    >>> stable_hash("a") == stable_hash(b"a")
    False
    """
    hasher = _EXACT.get(type(key))
    return hasher(key) if hasher is not None else _hash_other(key)


def _bytes(tag: int, data: bytes) -> int:
    return mix(tag ^ (len(data) << 32 | crc32(data)))


def _hash_number(key: Any) -> int:
    # Python's own hash of numbers is the same everywhere (64 bit) and respects equality across number types.
    if key != key:  # noqa: PLR0124 - how a NaN is told
        raise KeyHashError("NaN cannot be a key: it does not equal itself", action="Map it to None or filter it out.")
    return mix(hash(key) & _MASK)


def _hash_int(key: int) -> int:
    return mix(hash(key) & _MASK)


def _hash_float(key: float) -> int:
    return _hash_number(key) if math.isnan(key) else mix(hash(key) & _MASK)


def _hash_str(key: str) -> int:
    return _bytes(_STR, key.encode("utf-8", "surrogatepass"))


def _hash_bytes(key: bytes) -> int:
    return _bytes(_BYTES, key)


def _hash_none(_key: None) -> int:
    return mix(_NONE)


def _hash_sequence(tag: int, items: Iterable[Any]) -> int:
    value = tag
    for item in items:
        value = mix((value * 31 + stable_hash(item)) & _MASK)
    return value


def _hash_tuple(key: tuple[Any, ...]) -> int:
    return _hash_sequence(_TUPLE, key)


def _hash_frozenset(key: frozenset[Any]) -> int:
    return mix((_SET + sum(map(stable_hash, key))) & _MASK)


def _hash_datetime(key: datetime) -> int:
    epoch = _EPOCH if key.utcoffset() is None else _EPOCH_UTC
    return mix(_DATETIME ^ ((key.replace(fold=0) - epoch) // _MICROSECOND & _MASK))


def _hash_date(key: date) -> int:
    return mix(_DATE ^ key.toordinal())


def _hash_time(key: time) -> int:
    since_midnight = timedelta(hours=key.hour, minutes=key.minute, seconds=key.second, microseconds=key.microsecond)
    return mix(_TIME ^ ((since_midnight - (key.utcoffset() or timedelta())) // _MICROSECOND & _MASK))


def _hash_timedelta(key: timedelta) -> int:
    return mix(_DELTA ^ (key // _MICROSECOND & _MASK))


def _hash_uuid(key: UUID) -> int:
    return mix(_UUID ^ mix(key.int & _MASK) ^ (key.int >> 64))


def _hash_enum(key: Enum) -> int:
    return _hash_sequence(_ENUM, (type(key).__qualname__, key.name))


def _hash_row(key: Row) -> int:
    return _hash_sequence(_ROW, key)


def _hash_dataclass(key: Any) -> int:
    compared = [field.name for field in fields(key) if (field.compare if field.hash is None else field.hash)]
    return _hash_sequence(_FIELDS, [getattr(key, name) for name in compared])


_EXACT: dict[type, Callable[[Any], int]] = {
    int: _hash_int,
    bool: _hash_int,
    float: _hash_float,
    str: _hash_str,
    bytes: _hash_bytes,
    type(None): _hash_none,
    tuple: _hash_tuple,
    frozenset: _hash_frozenset,
    datetime: _hash_datetime,
    date: _hash_date,
    time: _hash_time,
    timedelta: _hash_timedelta,
    UUID: _hash_uuid,
    Row: _hash_row,
}

# Subclasses of these compare (and hash) as their base does, unless they define it otherwise. In this order: a
# datetime is a date, and members of an IntEnum or StrEnum equal their values.
_BASES: tuple[tuple[type, Callable[[Any], int]], ...] = (
    (str, _hash_str),
    (bytes, _hash_bytes),
    (tuple, _hash_tuple),
    (frozenset, _hash_frozenset),
    (datetime, _hash_datetime),
    (date, _hash_date),
    (time, _hash_time),
    (timedelta, _hash_timedelta),
    (UUID, _hash_uuid),
    (Row, _hash_row),
)


def own_hash(cls: type) -> Any:
    return cls.__hash__


def _hash_other(key: Any) -> int:
    cls = type(key)
    hasher = _hasher_of(cls)
    if hasher is None:
        raise KeyHashError(f"{short_repr(key)} cannot be a key: {_why_not(cls)}", action=_USE_PLAIN_VALUES)
    return hasher(key)


def _hasher_of(cls: type) -> Callable[[Any], int] | None:
    if issubclass(cls, Number):
        return _hash_number
    for base, hasher in _BASES:
        if issubclass(cls, base) and own_hash(cls) is own_hash(base):
            return hasher
    if issubclass(cls, Enum) and own_hash(cls) is own_hash(Enum):
        return _hash_enum
    return _hash_dataclass if has_generated_hash(cls) else None


def has_generated_hash(cls: type) -> bool:
    params = getattr(cls, "__dataclass_params__", None)
    if params is None or not (params.frozen and params.eq):
        return False
    code = getattr(cls.__hash__, "__code__", None)
    return code is not None and code.co_filename == "<string>"  # what `dataclasses` gives to what it generates


def _why_not(cls: type) -> str:
    if cls.__hash__ is None:
        return f"a {cls.__qualname__} can change, and so has no hash"
    if own_hash(cls) is own_hash(object):
        return f"{cls.__qualname__} hashes by identity, which differs in every process"
    return f"the hash of {cls.__qualname__} is its own, and may differ from process to process"
