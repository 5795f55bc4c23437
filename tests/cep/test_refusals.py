"""Patterns that make no sense are refused while the program is built, with the line that is at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.cep import CEP, AfterMatchSkipStrategy, Pattern, WithinType
from millrace.cep.compiler import compile_pattern
from millrace.common.errors import ProgramError
from millrace.datastream import OutputTag, StreamExecutionEnvironment
from tests.cep.matching import has

GAP = WithinType.PREVIOUS_AND_CURRENT


def a() -> Pattern:
    return Pattern.begin("a").where(has("a"))


CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("a name, a string that is not empty, not ''", lambda: Pattern.begin("")),
    ("begin takes an AfterMatchSkipStrategy, not 'no_skip'", lambda: Pattern.begin("a", "no_skip")),
    ("where takes a condition, not 3", lambda: a().where(3)),
    ("where takes a condition, not <class", lambda: a().where(dict)),
    ("subtype takes a class, not 'int'", lambda: a().subtype("int")),
    ("where cannot be applied to a group", lambda: Pattern.begin(a()).where(has("a"))),
    ("or_where cannot be applied to a group", lambda: Pattern.begin(a()).or_where(has("a"))),
    ("subtype cannot be applied to a group", lambda: Pattern.begin(a()).subtype(int)),
    ("PREVIOUS_AND_CURRENT.* cannot be applied to a group", lambda: Pattern.begin(a()).within(1, GAP)),
    ("A group of patterns cannot be greedy", lambda: Pattern.begin(a()).one_or_more().greedy()),
    ("'a' is found once, and cannot be greedy", lambda: a().greedy()),
    ("'a' cannot be greedy and allow combinations", lambda: a().one_or_more().allow_combinations().greedy()),
    ("'a' cannot be greedy and allow combinations", lambda: a().one_or_more().greedy().allow_combinations()),
    ("'b' cannot be optional: 'a', before it, is greedy",
     lambda: a().one_or_more().greedy().followed_by("b").optional()),
    ("until.* ends loops, and 'a' is none", lambda: a().until(has("b"))),
    ("until.* ends loops, and 'a' is none", lambda: a().times(2).until(has("b"))),
    ("'a' has an until condition already", lambda: a().one_or_more().until(has("b")).until(has("c"))),
    ("'a' has a quantifier already, and now times", lambda: a().one_or_more().times(2)),
    ("'a' has a quantifier already, and now one_or_more", lambda: a().times(2).one_or_more()),
    ("'a' is optional already", lambda: a().optional().optional()),
    ("times takes a number from 1", lambda: a().times(0)),
    ("times takes a number from 1", lambda: a().times(3, 2)),
    ("times takes a number from 1", lambda: a().times(0, 0)),
    ("times_or_more takes a number from 1, not 0", lambda: a().times_or_more(0)),
    (r"consecutive\(\) is about the events of a loop", lambda: a().consecutive()),
    (r"allow_combinations\(\) is about the events of a loop", lambda: a().allow_combinations()),
    (r"consecutive\(\) was applied to 'a' already", lambda: a().one_or_more().consecutive().consecutive()),
    ("'a' is either consecutive or allows combinations", lambda: a().times(2).consecutive().allow_combinations()),
    ("not_next.'b'. stands behind 'a', which is optional", lambda: a().optional().not_next("b")),
    ("not_followed_by.'b'. stands behind 'a', which is optional", lambda: a().times(0, 2).not_followed_by("b")),
    ("not_next takes a name, not a group", lambda: a().not_next(a())),
    ("optional cannot be applied to 'b'", lambda: a().not_next("b").optional()),
    ("greedy cannot be applied to 'b'", lambda: a().not_next("b").greedy()),
    ("times cannot be applied to 'b'", lambda: a().not_followed_by("b").times(2)),
    ("one_or_more cannot be applied to 'b'", lambda: a().not_followed_by("b").one_or_more()),
    ("within takes a span of time of at least a millisecond, not 0", lambda: a().within(0)),
    ("within takes a span of time of at least a millisecond, not -5", lambda: a().within(-5)),
    ("expected a span of time", lambda: a().within("1s")),
    ("within takes a WithinType, not 'gap'", lambda: a().within(1, "gap")),
]  # fmt: skip

SEQUENCES: list[tuple[str, Callable[[], Pattern]]] = [
    ("Two patterns are called 'a'", lambda: a().next("a")),
    ("Two patterns are called 'a'", lambda: a().next(Pattern.begin("b").next("a"))),
    ("The last pattern, 'b', must not be found, and there is no time", lambda: a().not_followed_by("b")),
    ("A group ends with 'b', which must not be found",
     lambda: Pattern.begin(a().not_followed_by("b")).followed_by("c").within(5)),
    ("'b' may come 30 ms after the event before it, but the whole match takes less than 20 ms",
     lambda: a().followed_by("b").within(30, GAP).within(20)),
    ("The skip strategy names 'z'", lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("z")).next("b")),
    ("is repeated without end, and all in it is optional",
     lambda: Pattern.begin("c").next(Pattern.begin("a").optional()).one_or_more()),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), CALLS, ids=[message for message, _ in CALLS])
def test_a_call_is_refused(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ProgramError, match=message):
        call()


@pytest.mark.parametrize(("message", "pattern"), SEQUENCES, ids=[message for message, _ in SEQUENCES])
def test_a_sequence_is_refused(message: str, pattern: Callable[[], Pattern]) -> None:
    stream = StreamExecutionEnvironment().from_collection(["a"])
    with pytest.raises(ProgramError, match=message) as refused:
        CEP.pattern(stream, pattern())
    assert f"(at {__file__}:" in str(refused.value)


def test_what_a_pattern_stream_is_given() -> None:
    stream = StreamExecutionEnvironment().from_collection(["a"])
    found = CEP.pattern(stream, a())
    tag = OutputTag("late")
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("CEP.pattern takes a stream, not 3", lambda: CEP.pattern(3, a())),
        ("CEP.pattern takes a Pattern, not 'a'", lambda: CEP.pattern(stream, "a")),
        ("The comparator is a function of two events, not 3", lambda: CEP.pattern(stream, a(), 3)),
        ("side_output_late_data takes an OutputTag, not 'late'", lambda: found.side_output_late_data("late")),
        ("select takes a PatternSelectFunction or a callable", lambda: found.select(3)),
        ("select was given a timeout_tag alone", lambda: found.select(str, timeout_tag=tag)),
        ("flat_select was given a timeout_fn alone", lambda: found.flat_select(list, timeout_fn=list)),
        ("process takes a PatternProcessFunction", lambda: found.process(str)),
    ]
    for message, call in refused:
        with pytest.raises(ProgramError, match=message):
            call()


def test_patterns_do_not_change() -> None:
    """Each call gives a new pattern, so that a beginning can be shared."""
    start = a()
    once, twice = start.followed_by("b"), start.times(2)
    assert (repr(start), repr(once), repr(twice)) == ("Pattern(a)", "Pattern(a -> b)", "Pattern(a{2})")
    assert len(compile_pattern(start).states) == 2


def test_a_pattern_can_be_read() -> None:
    pattern = (
        Pattern.begin("a").times(0, 3)
        .next(Pattern.begin("b").not_next("c").next("d")).one_or_more()
        .followed_by("e").times_or_more(2).greedy()
    )
    assert repr(pattern) == "Pattern(a{1,3}? -> (b -> not c -> d){1,} -> e{2,}+)"
