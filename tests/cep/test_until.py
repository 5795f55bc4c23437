"""until: the event that ends a loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.cep import Pattern
from tests.cep.matching import a_to_b, has, search

Quantify = Callable[[Pattern], Pattern]


def found(pattern: Pattern, events: str) -> list[str]:
    results = search(pattern, events).matches
    return sorted(" ".join(event for part in match.values() for event in part) for match in results)


BETWEEN: list[tuple[str, Quantify, str, list[str]]] = [
    ("one or more", lambda p: p.one_or_more(), "c a1 a2 a! a3", ["a1 a2", "a1"]),
    ("combined", lambda p: p.one_or_more().allow_combinations(), "c a1 a2 a3 a! a4",
     ["a1 a2 a3", "a1 a2", "a1 a3", "a1"]),
    ("consecutive", lambda p: p.one_or_more().consecutive(), "c a1 a2 a! a3", ["a1 a2", "a1"]),
    ("zero or more", lambda p: p.one_or_more().optional(), "c a1 a2 a! a3", ["a1 a2", "a1", ""]),
    ("zero or more, combined", lambda p: p.one_or_more().optional().allow_combinations(), "c a1 a2 a3 a! a4",
     ["a1 a2 a3", "a1 a2", "a1 a3", "a1", ""]),
    ("zero or more, consecutive", lambda p: p.one_or_more().optional().consecutive(), "c a1 a2 a! a3",
     ["a1 a2", "a1", ""]),
]  # fmt: skip


@pytest.mark.parametrize(("quantify", "events", "expected"), [case[1:] for case in BETWEEN],
                         ids=[case[0] for case in BETWEEN])  # fmt: skip
def test_the_event_that_ends_a_loop_may_be_the_next_pattern(
    quantify: Quantify, events: str, expected: list[str]
) -> None:
    pattern = quantify(a_to_b("followed_by")).until(has("!")).followed_by("end").where(has("!"))
    assert found(pattern, events) == sorted(f"c {loop} a!".replace("  ", " ") for loop in expected)
    assert not search(pattern, events).matching


def test_the_end_of_one_loop_is_not_the_end_of_loops_that_begin_later() -> None:
    loop = a_to_b("followed_by_any").one_or_more()
    assert found(loop.until(has("!")), "c a1 a2 a! a3") == ["c a1", "c a1 a2", "c a2", "c a3"]
    assert found(loop.optional().until(has("!")), "c a1 a2 a! a3") == ["c", "c a1", "c a1 a2", "c a2", "c a3"]


def test_a_loop_without_condition_takes_all_until_the_end() -> None:
    pattern = Pattern.begin("c").where(has("c")).followed_by("any").one_or_more().until(has("!"))
    assert found(pattern, "c a1 a2 d a! a3") == ["c a1", "c a1 a2", "c a1 a2 d"]
    assert not search(pattern, "c a1 a2 d a! a3").matching


def test_an_iterative_condition_ends_a_loop() -> None:
    pattern = a_to_b("followed_by").one_or_more().until(lambda event, ctx: len(ctx.get_events_for_pattern("a")) == 2)
    assert found(pattern, "c a1 a2 a3 a4") == ["c a1", "c a1 a2"]


def test_until_on_a_group_ends_the_whole_loop() -> None:
    group = Pattern.begin("a").where(has("a")).followed_by("b").where(has("b"))
    pattern = Pattern.begin("c").where(has("c")).followed_by(group).one_or_more().until(has("!"))
    assert found(pattern, "c a1 b1 a2 b2 ! a3 b3") == ["c a1 a2 b1 b2", "c a1 b1"]
    assert not search(pattern, "c a1 b1 a2 b2 ! a3 b3").matching
