"""greedy: what the loop can take, the pattern behind it does not get."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.cep import Pattern
from tests.cep.matching import a_to_b, has, matches

Quantify = Callable[[Pattern], Pattern]

LOOPS: list[tuple[str, Quantify, str, list[str]]] = [
    ("zero or more", lambda p: p.one_or_more().optional().greedy(), "c a1 a2 a3 d", ["c a1 a2 a3 d"]),
    ("zero or more, others between", lambda p: p.one_or_more().optional().greedy(), "c x1 a1 x2 a2 x3 a3 d",
     ["c a1 a2 a3 d"]),
    ("zero or more, others behind", lambda p: p.one_or_more().optional().greedy(), "c a1 a2 x1 d", ["c a1 a2 d"]),
    ("zero of zero or more", lambda p: p.one_or_more().optional().greedy(), "c x1 d", ["c d"]),
    ("one or more", lambda p: p.one_or_more().greedy(), "c a1 a2 a3 d", ["c a1 a2 a3 d"]),
    ("one or more, others between", lambda p: p.one_or_more().greedy(), "c x1 a1 x2 a2 x3 a3 d", ["c a1 a2 a3 d"]),
    ("one or more, others behind", lambda p: p.one_or_more().greedy(), "c a1 a2 x1 d", ["c a1 a2 d"]),
    ("none of one or more", lambda p: p.one_or_more().greedy(), "c x1 d", []),
    ("range", lambda p: p.times(2, 5).greedy(), "c a1 a2 a3 a4 d", ["c a1 a2 a3 a4 d"]),
    ("range, until the end of it", lambda p: p.times(2, 3).greedy(), "c a1 a2 a3 d", ["c a1 a2 a3 d"]),
    ("until, after the loop", lambda p: p.one_or_more().optional().greedy().until(has("!")), "c a1 a2 a3 a! d",
     ["c a1 a2 a3 d"]),
    ("until, before the loop", lambda p: p.one_or_more().optional().greedy().until(has("!")), "c a! a1 a2 a3 d",
     ["c d"]),
    ("until, one or more", lambda p: p.one_or_more().greedy().until(has("!")), "c a1 a2 a3 a! d", ["c a1 a2 a3 d"]),
    ("until, none of one or more", lambda p: p.one_or_more().greedy().until(has("!")), "c a! a1 a2 a3 d", []),
]  # fmt: skip


@pytest.mark.parametrize(("quantify", "events", "expected"), [case[1:] for case in LOOPS],
                         ids=[case[0] for case in LOOPS])  # fmt: skip
def test_a_greedy_loop_between_two_events(quantify: Quantify, events: str, expected: list[str]) -> None:
    assert matches(quantify(a_to_b("followed_by")).followed_by("d").where(has("d")), events) == expected


def test_an_event_that_fits_the_loop_and_what_comes_behind_goes_to_the_loop() -> None:
    greedy = Pattern.begin("a").where(has("a")).one_or_more().greedy().next("b").where(has("b"))
    assert matches(greedy, "a1 ab2 b3") == ["a1 ab2 b3", "ab2 b3"]
    modest = Pattern.begin("a").where(has("a")).one_or_more().next("b").where(has("b"))
    assert matches(modest, "a1 ab2 b3") == ["a1 ab2", "a1 ab2 b3", "ab2 b3"]


def test_a_greedy_loop_before_a_group() -> None:
    group = Pattern.begin("d").where(has("d")).followed_by("e").where(has("e"))
    pattern = (
        a_to_b("followed_by").one_or_more().optional().greedy()
        .followed_by(group).times(2)
        .followed_by("f").where(has("f"))
    )
    assert matches(pattern, "c a1 a2 x1 a3 d1 e1 d2 e2 f") == ["c a1 a2 a3 d1 e1 d2 e2 f"]


@pytest.mark.parametrize(
    ("quantify", "expected"),
    [
        (lambda p: p.one_or_more().optional().greedy(), ["c", "c a1", "c a1 a2", "c a1 a2 a3"]),
        (lambda p: p.one_or_more().optional().consecutive().greedy(), ["c", "c a1", "c a1 a2"]),
        (lambda p: p.times(2, 5).greedy(), ["c a1 a2", "c a1 a2 a3"]),
    ],
)
def test_at_the_end_of_a_pattern_greedy_changes_nothing(quantify: Quantify, expected: list[str]) -> None:
    assert matches(quantify(a_to_b("followed_by")), "c a1 a2 x a3") == expected
