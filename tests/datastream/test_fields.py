"""Keys and rolling aggregations over every kind of record."""

import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from millrace.common import Row, Types
from millrace.datastream import KeySelector
from millrace.datastream._fields import get_field, key_selector, with_field
from millrace.datastream._rolling import Projection, RollingExtreme, RollingSum


@dataclass
class Reading:
    sensor: str
    value: float


@dataclass
class Wrapped:
    reading: Reading


class Pair(NamedTuple):
    name: str
    size: int


class BySensor(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value.sensor


READING = Types.DATACLASS(Reading)
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["name", "size"], [Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("selector", "record_type", "record", "key"),
    [
        (lambda record: record * 2, None, 3, 6),
        (BySensor(), None, Reading("s", 1.0), "s"),
        (1, None, ("a", 7), 7),
        (1, PAIR, ("a", 7), 7),
        (-1, PAIR, ("a", 7), 7),
        ("f1", None, ("a", 7), 7),
        ("f1", PAIR, ("a", 7), 7),
        ("name", NAMED, Row(name="a", size=1), "a"),
        ("name", None, Row(name="a", size=1), "a"),
        ("name", None, {"name": "a"}, "a"),
        ("name", None, Pair("a", 1), "a"),
        ("sensor", READING, Reading("s", 1.0), "s"),
        ("sensor", None, Reading("s", 1.0), "s"),
        ("reading.sensor", None, Wrapped(Reading("s", 1.0)), "s"),
        ("user.f0", None, {"user": ("ann", 1)}, "ann"),
        (("name", "size"), NAMED, Row(name="a", size=1), ("a", 1)),
    ],
)
def test_a_key_is_found_and_its_selector_can_be_shipped(selector: Any, record_type: Any, record: Any, key: Any) -> None:
    found = key_selector(selector, record_type)
    assert found(record) == key
    if getattr(selector, "__name__", "") != "<lambda>":
        assert pickle.loads(pickle.dumps(found))(record) == key


def test_a_row_of_a_known_type_is_read_in_c() -> None:
    assert type(key_selector("size", NAMED)).__name__ == "itemgetter"
    assert type(key_selector("sensor", READING)).__name__ == "attrgetter"


def test_a_field_that_is_not_there_is_named_with_the_record() -> None:
    with pytest.raises(KeyError, match="no field 'size' in"):
        get_field(("a",), "size")


RECORDS = [
    (("a", 1), 1, ("a", 9)),
    (["a", 1], 1, ["a", 9]),
    (("a", 1), "f1", ("a", 9)),
    (Row("a", 1), 1, Row("a", 9)),
    (Row(name="a", size=1), "size", Row(name="a", size=9)),
    ({"name": "a", "size": 1}, "size", {"name": "a", "size": 9}),
    (Reading("a", 1), "value", Reading("a", 9)),
    (Reading("a", 1), 1, Reading("a", 9)),
    (Pair("a", 1), "size", Pair("a", 9)),
    (1, 0, 9),
]


@pytest.mark.parametrize(("record", "field", "changed"), RECORDS)
def test_a_field_is_replaced_in_a_copy(record: Any, field: Any, changed: Any) -> None:
    before = pickle.dumps(record)
    found = with_field(record, field, 9)
    assert found == changed
    assert type(found) is type(record)
    assert pickle.dumps(record) == before
    assert get_field(found, field) == 9


@pytest.mark.parametrize(("record", "field", "changed"), RECORDS)
def test_a_sum_keeps_the_other_fields_of_the_first_record(record: Any, field: Any, changed: Any) -> None:
    assert RollingSum(field).reduce(record, with_field(record, field, 8)) == changed


def test_min_and_max_keep_the_first_records_other_fields() -> None:
    assert RollingExtreme(1, greatest=True, whole=False).reduce(("a", 1), ("b", 2)) == ("a", 2)
    assert RollingExtreme(1, greatest=False, whole=False).reduce(("a", 1), ("b", 2)) == ("a", 1)


def test_min_by_and_max_by_give_the_whole_record_and_the_first_of_equals() -> None:
    assert RollingExtreme(1, greatest=True, whole=True).reduce(("a", 1), ("b", 2)) == ("b", 2)
    assert RollingExtreme(1, greatest=True, whole=True).reduce(("a", 1), ("b", 1)) == ("a", 1)
    assert RollingExtreme(1, greatest=False, whole=True).reduce(("a", 1), ("b", 1)) == ("a", 1)


def test_a_projected_row_keeps_its_names() -> None:
    assert Projection((1,)).map(Row(name="a", size=1)) == Row(size=1)
    assert Projection((1, 0)).map(Row("a", 1)) == Row(1, "a")
