from __future__ import annotations

import copy
import enum
import logging
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common import ConfigOptions, Configuration, ConfigurationError, Duration


class Mode(enum.Enum):
    EXACTLY_ONCE = 1
    AT_LEAST_ONCE = 2


def option(name: str):
    return ConfigOptions.key(name)


def test_each_kind_of_value_reads_back():
    conf = (
        Configuration()
        .set_string("s", "x")
        .set_integer("i", 5)
        .set_boolean("b", True)
        .set_float("f", 0.5)
        .set_bytearray("y", bytearray(b"\x00\xff"))
    )
    assert (conf.get_string("s", ""), conf.get_integer("i", 0), conf.get_boolean("b", False)) == (
        "x",
        5,
        True,
    )
    assert (conf.get_float("f", 0.0), conf.get_bytearray("y", bytearray())) == (0.5, bytearray(b"\x00\xff"))
    assert conf.get_string("i", "") == "5"
    assert (conf.get_integer("none", 7), conf.get_string("none", "d")) == (7, "d")
    assert conf.key_set() == {"s", "i", "b", "f", "y"}
    assert (next(iter(conf)), len(conf)) == ("s", 5)


def test_what_was_set_as_text_equals_what_was_set_typed():
    assert Configuration.from_dict({"a": "5", "b": True}) == Configuration().set_integer("a", 5).set_string("b", "true")
    assert Configuration() != {}


def test_copies_are_independent():
    conf = Configuration.from_dict({"a": 1})
    for other in (
        copy.copy(conf),
        copy.deepcopy(conf),
        Configuration(conf),
        pickle.loads(pickle.dumps(conf)),
    ):
        assert other == conf
        assert hash(other) == hash(conf)
        other.set_string("b", "x")
        assert not conf.contains_key("b")


def test_entries_are_taken_over_with_a_prefix():
    conf, target = Configuration.from_dict({"a": 1}), {"z": "0"}
    conf.add_all(Configuration.from_dict({"b": 2}), "pre.").add_all(Configuration.from_dict({"c": 3}))
    conf.add_all_to_dict(target)
    assert conf.to_dict() == {"a": "1", "pre.b": "2", "c": "3"}
    assert target == {"z": "0", "a": "1", "pre.b": "2", "c": "3"}
    assert str(conf) == "{'a': '1', 'pre.b': '2', 'c': '3'}"
    assert repr(conf) == f"Configuration({conf})"
    assert conf.remove_config("a")
    assert not conf.remove_config("a")


@pytest.mark.parametrize(
    ("build", "value", "text", "read"),
    [
        (option("o").boolean_type(), True, "true", True),
        (option("o").int_type(), 5, "5", 5),
        (option("o").long_type(), 2**40, str(2**40), 2**40),
        (option("o").float_type(), 0.5, "0.5", 0.5),
        (option("o").double_type(), 1, "1", 1.0),
        (option("o").string_type(), "x", "x", "x"),
        (option("o").duration_type(), timedelta(seconds=90), "90 s", Duration.of_seconds(90)),
        (option("o").duration_type(), 1500, "1500 ms", Duration.of_millis(1500)),
        (option("o").duration_type(), "2 min", "2 min", Duration.of_minutes(2)),
        (option("o").memory_type(), "64mb", "64 mb", 2**26),
        (option("o").memory_type(), 1000, "1000 bytes", 1000),
        (option("o").enum_type(Mode), Mode.EXACTLY_ONCE, "EXACTLY_ONCE", Mode.EXACTLY_ONCE),
        (option("o").map_type(), {"a": "1", "b": "2"}, "a:1,b:2", {"a": "1", "b": "2"}),
        (option("o").int_type().as_list(), [1, 2], "1;2", [1, 2]),
    ],
)
def test_an_option_reads_what_it_wrote(build, value, text, read):
    conf = Configuration().set(build.no_default_value(), value)
    assert conf.to_dict() == {"o": text}
    assert conf.get(build.no_default_value()) == read


def test_an_enum_option_reads_names_as_people_write_them():
    mode = option("m").enum_type(Mode).no_default_value()
    assert Configuration.from_dict({"m": "exactly-once"}).get(mode) is Mode.EXACTLY_ONCE


def test_an_option_that_is_not_set_has_its_default():
    opt = option("o").int_type().default_value(5).with_description("What for.")
    assert Configuration().get(opt) == 5
    assert Configuration().get(opt, 7) == 7
    assert opt.has_default_value()
    assert (opt.default_value(), opt.description) == (5, "What for.")
    assert Configuration().get(option("o").int_type().no_default_value()) is None


def test_fallback_keys_come_before_deprecated_ones_which_warn(caplog):
    opt = option("new").int_type().default_value(0).with_fallback_keys("alt").with_deprecated_keys("old")
    conf = Configuration.from_dict({"old": 1})
    with caplog.at_level(logging.WARNING):
        assert conf.get(opt) == 1
    assert "The option 'old' is now called 'new'." in caplog.text
    assert conf.set_integer("alt", 2).get(opt) == 2
    assert conf.set(opt, 3).get(opt) == 3
    assert conf.contains(opt)
    assert conf.remove(opt)
    assert not conf.contains(opt)
    assert conf.key_set() == set()


@given(st.lists(st.text(min_size=1, max_size=6)))
def test_a_list_of_any_strings_reads_back(items):
    opt = option("l").string_type().as_list().no_default_value()
    assert Configuration().set(opt, items).get(opt) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        (None, []),
        ("a", ["a"]),
        ("a; b", ["a", "b"]),
        ('[a, \'b, c\', "d\\"e"]', ["a", "b, c", 'd"e']),
        ("- a\n- b", ["a", "b"]),
    ],
)
def test_lists_are_read_in_flinks_old_and_new_notation(text, items):
    assert Configuration.parse_list_value(text) == items


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda c: c.get_integer("k", 0), r"\[MR-1007\] option 'k': 'x' is not a whole number"),
        (lambda c: c.get_boolean("k", False), "option 'k': 'x' is neither true nor false"),
        (lambda c: c.get_float("k", 0.0), "option 'k': 'x' is not a number"),
        (lambda c: c.get_bytearray("k", bytearray()), "option 'k': 'x' is not base64"),
        (lambda c: c.set_string("k", 5), r"are strings, got 'k': 5\nAction: Use set_integer"),
        (
            lambda c: c.get(option("k").duration_type().no_default_value()),
            "option 'k': 'x' is not a duration\nAction:",
        ),
        (
            lambda c: c.get(option("k").map_type().no_default_value()),
            "option 'k': 'x' is not a map\nAction: Write",
        ),
        (
            lambda c: c.get(option("k").enum_type(Mode).no_default_value()),
            "'x' is none of EXACTLY_ONCE, AT_LEAST_ONCE",
        ),
        (
            lambda c: c.set(option("k").int_type().no_default_value(), 2**31),
            "option 'k': 2147483648 does not fit into 32 bits",
        ),
        (lambda c: c.set(option("k").long_type().no_default_value(), 2**63), "does not fit into 64 bits"),
        (
            lambda c: c.set(option("k").boolean_type().no_default_value(), 5),
            "option 'k': '5' is neither true nor false",
        ),
        (lambda _c: ConfigOptions.key(""), "an option needs a key"),
    ],
)
def test_values_that_make_no_sense_name_their_option(act, message):
    with pytest.raises(ConfigurationError, match=message):
        act(Configuration.from_dict({"k": "x"}))
