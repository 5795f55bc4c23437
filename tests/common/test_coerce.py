# ruff: noqa: DTZ001 - a naive timestamp is what most programs have
from __future__ import annotations

import array
import copy
import math
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from millrace.common import Row, RowKind, TypeMismatchError, Types
from tests.common.typed_values import Colour, Inner, Reading, batches, typed

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


@settings(max_examples=150, deadline=None)
@given(typed().flatmap(batches))
def test_values_that_fit_pass_unchanged_and_without_a_copy(case):
    type_info, values = case
    before = repr(values)
    assert type_info.coerce_batch(values) is values
    assert repr(values) == before


@settings(max_examples=100, deadline=None)
@given(typed().flatmap(batches))
def test_one_by_one_gives_what_the_batch_gives(case):
    type_info, values = case
    assert [type_info.coerce(value) for value in values] == type_info.coerce_batch(values)


@settings(max_examples=60, deadline=None)
@given(typed().flatmap(batches))
def test_a_value_of_a_strange_type_is_found_wherever_it_is(case):
    type_info, values = case
    if type_info == Types.PICKLED_BYTE_ARRAY():
        return
    with pytest.raises(TypeMismatchError) as caught:
        type_info.coerce_batch([*values, object()])
    assert caught.value.index == len(values)


@pytest.mark.parametrize(
    ("type_info", "given_", "expected"),
    [
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.FLOAT(), 1, 1.0),
        (Types.FLOAT(), 1e300, math.inf),
        (Types.DOUBLE(), 2, 2.0),
        (Types.DOUBLE(), np.float64(0.5), 0.5),
        (Types.DOUBLE(), np.int64(3), 3.0),
        (Types.LONG(), np.int64(3), 3),
        (Types.BOOLEAN(), np.bool_(True), True),
        (Types.STRING(), np.str_("x"), "x"),
        (Types.INT(), IntEnum("E", "A").A, 1),
        (Types.BIG_DEC(), 3, Decimal(3)),
        (Types.SQL_TIMESTAMP(), pd.Timestamp("2024-01-01"), datetime(2024, 1, 1)),
        (Types.SQL_DATE(), np.datetime64("2024-01-01"), date(2024, 1, 1)),
        (BYTES, bytearray(b"ab"), b"ab"),
        (BYTES, memoryview(b"ab"), b"ab"),
        (BYTES, [1, -1], b"\x01\xff"),
        (Types.LIST(Types.DOUBLE()), (1, None), [1.0, None]),
        (Types.LIST(Types.LONG()), np.array([1, 2]), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), array.array("i", [1]), [1]),
        (Types.MAP(Types.FLOAT(), Types.DOUBLE()), {1: 2}, {1.0: 2.0}),
        (Types.TUPLE([Types.DOUBLE(), Types.STRING()]), [1, "a"], (1.0, "a")),
        (Types.TUPLE([Types.DOUBLE()]), Row(1), (1.0,)),
        (Types.ROW([Types.DOUBLE()]), (1,), Row(1.0)),
        (Types.ROW_NAMED(["b", "a"], [Types.LONG(), Types.LONG()]), {"a": 1}, Row("b", "a")(None, 1)),
        (Types.ROW_NAMED(["b", "a"], [Types.LONG(), Types.LONG()]), Row(a=1, b=2), Row("b", "a")(2, 1)),
    ],
)
def test_near_types_become_the_declared_one(type_info, given_, expected):
    done = type_info.coerce_batch([given_])
    assert done == [expected]
    assert type(done[0]) is type(expected)
    assert type_info.coerce(given_) == expected
    assert type_info.coerce_batch(done) == done


