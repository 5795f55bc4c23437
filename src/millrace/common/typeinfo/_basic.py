"""Indivisible types: numbers, strings, booleans, instants."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from ..time import Instant
from ._base import Column, TypeInformation, unwrap_numpy


class BasicType(Enum):
    """The basic types, and the names that Flink prints for them."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


def _unchanged(values: Column, _kinds: set[type]) -> Column | None:
    return values


def _in_range(typecode: str) -> Callable[[Column, set[type]], Column | None]:
    def check(values: Column, _kinds: set[type]) -> Column | None:
        try:
            array(typecode, values)
        except OverflowError:
            return None
        return values

    return check


def _floats(values: Column, _kinds: set[type]) -> Column | None:
    try:
        rounded = array("f", values).tolist()
    except OverflowError:
        return None
    return values if _kinds == {float} and rounded == list(values) else rounded


def _doubles(values: Column, kinds: set[type]) -> Column | None:
    if kinds == {float}:
        return values
    try:
        return list(map(float, values))
    except OverflowError:
        return None


def _chars(values: Column, _kinds: set[type]) -> Column | None:
    return values if set(map(len, values)) == {1} else None


def _decimals(values: Column, kinds: set[type]) -> Column | None:
    return values if kinds == {Decimal} else list(map(Decimal, values))


def _exact_str(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else value


def _exact_int(value: Any) -> Any:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _exact_number(value: Any) -> Any:
    return float(value) if isinstance(value, float) else _exact_int(value)


def _as_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _Rule:
    """How one basic type checks: ``check`` a column of ``exact`` types, ``adapt`` a value of a subclass."""

    exact: frozenset[type]
    check: Callable[[Column, set[type]], Column | None]
    adapt: Callable[[Any], Any]
    limit: str = ""


def _integers(typecode: str, bits: int) -> _Rule:
    limit = f"{-(2 ** (bits - 1))}..{2 ** (bits - 1) - 1}"
    return _Rule(frozenset({int}), _in_range(typecode), _exact_int, f"out of range {limit}")


_RULES = {
    BasicType.STRING: _Rule(frozenset({str}), _unchanged, _exact_str),
    BasicType.CHAR: _Rule(frozenset({str}), _chars, _exact_str, "not one character"),
    BasicType.BOOLEAN: _Rule(frozenset({bool}), _unchanged, _as_is),
    BasicType.BYTE: _integers("b", 8),
    BasicType.SHORT: _integers("h", 16),
    BasicType.INT: _integers("i", 32),
    BasicType.LONG: _integers("q", 64),
    BasicType.FLOAT: _Rule(frozenset({float, int}), _floats, _exact_number, "too large"),
    BasicType.DOUBLE: _Rule(frozenset({float, int}), _doubles, _exact_number, "too large"),
    BasicType.BIG_INT: _Rule(frozenset({int}), _unchanged, _exact_int),
    BasicType.BIG_DEC: _Rule(frozenset({Decimal, int}), _decimals, _exact_int),
    BasicType.INSTANT: _Rule(frozenset({Instant}), _unchanged, _as_is),
}


class BasicTypeInfo(TypeInformation):
    """Type information of an indivisible value.

    Integers are checked against their width, FLOAT rounds to 32 bits (too large becomes infinite, as in
    Java), FLOAT and DOUBLE take an int, BIG_DEC takes an int. A bool is not an int, and a float is never
    cut to an int.

    >>> info = BasicTypeInfo.FLOAT_TYPE_INFO()
    >>> info
    Float
    >>> info.coerce_batch([0.5, 1])
    [0.5, 1.0]
    >>> info.coerce(0.1)
    0.10000000149011612
    """

    def __init__(self, basic_type: BasicType) -> None:
        self._basic_type = basic_type
        self._rule = _RULES[basic_type]
        self._exact = self._rule.exact

    @property
    def basic_type(self) -> BasicType:
        return self._basic_type

    def _args(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def describe(self) -> str:
        return self._basic_type.name

    def to_json(self) -> dict[str, Any]:
        return {"type": self._basic_type.name}

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        return self._rule.check(values, kinds)

    def _coerce_one(self, value: Any) -> Any:
        adapted = self._rule.adapt(unwrap_numpy(value))
        done = self._column((adapted,), nullable=False)
        if done is None:
            raise self._mismatch(value, self._rule.limit if type(adapted) in self._exact else "")
        return done[0]

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> InstantTypeInfo:
        return InstantTypeInfo()


class InstantTypeInfo(BasicTypeInfo):
    """Type information of an :class:`Instant`; its internal form is PyFlink's, microseconds cut to milliseconds."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Instant | None) -> int | None:
        return None if obj is None else obj.to_epoch_milli() * 1_000

    def from_internal_type(self, obj: int | None) -> Instant | None:
        return None if obj is None else Instant.of_epoch_milli(obj // 1_000)
