# ruff: noqa: DTZ001 - a naive timestamp is what most programs have
from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, NewType

import pytest
from hypothesis import given, settings

from millrace.common import DecodingError, Instant, ProgramError, Row, RowKind, TypeMismatchError, Types
from millrace.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    annotation_type_info,
    infer_type_info,
    type_from_json,
    type_to_json,
)
from tests.common.typed_values import LEAVES, Colour, Inner, Reading, typed

UserId = NewType("UserId", int)


@dataclass
class Node:
    name: str
    next: Node | None


@settings(max_examples=80, deadline=None)
@given(typed())
def test_a_type_survives_json_and_pickle(case):
    type_info = case[0]
    described = json.loads(json.dumps(type_to_json(type_info)))
    for copy in (type_from_json(described), pickle.loads(pickle.dumps(type_info))):
        assert copy == type_info
        assert hash(copy) == hash(type_info)
        assert repr(copy) == repr(type_info)


def test_different_types_are_different():
    kinds = [kind for kind, _values in LEAVES]
    assert len(set(kinds)) == len(kinds)
    assert len({repr(kind) + kind.describe() for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    ("type_info", "pyflink", "java"),
    [
        (Types.INT(), "Integer", "Integer"),
        (Types.SQL_DATE(), "DateTypeInfo", "Date"),
        (Types.SQL_TIMESTAMP(), "TimestampTypeInfo", "Timestamp"),
        (Types.LIST(Types.INT()), "ListTypeInfo<Integer>", "List<Integer>"),
        (Types.MAP(Types.STRING(), Types.LONG()), "MapTypeInfo<String, Long>", "Map<String, Long>"),
        (
            Types.TUPLE([Types.STRING(), Types.INT()]),
            "TupleTypeInfo(String, Integer)",
            "Tuple(String, Integer)",
        ),
        (Types.ROW([Types.STRING()]), "RowTypeInfo(String)", "Row(String)"),
        (Types.ROW_NAMED(["a"], [Types.STRING()]), "RowTypeInfo(a: String)", "Row(a: String)"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "PrimitiveArrayTypeInfo<Integer>", "Integer[]"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>", "String[]"),
        (Types.OBJECT_ARRAY(Types.SQL_DATE()), "ObjectArrayTypeInfo<DateTypeInfo>", "ObjectArray<Date>"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo", "PickledByteArrayTypeInfo"),
        (Types.ENUM(Colour), "Enum<Colour>", "Enum<Colour>"),
        (Types.POJO(Inner), *["Inner(tags: List<String>, weights: Map<String, Double>)"] * 2),
    ],
)
def test_str_is_pyflinks_and_repr_is_javas(type_info, pyflink, java):
    assert (str(type_info), repr(type_info)) == (pyflink, java)


def test_row_type_answers_about_its_fields():
    named = RowTypeInfo([Types.STRING(), Types.INT()], ["a", "b"])
    assert named.get_field_names() == ["a", "b"]
    assert named.get_field_types() == [Types.STRING(), Types.INT()]
    assert (named.get_field_index("b"), named.get_field_index("c")) == (1, -1)
    assert RowTypeInfo([Types.STRING(), Types.STRING()]).get_field_names() == ["f0", "f1"]
    assert TupleTypeInfo([Types.CHAR()]).get_arity() == 1
    assert ListTypeInfo(Types.LONG()).elem_type == Types.LONG()


def test_annotations_of_a_dataclass_become_types():
    info = Types.DATACLASS(Reading)
    assert repr(info) == (
        "Reading(sensor: String, value: Double, count: Long?, at: Timestamp, colour: Enum<Colour>, "
        "inner: Inner(tags: List<String>, weights: Map<String, Double>)?, small: Float)"
    )
    assert info.get_optional_fields() == ["count", "inner"]
    assert info.get_field_names()[0] == "sensor"
    assert info.get_field_types()[0] == Types.STRING()


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, Types.BOOLEAN()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (UserId, Types.LONG()),
        (int | None, Types.LONG()),
        (Annotated[list[float], "m"], Types.LIST(Types.DOUBLE())),
        (tuple[int, str], Types.TUPLE([Types.LONG(), Types.STRING()])),
        (tuple[int, ...], Types.PICKLED_BYTE_ARRAY()),
        (set[int], Types.PICKLED_BYTE_ARRAY()),
        (int | str, Types.PICKLED_BYTE_ARRAY()),
        (list, Types.PICKLED_BYTE_ARRAY()),
        (Any, Types.PICKLED_BYTE_ARRAY()),
        (Instant, Types.INSTANT()),
    ],
)
def test_an_annotation_becomes_the_type_that_holds_all_its_values(annotation, expected):
    assert annotation_type_info(annotation) == expected


def test_a_dataclass_inside_itself_is_pickled():
    info = Types.DATACLASS(Node)
    assert info.get_field_types()[1] == Types.PICKLED_BYTE_ARRAY()
    assert info.uses_pickle()
    nodes = [Node("a", Node("b", None))]
    assert info.decode_batch(info.encode_batch(nodes)) == nodes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, Types.BOOLEAN()),
        (5, Types.LONG()),
        (2**63, Types.BIG_INT()),
        (Decimal(1), Types.BIG_DEC()),
        (b"x", Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (("a", [1.5]), Types.TUPLE([Types.STRING(), Types.LIST(Types.DOUBLE())])),
        (Row(1), Types.ROW([Types.LONG()])),
        (Row(a=1), Types.ROW_NAMED(["a"], [Types.LONG()])),
        ({"a": time(1)}, Types.MAP(Types.STRING(), Types.SQL_TIME())),
        (Colour.RED, Types.ENUM(Colour)),
        (Inner([], {}), Types.DATACLASS(Inner)),
        (None, None),
        ([], None),
        ({}, None),
        ([1, "a"], None),
        ((1, None), None),
        (object(), None),
        (Inner, None),
    ],
)
def test_the_type_of_a_value_is_inferred(value, expected):
    assert infer_type_info(value) == expected