@pytest.mark.parametrize(
    ("type_info", "value", "path", "message"),
    [
        (Types.FLOAT(), "abc", "", "expected FLOAT, got str 'abc'"),
        (Types.FLOAT(), 10**400, "", "(too large)"),
        (Types.DOUBLE(), 10**400, "", "(too large)"),
        (Types.INT(), 1.0, "", "expected INT, got float 1.0"),
        (Types.INT(), True, "", "expected INT, got bool True"),
        (Types.DOUBLE(), True, "", "expected DOUBLE, got bool True"),
        (Types.LONG(), None, "", "expected LONG, got None"),
        (Types.BYTE(), 128, "", "expected BYTE, got int 128 (out of range -128..127)"),
        (Types.SHORT(), -32769, "", "(out of range -32768..32767)"),
        (Types.INT(), 2**31, "", "(out of range -2147483648..2147483647)"),
        (Types.LONG(), 2**63, "", "(out of range -9223372036854775808..9223372036854775807)"),
        (Types.CHAR(), "ab", "", "expected CHAR, got str 'ab' (not one character)"),
        (Types.BIG_DEC(), 0.5, "", "expected BIG_DEC, got float 0.5"),
        (Types.SQL_DATE(), datetime(2024, 1, 1), "", "expected SQL_DATE, got datetime"),
        (Types.SQL_TIME(), "1:00", "", "expected SQL_TIME, got str '1:00'"),
        (Types.SQL_TIMESTAMP(), date(2024, 1, 1), "", "expected SQL_TIMESTAMP, got date"),
        (Types.STRING(), b"x", "", "expected STRING, got bytes b'x'"),
        (Types.ENUM(Colour), "RED", "", "expected ENUM(Colour), got str 'RED'"),
        (BYTES, "x", "", "expected PRIMITIVE_ARRAY(BYTE), got str 'x'"),
        (BYTES, [300], "[0]", "field '[0]': expected BYTE, got int 300"),
        (Types.LIST(Types.LONG()), {1}, "", "expected LIST(LONG), got set {1}"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [None], "[0]", "field '[0]': expected INT, got None"),
        (Types.MAP(Types.STRING(), Types.LONG()), [], "", "expected MAP(STRING, LONG), got list []"),
        (
            Types.MAP(Types.STRING(), Types.LONG()),
            {"a": "b"},
            "['a']",
            "field '['a']': expected LONG, got str 'b'",
        ),
        (Types.MAP(Types.STRING(), Types.LONG()), {1: 2}, "[key 1]", "expected STRING, got int 1"),
        (Types.TUPLE([Types.LONG()]), 5, "", "expected TUPLE(LONG), got int 5"),
        (
            Types.TUPLE([Types.LONG()]),
            (1, 2),
            "",
            "expected TUPLE(LONG), got tuple (1, 2) (2 fields instead of 1)",
        ),
        (Types.ROW([Types.LONG()]), 5, "", "expected ROW(LONG), got int 5"),
        (Types.ROW([Types.LONG()]), Row(1, 2), "", "(2 fields instead of 1)"),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), {"b": 1}, "", "(unknown field 'b')"),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(b=1), "", "(unknown field 'b')"),
        (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()]), Row(b=1), "", "(missing field 'a')"),
        (Types.DATACLASS(Inner), {}, "", "expected DATACLASS(Inner), got dict {}"),
        (
            Types.DATACLASS(Inner),
            Inner(["a", 1], {}),
            "tags[1]",
            "field 'tags[1]': expected STRING, got int 1",
        ),
        (Types.DATACLASS(Inner), Inner(None, {}), "tags", "field 'tags': expected LIST(STRING), got None"),
        (
            Types.TUPLE([Types.STRING(), Types.ROW_NAMED(["name"], [Types.LIST(Types.LONG())])]),
            ("a", Row([1, 2, 3, "x"])),
            "f1.name[3]",
            "field 'f1.name[3]': expected LONG, got str 'x'",
        ),
    ],
)
def test_a_value_that_does_not_fit_says_where_and_why(type_info, value, path, message):
    with pytest.raises(TypeMismatchError) as alone:
        type_info.coerce(value)
    with pytest.raises(TypeMismatchError) as batched:
        type_info.coerce_batch([value])
    for error in (alone.value, batched.value):
        assert error.path == path
        assert message in str(error)
        assert error.code == "MR-1002"
    assert alone.value.index is None
    assert batched.value.index == 0


def test_rows_and_dataclasses_are_never_changed_in_place():
    row, reading = (
        Row(a=1),
        Reading("s", 1, None, datetime(2024, 1, 1), Colour.RED, Inner(["t"], {"w": 1}), 0.1),
    )
    assert Types.ROW_NAMED(["a"], [Types.DOUBLE()]).coerce_batch([row])[0]["a"] == 1.0
    before = copy.deepcopy(reading)
    done = Types.DATACLASS(Reading).coerce_batch([reading])[0]
    assert repr(reading) == repr(before)
    assert isinstance(row["a"], int)
    assert (repr(done.value), done.inner.weights, done.small) == ("1.0", {"w": 1.0}, 0.10000000149011612)


def test_a_dataclass_keeps_what_is_not_a_field():
    @dataclass
    class WithMore:
        x: float

    value = WithMore(1)
    value.note = "kept"  # type: ignore[attr-defined]
    assert Types.DATACLASS(WithMore).coerce(value).note == "kept"  # type: ignore[attr-defined]


def test_a_subclass_of_a_dataclass_is_another_type():
    class Sub(Inner):
        pass

    with pytest.raises(TypeMismatchError, match="a subclass is another type"):
        Types.DATACLASS(Inner).coerce(Sub([], {}))


def test_a_dataclass_field_that_was_never_set_is_named():
    info = Types.DATACLASS(Reading)
    with pytest.raises(TypeMismatchError, match="field 'sensor' was never set"):
        info.coerce_batch([Reading.__new__(Reading)])


def test_a_row_keeps_its_kind_when_it_takes_the_names_of_its_type():
    info = Types.ROW_NAMED(["a"], [Types.LONG()])
    done = info.coerce_batch([Row.of_kind(RowKind.DELETE, 1)])
    assert done[0].get_row_kind() is RowKind.DELETE
    assert done[0].a == 1


def test_rows_without_declared_names_keep_their_own():
    rows = [Row(1), Row(x=2)]
    assert Types.ROW([Types.LONG()]).coerce_batch(rows) is rows


def test_none_at_the_top_is_an_error_and_inside_is_not():
    info = Types.TUPLE([Types.LONG(), Types.STRING()])
    assert info.coerce_batch([(None, None)]) == [(None, None)]
    with pytest.raises(TypeMismatchError) as caught:
        info.coerce_batch([(1, "a"), None])
    assert caught.value.index == 1


def test_none_among_values_that_change_stays_in_place():
    assert Types.LIST(Types.DOUBLE()).coerce_batch([[None, 1, None, 2.5]]) == [[None, 1.0, None, 2.5]]


def test_pickled_takes_anything():
    values = [None, object(), {1}]
    assert Types.PICKLED_BYTE_ARRAY().coerce_batch(values) is values
    assert Types.PICKLED_BYTE_ARRAY().coerce(None) is None


def test_an_empty_batch_fits_everything():
    empty: list[object] = []
    assert Types.TUPLE([Types.LONG()]).coerce_batch(empty) is empty


def test_a_time_subclass_becomes_a_time():
    class Sub(time):
        pass

    assert type(Types.SQL_TIME().coerce(Sub(1, 2))) is time
