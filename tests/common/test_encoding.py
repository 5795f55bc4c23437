# ruff: noqa: DTZ001 - a naive timestamp is what most programs have
from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings

from millrace.common import DecodingError, Instant, Row, RowKind, TypeMismatchError, Types
from millrace.common.encoding import Codec
from tests.common.typed_values import Reading, batches, typed


@settings(max_examples=150, deadline=None)
@given(typed().flatmap(batches))
def test_what_was_encoded_decodes_to_the_same_values_and_types(case):
    type_info, values = case
    done = type_info.decode_batch(type_info.encode_batch(values))
    assert done == values
    assert list(map(type, done)) == list(map(type, values))
    assert repr(done) == repr(values)


@settings(max_examples=60, deadline=None)
@given(typed().flatmap(batches))
def test_the_same_values_give_the_same_bytes(case):
    type_info, values = case
    copy = pickle.loads(pickle.dumps(values))
    assert pickle.loads(pickle.dumps(type_info)).encode_batch(copy) == type_info.encode_batch(values)


def test_bytes_of_typed_values_are_plain_msgpack():
    data = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INSTANT()]).encode_batch(
        [Row("x", Instant(1, 999_999_999)), Row.of_kind(RowKind.DELETE, None, None)]
    )
    assert msgspec.msgpack.decode(data) == [[[0, None], "x", [1, 999_999_999]], [[3, None], None, None]]


def test_a_named_row_of_its_type_needs_no_names_in_its_bytes():
    info = Types.ROW_NAMED(["a"], [Types.LONG()])
    assert msgspec.msgpack.decode(info.encode_batch(info.coerce_batch([Row(7)]))) == [[0, 7]]


def test_the_format_does_not_change_between_releases():
    info = Types.TUPLE([Types.STRING(), Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_TIMESTAMP(), Types.DOUBLE()])
    data = info.encode_batch([("a", 2**64, Decimal("1.50"), datetime(2024, 2, 29, 1, 2, 3, 4), 0.5)])
    assert data.hex() == (
        "9195a161c70901010000000000000000a4312e3530ba323032342d30322d32395430313a30323a30332e303030303034cb3fe0000000000000"
    )


def test_a_string_that_utf8_cannot_hold_survives():
    info = Types.TUPLE([Types.STRING(), Types.MAP(Types.STRING(), Types.STRING())])
    values = [("\ud800 back\\slash é", {"\udfff": "x"})]
    data = info.encode_batch(values)
    assert data[0] == 0xC1
    assert info.decode_batch(data) == values


def test_a_map_keeps_its_order_through_bytes():
    info = Types.MAP(Types.STRING(), Types.LONG())
    assert list(info.decode_batch(info.encode_batch([{"b": 1, "a": 2}]))[0]) == ["b", "a"]


def test_the_zone_of_a_timestamp_keeps_its_offset():
    at = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert Types.SQL_TIMESTAMP().decode_batch(Types.SQL_TIMESTAMP().encode_batch([at]))[0].utcoffset() == timedelta(
        hours=2
    )


def test_only_pickled_types_unpickle():
    info = Types.LIST(Types.STRING())
    with pytest.raises(DecodingError, match=r"bytes that should hold LIST\(STRING\) do not"):
        info.decode_batch(Types.PICKLED_BYTE_ARRAY().encode_batch([{"a": 1}]))


def test_bytes_of_another_type_are_refused_with_an_action():
    with pytest.raises(DecodingError, match=r"\[MR-1008\].*\nAction: Was the type changed"):
        Types.LONG().decode_batch(Types.STRING().encode_batch(["a"]))


def test_an_enum_member_that_is_gone_is_refused():
    info = Types.DATACLASS(Reading)
    with pytest.raises(DecodingError):
        info.decode_batch(msgspec.msgpack.encode([["s", 1.0, None, "2024-01-01T00:00:00", "BLUE", None, 0.0]]))


def test_encoding_a_value_that_does_not_fit_names_the_field():
    info = Types.TUPLE([Types.STRING(), Types.SQL_DATE()])
    with pytest.raises(TypeMismatchError, match="field 'f1': expected SQL_DATE, got str 'x'"):
        info.encode_batch([("a", "x")])


def test_a_codec_pickles_and_encodes_single_values():
    codec = pickle.loads(pickle.dumps(Codec(Types.LONG())))
    assert codec.decode(codec.encode(5)) == 5


def test_a_pickle_of_a_class_that_is_gone_is_refused():
    with pytest.raises(DecodingError, match="bytes that should hold PICKLED_BYTE_ARRAY do not"):
        Types.PICKLED_BYTE_ARRAY().decode_batch(msgspec.msgpack.encode([b"cno_such_module\nThing\n."]))