def test_internal_forms_are_pyflinks():
    assert Types.SQL_DATE().from_internal_type(Types.SQL_DATE().to_internal_type(date(2024, 2, 29))) == date(
        2024, 2, 29
    )
    at, aware = datetime(2024, 1, 1, 0, 0, 0, 7), datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=-1)))
    assert Types.SQL_TIMESTAMP().from_internal_type(Types.SQL_TIMESTAMP().to_internal_type(at)) == at
    assert Types.SQL_TIMESTAMP().to_internal_type(aware) == 3_600_000_000
    assert Types.SQL_TIME().to_internal_type(time(0, 0, 1, tzinfo=UTC)) == 1_000_000
    assert Types.SQL_TIME().from_internal_type(1_000_000) == time(0, 0, 1)
    assert Types.INSTANT().from_internal_type(Types.INSTANT().to_internal_type(Instant(1, 0))) == Instant(1, 0)
    row = Types.ROW_NAMED(["a", "b"], [Types.SQL_DATE(), Types.LONG()])
    expected = (0, 1, 5)
    day = date(1970, 1, 2)
    for given_ in (
        Row(day, 5),
        Row(a=day, b=5),
        {"a": day, "b": 5},
        (day, 5),
        type("O", (), {"a": day, "b": 5})(),
    ):
        if hasattr(given_, "__dict__") and not isinstance(given_, Row):
            given_.a, given_.b = day, 5
        assert row.to_internal_type(given_) == expected
    assert row.to_internal_type(Row.of_kind(RowKind.DELETE, day, 5)) == (3, 1, 5)
    assert Types.TUPLE([Types.SQL_DATE()]).to_internal_type((day,)) == (1,)
    assert row.from_internal_type((1,)) == (1,)
    assert not Types.LONG().need_conversion()
    assert row.need_conversion()
    for info in (row, Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT()):
        assert info.to_internal_type(None) is None
        assert info.from_internal_type(None) is None
    with pytest.raises(TypeMismatchError):
        row.to_internal_type(5)
    with pytest.raises(TypeMismatchError):
        Types.TUPLE([Types.LONG()]).to_internal_type(5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Types.ROW([Types.STRING]),
            r"the type of field 0 is .*, which is no type information\nAction: Call it",
        ),
        (lambda: Types.ROW_NAMED(["a"], []), "a row type has 1 names for 0 types"),
        (lambda: Types.ROW_NAMED(["a", "a"], [Types.LONG()] * 2), "a row type has a field name twice: a, a"),
        (lambda: Types.PRIMITIVE_ARRAY(Types.STRING()), "a PRIMITIVE_ARRAY cannot have elements of STRING"),
        (
            lambda: BasicArrayTypeInfo(Types.SQL_DATE()),
            "a BASIC_ARRAY cannot have elements of SQL_DATE\nAction: Take one",
        ),
        (
            lambda: Types.DATACLASS(int),
            "Types.DATACLASS needs a dataclass, got <class 'int'>\nAction: Decorate",
        ),
        (lambda: Types.ENUM(int), "Types.ENUM needs a subclass of enum.Enum, got <class 'int'>"),  # type: ignore[arg-type]
    ],
)
def test_a_type_that_makes_no_sense_is_refused(build, message):
    with pytest.raises(ProgramError, match=message):
        build()


def test_an_annotation_that_cannot_be_resolved_is_named():
    @dataclass
    class Bad:
        x: Missing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ProgramError, match=r"an annotation of .*Bad cannot be resolved: name 'Missing'"):
        Types.DATACLASS(Bad)


def test_a_local_class_can_be_described_but_not_read_back():
    @dataclass
    class Local:
        x: int

    with pytest.raises(
        ProgramError, match=r"<locals>.Local, which a type names, cannot be imported.*\nAction: Define it"
    ):
        type_from_json(type_to_json(Types.DATACLASS(Local)))


def test_descriptions_can_be_read_without_importing():
    described = type_to_json(Types.DATACLASS(Inner))
    assert type_from_json(described, lambda _module, _name: Inner) == Types.DATACLASS(Inner)


def test_a_description_of_something_else_is_refused():
    with pytest.raises(DecodingError, match="no type is called 'MONEY'"):
        type_from_json({"type": "MONEY"})
    with pytest.raises(ProgramError, match="names as a class, is"):
        type_from_json({"type": "ENUM", "module": "os", "qualname": "getcwd"})
