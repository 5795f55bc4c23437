from __future__ import annotations

import copy
import pickle

import pytest

from millrace.common import ProgramError, Row, RowKind


def test_a_row_is_reached_by_position_name_and_attribute():
    row = Row(name="Alice", age=11)
    assert (row[0], row["age"], row.age, row[-1], row[:]) == (11, 11, 11, "Alice", [11, "Alice"])
    assert list(row) == [11, "Alice"]
    assert len(row) == 2
    assert "Alice" in row
    row["age"] = 12
    row[1] = "Bob"
    assert row == Row(name="Bob", age=12)


def test_reprs_are_pyflinks():
    assert repr(Row(name="Alice", age=11)) == "Row(age=11, name='Alice')"
    assert repr(Row(1, "a")) == "<Row(1, 'a')>"
    assert repr(Row("name", "age")) == "<Row('name', 'age')>"


def test_a_row_class_makes_rows_with_its_names():
    person = Row("name", "age")
    assert person("x", 1).as_dict() == {"name": "x", "age": 1}
    assert "name" in person


def test_rows_are_equal_when_values_names_and_kind_are():
    assert Row(1) == Row(1)
    assert Row(1) != Row(a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)
    assert Row(1) != (1,)
    assert hash(Row(1)) == hash(Row(1))


def test_a_row_survives_pickling_and_copying_with_its_kind_and_names():
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1, b=[2])
    for other in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert other == row
        assert other is not row
    shallow = copy.copy(row)
    shallow[0] = 5
    assert row[0] == 1


def test_kinds_and_names_can_be_set():
    row = Row(1, 2)
    row.set_row_kind(RowKind.UPDATE_BEFORE)
    row.set_field_names(["a", "b"])
    assert (row.get_row_kind(), row.b) == (RowKind.UPDATE_BEFORE, 2)
    assert row._is_retract_msg()
    assert not row._is_accumulate_msg()
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    assert row.get_fields_by_names(["a", "b"]) == [1, 2]
    assert Row(1).get_fields_by_names(["x"]) == [1]


def test_as_dict_goes_down_when_asked():
    row = Row(key=1, value=Row(a=2), more=[Row(b=3)], by={"k": Row(c=4)})
    assert row.as_dict(True) == {"key": 1, "value": {"a": 2}, "more": [{"b": 3}], "by": {"k": {"c": 4}}}
    assert row.as_dict()["value"] == Row(a=2)


def test_mistakes_with_rows_are_named():
    with pytest.raises(ProgramError, match="either values or named values, not both"):
        Row(1, a=2)
    with pytest.raises(ProgramError, match="makes rows of 1 values, but got 2"):
        Row("a")(1, 2)
    with pytest.raises(ProgramError, match="the row has no field 'x'; it has 'a'"):
        Row(a=1).get_fields_by_names(["x"])
    with pytest.raises(AttributeError, match="the row has no field 'x'; it has the fields 'a'"):
        _ = Row(a=1).x
    with pytest.raises(AttributeError, match="it has no names"):
        _ = Row(1).x
    with pytest.raises(KeyError):
        _ = Row(a=1)["x"]
    with pytest.raises(KeyError):
        Row(1)["x"] = 1
    with pytest.raises(AttributeError):
        Row(a=1).a = 2
    with pytest.raises(TypeError, match="Cannot convert a Row without field names"):
        Row(1).as_dict()
