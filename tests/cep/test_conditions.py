"""Conditions: functions and objects, of the event alone and of what was matched before it."""

from __future__ import annotations

import pytest

from millrace.cep import IterativeCondition, Pattern, SimpleCondition
from millrace.cep.conditions import ConditionError
from tests.cep.matching import Search, has, matches, search


class Rising(IterativeCondition):
    def filter(self, value, ctx):
        return all(value > earlier for earlier in ctx.get_events_for_pattern("rising"))


class IsA(SimpleCondition):
    def filter(self, value):
        return value[0] == "a"


def test_an_iterative_condition_sees_the_events_of_its_own_loop() -> None:
    pattern = Pattern.begin("rising").where(Rising()).times(3)
    found = search(pattern, "")
    for time, value in enumerate([1, 3, 2, 4]):
        found.see(value, time)  # type: ignore[arg-type]
    assert [match["rising"] for match in found.matches] == [[1, 3, 4]]


def test_a_function_of_two_parameters_is_an_iterative_condition() -> None:
    pattern = (
        Pattern.begin("a").where(has("a"))
        .followed_by("b").where(has("b")).where(lambda event, ctx: event[1] == ctx.get_events_for_pattern("a")[0][1])
    )
    assert matches(pattern, "a1 a2 b2 b1") == ["a1 b1", "a2 b2"]


def test_a_condition_sees_nothing_of_other_partial_matches() -> None:
    seen = []

    def note(event, ctx):
        seen.append((event, ctx.get_events_for_pattern("a"), ctx.get_events_for_pattern("no such"), ctx.timestamp()))
        return True

    matches(Pattern.begin("a").where(has("a")).next("b").where(note), "a1@5 a2@7")
    assert seen == [("a2", ["a1"], [], 7)]


def test_what_a_condition_is_given_is_not_the_match_itself() -> None:
    def empty(_, ctx):
        ctx.get_events_for_pattern("a").clear()
        return True

    assert matches(Pattern.begin("a").where(has("a")).next("b").where(empty), "a1 b1") == ["a1 b1"]


def test_condition_objects() -> None:
    assert matches(Pattern.begin("p").where(IsA()), "a1 b1") == ["a1"]
    assert matches(Pattern.begin("p").where(lambda event, strict=True: event == "b1"), "a1 b1") == ["b1"]
    assert matches(Pattern.begin("p").where(str.isalpha), "a b1") == ["a"]


def test_a_simple_condition_is_asked_once_for_each_event() -> None:
    asked = []

    def condition(event):
        asked.append(event)
        return True

    search(Pattern.begin("any").where(condition).times(3).followed_by("again").where(condition), "a1 a2 a3 a4 a5")
    assert asked == ["a1", "a2", "a3", "a4", "a5"]


def test_a_condition_that_fails_changes_nothing() -> None:
    def fails(event):
        if event == "b!":
            raise ValueError("a bad event")
        return event[0] == "b"

    found = Search(Pattern.begin("a").where(has("a")).next("b").where(fails))
    found.see("a1", 1)
    with pytest.raises(ConditionError, match="a bad event"):
        found.see("b!", 2)
    found.see("b2", 3)
    assert found.matches == [{"a": ["a1"], "b": ["b2"]}]


def test_an_iterative_condition_is_asked_once_for_each_event_and_partial_match() -> None:
    asked = []

    def condition(event, ctx):
        asked.append((ctx.get_events_for_pattern("a"), event))
        return event[0] == "b"

    search(Pattern.begin("a").where(has("a")).followed_by("b").where(condition), "a1 a2 x b1")
    assert asked == [
        (["a1"], "a2"), (["a1"], "x"), (["a2"], "x"), (["a1"], "b1"), (["a2"], "b1"),
    ]  # fmt: skip
