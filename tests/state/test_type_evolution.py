"""What may change about the type of a state between the program that wrote it and the one that reads it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common import Row, RowKind
from millrace.common.typeinfo import DataclassTypeInfo, TypeInformation, Types
from millrace.state import (
    MapStateDescriptor,
    StateCorruptedError,
    StateError,
    StatePickleError,
    StateTypeError,
    SubtaskState,
    ValueStateDescriptor,
    open_files,
    stable_hash,
)
from millrace.state.codec import ColumnCodec, EncodedColumn, type_of_column
from millrace.state.evolution import compare_types, type_in_words
from millrace.state.hashing import mix


def read_as(old: TypeInformation, new: TypeInformation, values: list[Any], **options: Any) -> list[Any]:
    """Values written as one type and read as another."""
    column = ColumnCodec(old).encode(values)[1]
    return ColumnCodec(new).decode(column, allow_pickle=options.pop("allow_pickle", False), **options)


def version(fields: list[tuple[Any, ...]], name: str = "User", frozen: bool = False) -> type:
    """One version of a dataclass of the program: the name stays, the fields change."""
    cls = make_dataclass(name, fields, frozen=frozen, eq=True)
    cls.__module__ = "program"
    return cls


def refusal(old: TypeInformation, new: TypeInformation, **options: Any) -> tuple[str, str]:
    found = compare_types(old.to_json(), new, **options)
    assert found.verdict == "refused"
    with pytest.raises(StateTypeError) as raised:
        read_as(old, new, [], role="key" if options.get("key") else "value")
    assert raised.value.message == ("the key: " if options.get("key") else "") + found.reason
    return found.reason, found.action


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        (Types.BYTE(), Types.SHORT(), 7, 7),
        (Types.INT(), Types.LONG(), -3, -3),
        (Types.LONG(), Types.BIG_INT(), 2**62, 2**62),
        (Types.INT(), Types.DOUBLE(), 3, 3.0),
        (Types.LONG(), Types.FLOAT(), 3, 3.0),
        (Types.LONG(), Types.BIG_DEC(), 3, Decimal(3)),
        (Types.FLOAT(), Types.DOUBLE(), 0.5, 0.5),
        (Types.CHAR(), Types.STRING(), "a", "a"),
        (Types.LIST(Types.INT()), Types.LIST(Types.DOUBLE()), [1, None], [1.0, None]),
        (Types.BASIC_ARRAY(Types.INT()), Types.LIST(Types.LONG()), [1, None], [1, None]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), Types.PRIMITIVE_ARRAY(Types.LONG()), [1], [1]),
        (Types.MAP(Types.STRING(), Types.INT()), Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1}, {"a": 1.0}),
        (Types.TUPLE([Types.INT(), Types.INT()]), Types.TUPLE([Types.DOUBLE(), Types.INT()]), (1, None), (1.0, None)),
        (Types.ROW([Types.INT()]), Types.ROW_NAMED(["n"], [Types.LONG()]), Row(1), Row(n=1)),
        (Types.ROW_NAMED([], []), Types.ROW_NAMED(["n"], [Types.LONG()]), Row(), Row(n=None)),
    ],
    ids=repr,
)  # fmt: skip
def test_a_safe_change_converts_values(old: TypeInformation, new: TypeInformation, before: Any, after: Any) -> None:
    evolution = compare_types(old.to_json(), new)
    assert evolution.verdict == "safe"
    assert evolution.changes
    (read,) = read_as(old, new, [before])
    assert read == after
    assert type(read) is type(after)
    assert read_as(old, new, [None, before, None]) == [None, after, None]
    assert read_as(old, new, []) == []
    assert new.coerce_batch([read]) == [read]


def wider(leaf: TypeInformation) -> TypeInformation:
    return {Types.INT(): Types.LONG(), Types.LONG(): Types.DOUBLE(), Types.FLOAT(): Types.DOUBLE()}.get(leaf, leaf)


_LEAVES = [
    (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    (Types.LONG(), st.integers(-(2**53), 2**53)),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    (Types.STRING(), st.text(max_size=3)),
]
# (the old type, the new one, values of the old one)
_Case = tuple[TypeInformation, TypeInformation, "st.SearchStrategy[Any]"]


def _nested(cases: st.SearchStrategy[_Case]) -> st.SearchStrategy[_Case]:
    def in_list(case: _Case) -> _Case:
        return Types.LIST(case[0]), Types.LIST(case[1]), st.lists(case[2] | st.none(), max_size=3)

    def in_map(case: _Case) -> _Case:
        entries = st.dictionaries(st.text(max_size=2), case[2] | st.none(), max_size=3)
        return Types.MAP(Types.STRING(), case[0]), Types.MAP(Types.STRING(), case[1]), entries

    def in_tuple(pair: tuple[_Case, _Case]) -> _Case:
        (a, b, first), (c, d, second) = pair
        return Types.TUPLE([a, c]), Types.TUPLE([b, d]), st.tuples(first | st.none(), second | st.none())

    return cases.map(in_list) | cases.map(in_map) | st.tuples(cases, cases).map(in_tuple)


CASES = st.recursive(st.sampled_from([(leaf, wider(leaf), values) for leaf, values in _LEAVES]), _nested, max_leaves=5)


@given(st.data())
def test_whatever_is_inside_of_what_values_stay_equal_and_fit_the_new_type(data: st.DataObject) -> None:
    old, new, values = data.draw(CASES)
    written = old.coerce_batch(data.draw(st.lists(values, max_size=4)))
    assert compare_types(old.to_json(), new).verdict == ("same" if old == new else "safe")
    read = read_as(old, new, written)
    assert read == written
    assert new.coerce_batch(read) is read


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (Types.STRING(), Types.LONG(), "STRING cannot become LONG"),
        (Types.LONG(), Types.STRING(), "LONG cannot become STRING"),
        (Types.LONG(), Types.INT(), "LONG cannot become INT"),
        (Types.DOUBLE(), Types.LONG(), "DOUBLE cannot become LONG"),
        (Types.DOUBLE(), Types.FLOAT(), "DOUBLE cannot become FLOAT"),
        (Types.BIG_INT(), Types.DOUBLE(), "BIG_INT cannot become DOUBLE"),
        (Types.BOOLEAN(), Types.INT(), "BOOLEAN cannot become INT"),
        (Types.SQL_DATE(), Types.SQL_TIMESTAMP(), "SQL_DATE cannot become SQL_TIMESTAMP"),
        (Types.LIST(Types.INT()), Types.MAP(Types.INT(), Types.INT()), "LIST(INT) cannot become MAP(INT, INT)"),
        (Types.LIST(Types.INT()), Types.LIST(Types.STRING()), "field '[]': INT cannot become STRING"),
        (
            Types.LIST(Types.INT()),
            Types.PRIMITIVE_ARRAY(Types.INT()),
            "LIST(INT) cannot become PRIMITIVE_ARRAY(INT), whose elements are never None",
        ),
        (
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.LIST(Types.BYTE()),
            "PRIMITIVE_ARRAY(BYTE) cannot become LIST(BYTE)",
        ),
        (
            Types.MAP(Types.LONG(), Types.INT()),
            Types.MAP(Types.DOUBLE(), Types.INT()),
            "field '[key]': LONG cannot become DOUBLE, for a key must keep its hash, which says where its state is",
        ),
        (
            Types.TUPLE([Types.INT()]),
            Types.TUPLE([Types.INT(), Types.INT()]),
            "TUPLE(INT) cannot become TUPLE(INT, INT): 1 and not 2 fields, and without names none can be told apart",
        ),
        (
            Types.ROW_NAMED(["user"], [Types.ROW_NAMED(["age"], [Types.STRING()])]),
            Types.ROW_NAMED(["user"], [Types.ROW_NAMED(["age"], [Types.INT()])]),
            "field 'user.age': STRING cannot become INT",
        ),
    ],
    ids=repr,
)
def test_an_unsafe_change_is_refused_in_words(old: TypeInformation, new: TypeInformation, reason: str) -> None:
    assert refusal(old, new)[0] == reason


def test_fields_of_a_row_are_told_by_name() -> None:
    old = Types.ROW_NAMED(["a", "b", "c"], [Types.INT(), Types.STRING(), Types.INT()])
    new = Types.ROW_NAMED(["c", "d", "a"], [Types.LONG(), Types.STRING(), Types.INT()])
    deleted = Row.of_kind(RowKind.DELETE, 1, "x", 3)
    (read,) = read_as(old, new, [deleted])
    assert (read._fields, list(read), read.get_row_kind()) == (("c", "d", "a"), [3, None, 1], RowKind.DELETE)
    assert compare_types(old.to_json(), new).changes == (
        "field 'd': added",
        "field 'b': removed",
        "its fields are in another order",
        "field 'c': INT becomes LONG",
    )


def test_fields_of_a_dataclass_come_and_go_with_defaults() -> None:
    old = version([("name", str), ("age", int), ("gone", float)])
    new = version([
        ("age", float), ("name", str | None), ("tags", list[str], field(default_factory=list)),
        ("score", float, field(default=1)), ("note", str | None, field(default=None)),
    ])  # fmt: skip
    (read,) = read_as(Types.DATACLASS(old), Types.DATACLASS(new), [old("a", 3, 0.5)])
    assert read == new(3.0, "a", [], 1.0, None)
    assert type(read.score) is float
    inside = read_as(Types.LIST(Types.DATACLASS(old)), Types.LIST(Types.DATACLASS(new)), [[old("a", 3, 0.5)] * 2])
    assert inside == [[new(3.0, "a", [], 1.0, None)] * 2]
    assert inside[0][0].tags is not inside[0][1].tags


def test_a_new_field_that_may_be_none_needs_no_default() -> None:
    new = version([("name", str), ("note", str | None)])
    old = version([("name", str)])
    assert read_as(Types.DATACLASS(old), Types.DATACLASS(new), [old("a")]) == [new("a", None)]


def test_a_new_field_without_a_default_is_refused() -> None:
    old, new = version([("name", str)]), version([("name", str), ("age", int)])
    assert refusal(Types.DATACLASS(old), Types.DATACLASS(new)) == (
        "field 'age': it is new, has no default and cannot be None, so that older values have nothing for it",
        "Give the field 'age' a default.",
    )


def test_a_field_that_may_no_longer_be_none_is_refused() -> None:
    old, new = version([("name", str | None)]), version([("name", str)])
    reason, action = refusal(Types.LIST(Types.DATACLASS(old)), Types.LIST(Types.DATACLASS(new)))
    assert reason == "field '[].name': it could be None, and is now declared so that it cannot"
    assert action.startswith("Declare 'name' as `... | None`")


def test_a_dataclass_under_another_name_is_refused() -> None:
    old, new = version([("name", str)]), version([("name", str)], "Customer")
    assert refusal(Types.DATACLASS(old), Types.DATACLASS(new)) == (
        "it was of the class program.User, and is now of the class program.Customer",
        "Keep the class under its name: User in the module program.",
    )


def test_an_unchanged_dataclass_beside_a_changed_field_is_the_programs_own_class() -> None:
    user = version([("name", str)])
    old = Types.ROW_NAMED(["user"], [Types.DATACLASS(user)])
    new = Types.ROW_NAMED(["user", "n"], [Types.DATACLASS(user), Types.LONG()])
    (read,) = read_as(old, new, [Row(user=user("a"))])
    assert type(read.user) is user


def test_a_removed_field_needs_no_class_any_more() -> None:
    old = Types.ROW_NAMED(["user", "n"], [Types.DATACLASS(version([("name", str)])), Types.LONG()])
    row = Row(n=1, user=version([("name", str)])("a"))
    old_type = old.get_field_types()[0]
    assert isinstance(old_type, DataclassTypeInfo)
    row["user"] = old_type.cls("a")
    assert read_as(old, Types.ROW_NAMED(["n"], [Types.LONG()]), [row]) == [Row(n=1)]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Text(enum.StrEnum):
    YES = "y"


def enum_version(kind: Any, members: dict[str, Any], name: str = "Color") -> Any:
    return kind(name, members, module=__name__, qualname=name)


def test_members_of_an_enum_are_added_and_reordered_but_not_removed() -> None:
    more = enum_version(enum.Enum, {"BLUE": 1, "GREEN": 2, "RED": 3})
    assert read_as(Types.ENUM(Color), Types.ENUM(more), [Color.RED, Color.BLUE]) == [more.RED, more.BLUE]
    assert compare_types(Types.ENUM(Color).to_json(), Types.ENUM(more)).changes == ("members added: GREEN",)
    assert refusal(Types.ENUM(more), Types.ENUM(Color))[0] == "its members GREEN are gone"


def test_an_enum_of_strings_keeps_its_values_as_a_key() -> None:
    other = enum_version(enum.StrEnum, {"YES": "yes"}, "Text")
    assert read_as(Types.ENUM(Text), Types.ENUM(other), [Text.YES]) == [other.YES]
    assert "compared by" in refusal(Types.ENUM(Text), Types.ENUM(other), key=True)[0]
    assert read_as(Types.ENUM(Text), Types.ENUM(Text), [Text.YES]) == [Text.YES]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Types.INT(), Types.DOUBLE()),
        (Types.LONG(), Types.DOUBLE()),
        (Types.FLOAT(), Types.DOUBLE()),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])),
        (
            Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]),
            Types.ROW_NAMED(["b", "a"], [Types.INT(), Types.INT()]),
        ),
        (Types.DATACLASS(version([("a", int)])), Types.DATACLASS(version([("a", int), ("b", int, field(default=0))]))),
        (
            Types.DATACLASS(version([("a", int)], frozen=True)),
            Types.DATACLASS(version([("a", int, field(compare=False))], frozen=True)),
        ),
    ],
    ids=repr,
)
def test_what_would_change_the_hash_of_a_key_is_refused(old: TypeInformation, new: TypeInformation) -> None:
    assert compare_types(old.to_json(), new).verdict == "safe"
    assert "key" in "".join(refusal(old, new, key=True))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_wider_key_has_the_same_hash(key: int) -> None:
    assert read_as(Types.INT(), Types.LONG(), [key], role="key") == [key]
    (decimal,) = read_as(Types.INT(), Types.BIG_DEC(), [key], role="key")
    assert stable_hash(decimal) == stable_hash(key) == mix(hash(key) & (1 << 64) - 1)


def test_untyped_values_get_a_type_if_they_fit() -> None:
    untyped = ColumnCodec().encode([1, None, 2])[1]
    assert ColumnCodec(Types.DOUBLE()).decode(untyped, allow_pickle=False) == [1.0, None, 2.0]
    with pytest.raises(StateTypeError, match="does not fit the declared type"):
        ColumnCodec(Types.STRING()).decode(untyped, allow_pickle=False)
    key = ColumnCodec().encode([2**60 + 1])[1]
    assert ColumnCodec(Types.LONG()).decode(key, allow_pickle=False, role="key") == [2**60 + 1]
    with pytest.raises(StateTypeError, match="which is another key"):
        ColumnCodec(Types.DOUBLE()).decode(key, allow_pickle=False, role="key")


def test_pickled_values_get_a_type_if_they_fit_and_pickle_is_allowed() -> None:
    pickled = Types.PICKLED_BYTE_ARRAY()
    assert read_as(pickled, Types.TUPLE([Types.DOUBLE()]), [(1,)], allow_pickle=True) == [(1.0,)]
    with pytest.raises(StateTypeError):
        read_as(pickled, Types.LONG(), ["a"], allow_pickle=True)
    with pytest.raises(StatePickleError) as raised:
        read_as(pickled, Types.LONG(), [1])
    assert "state.savepoint.allow-pickle" in str(raised.value.action)
    assert read_as(Types.LONG(), pickled, [1]) == [1]


def test_no_class_is_imported_that_only_the_file_names() -> None:
    forged = {"type": "DATACLASS", "module": "antigravity", "qualname": "X", "fields": []}
    column = EncodedColumn("typed", forged, False, ColumnCodec(Types.LONG()).encode([])[1].data)
    for codec in (ColumnCodec(), ColumnCodec(Types.PICKLED_BYTE_ARRAY())):
        with pytest.raises(StatePickleError) as raised:
            codec.decode(column, allow_pickle=False)
        assert "state.savepoint.allow-pickle" in str(raised.value.action)
    with pytest.raises(StateTypeError, match="was of the class antigravity"):
        ColumnCodec(Types.DATACLASS(version([]))).decode(column, allow_pickle=False)


_CLASS = {"type": "DATACLASS", "module": "m", "qualname": "C"}
_ENUM = {"type": "ENUM", "module": "m", "qualname": "E"}
_LONG = Types.LONG().to_json()


@pytest.mark.parametrize(
    "forged",
    [
        {"type": "NO_SUCH_TYPE"},
        {"type": ["LONG"]},
        {"type": "LIST"},
        {"type": "DATACLASS"},
        {"type": "DATACLASS", "module": 1, "qualname": {}, "fields": []},
        {**_CLASS, "fields": [{"name": "x=__import__('os')", "type": _LONG, "optional": False}]},
        {**_CLASS, "fields": [{"name": "class", "type": _LONG, "optional": False}]},
        {**_CLASS, "fields": [{"name": "a", "type": _LONG, "optional": False, "hash": []}]},
        {**_CLASS, "fields": 3},
        {**_ENUM, "members": ["mro"]},
        {**_ENUM, "members": ["A", "A"]},
        {**_ENUM, "members": ["A"], "base": "os"},
        {**_ENUM},
    ],
    ids=str,
)
def test_a_forged_type_is_a_damaged_file_and_runs_nothing(forged: dict[str, Any]) -> None:
    column = EncodedColumn("typed", forged, False, ColumnCodec(Types.LONG()).encode([1])[1].data)
    for allow_pickle in (False, True):
        with pytest.raises(StateCorruptedError):
            type_of_column(column, allow_pickle)
    with pytest.raises(StateError):
        ColumnCodec(Types.DATACLASS(version([]))).decode(column, allow_pickle=False)


@dataclass(frozen=True)
class Place:
    city: str
    seen: int = field(default=0, compare=False)


def test_state_of_classes_is_rescaled_without_importing_them(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    state = SubtaskState(files, "v", 0)
    keyed = state.operator("op", Types.DATACLASS(Place)).keyed
    colors = keyed.get_state(MapStateDescriptor("colors", Types.ENUM(Color), Types.DATACLASS(Place)))
    state.open(None)
    for n in range(20):
        keyed.context.key = Place(f"city {n}", n)
        colors.put(Color.BLUE, Place("x", n))
    handles = state.snapshot(1, "a")
    for group in range(2):
        other = SubtaskState(files, "w", group)
        keyed = other.operator("op", Types.DATACLASS(Place)).keyed
        owned = range(group * 4, group * 4 + 4)
        other.restore_rescaled([handles], lambda _, owned=owned: (owned, 8), 2)
        colors = keyed.get_state(MapStateDescriptor("colors", Types.ENUM(Color), Types.DATACLASS(Place)))
        expected = {Place(f"city {n}", n) for n in range(20) if stable_hash(Place(f"city {n}")) % 8 in owned}
        assert set(keyed.keys("colors")) == expected
        for keyed.context.key in expected:
            assert colors.items() == [(Color.BLUE, Place("x"))]


def test_a_refused_change_names_operator_state_and_field(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    state = SubtaskState(files, "v", 0)
    keyed = state.operator("count", Types.STRING()).keyed
    total = keyed.get_state(ValueStateDescriptor("total", Types.ROW_NAMED(["n"], [Types.STRING()])))
    state.open(None)
    keyed.context.key = "a"
    total.update(Row(n="1"))
    handles = state.snapshot(1, "a")
    changed = SubtaskState(files, "v", 0)
    changed.open(handles)
    with pytest.raises(StateTypeError) as raised:
        changed.operator("count", Types.STRING()).keyed.get_state(
            ValueStateDescriptor("total", Types.ROW_NAMED(["n"], [Types.LONG()]))
        )
    assert raised.value.message == "state 'total' of operator 'count': field 'n': STRING cannot become LONG"
    assert raised.value.action == "Declare the old type, or give the state a new name and let it begin empty."


def test_types_are_told_in_words() -> None:
    assert type_in_words(None) == "untyped"
    assert type_in_words(Types.MAP(Types.STRING(), Types.DATACLASS(Place)).to_json()) == "MAP(STRING, DATACLASS(Place))"
    assert type_in_words({"type": "TIME_WINDOW"}) == "TIME_WINDOW"
    assert type_in_words({"type": "LIST"}) == "LIST"


def test_a_dataclass_that_was_shipped_by_value_keeps_its_defaults() -> None:
    """A class of the user's script travels to the workers as a copy, sentinels and all."""
    import pickle

    import cloudpickle

    source = """
import dataclasses
@dataclasses.dataclass
class Account:
    owner: str
    limit: int = 100
    tags: list[str] = dataclasses.field(default_factory=list)
"""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    shipped = pickle.loads(cloudpickle.dumps(namespace["Account"]))
    old = make_dataclass("Account", [("owner", str)])
    old.__module__ = "__main__"
    [read] = read_as(Types.DATACLASS(old), Types.DATACLASS(shipped), [old("ann")])
    assert (read.owner, read.limit, read.tags) == ("ann", 100, [])
