"""times, times_or_more, one_or_more and optional, with each contiguity before the loop and within it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.cep import Pattern
from tests.cep.matching import a_to_b, has, matches, search

LOOSE = "c f1 a1 f2 a2 a3 b"
CLOSE = "c a1 a2 a3 b"

Quantify = Callable[[Pattern], Pattern]

CASES: list[tuple[str, str, Quantify, str, list[str]]] = [
    # A number of times.
    ("twice", "followed_by_any", lambda p: p.times(2).consecutive(), LOOSE, ["a2 a3"]),
    ("twice, combined", "followed_by_any", lambda p: p.times(2).allow_combinations(), LOOSE,
     ["a1 a2", "a1 a3", "a2 a3"]),
    ("twice, relaxed", "followed_by_any", lambda p: p.times(2), LOOSE, ["a1 a2", "a2 a3"]),
    ("twice from the first", "followed_by", lambda p: p.times(2), LOOSE, ["a1 a2"]),
    ("twice at once", "next", lambda p: p.times(2), CLOSE, ["a1 a2"]),
    ("twice at once, but late", "next", lambda p: p.times(2), LOOSE, []),
    ("thrice or not at all", "followed_by", lambda p: p.times(3).optional(), CLOSE, ["a1 a2 a3", ""]),
    # A range.
    ("range, combined", "next", lambda p: p.times(1, 3).allow_combinations(), CLOSE,
     ["a1 a2 a3", "a1 a2", "a1 a3", "a1"]),
    ("range from zero, combined", "next", lambda p: p.times(0, 2).allow_combinations(), CLOSE,
     ["a1 a2", "a1 a3", "a1", ""]),
    ("range, any and combined", "followed_by_any", lambda p: p.times(1, 3).allow_combinations(), LOOSE,
     ["a1 a2 a3", "a1 a2", "a1 a3", "a2 a3", "a1", "a2", "a3"]),
    ("range from zero, consecutive", "followed_by_any", lambda p: p.times(0, 3).consecutive(), LOOSE,
     ["a2 a3", "a1", "a2", "a3", ""]),
    ("optional range, consecutive", "followed_by_any", lambda p: p.times(1, 3).consecutive().optional(), LOOSE,
     ["a2 a3", "a1", "a2", "a3", ""]),
    ("optional range at once", "next", lambda p: p.times(1, 3).consecutive().optional(), CLOSE,
     ["a1 a2 a3", "a1 a2", "a1", ""]),
    ("optional range without events", "followed_by", lambda p: p.times(1, 3).optional(), "c f1 b", [""]),
    ("optional range, combined", "followed_by_any", lambda p: p.times(2, 3).allow_combinations().optional(), LOOSE,
     ["a1 a2 a3", "a1 a2", "a1 a3", "a2 a3", ""]),
    # A number of times at least.
    ("or more, combined", "followed_by", lambda p: p.times_or_more(2).allow_combinations(), CLOSE,
     ["a1 a2 a3", "a1 a2", "a1 a3"]),
    ("or more, any and combined", "followed_by_any", lambda p: p.times_or_more(2).allow_combinations(), LOOSE,
     ["a1 a2 a3", "a1 a2", "a1 a3", "a2 a3"]),
    ("or more, consecutive", "followed_by_any", lambda p: p.times_or_more(2).consecutive().optional(), LOOSE,
     ["a2 a3", ""]),
    ("or more at once", "next", lambda p: p.times_or_more(2).consecutive().optional(), CLOSE,
     ["a1 a2 a3", "a1 a2", ""]),
    ("or more without events", "followed_by", lambda p: p.times_or_more(2).optional(), "c f1 b", [""]),
    # Once at least.
    ("one or more", "followed_by", lambda p: p.one_or_more(), LOOSE, ["a1 a2 a3", "a1 a2", "a1"]),
    ("one or more, consecutive", "followed_by", lambda p: p.one_or_more().consecutive(), LOOSE, ["a1"]),
    ("one or more, consecutive and close", "followed_by", lambda p: p.one_or_more().consecutive(), CLOSE,
     ["a1 a2 a3", "a1 a2", "a1"]),
    ("one or more, any", "followed_by_any", lambda p: p.one_or_more(), LOOSE,
     ["a1 a2 a3", "a1 a2", "a1", "a2 a3", "a2", "a3"]),
    ("one or more, combined", "followed_by", lambda p: p.one_or_more().allow_combinations(), LOOSE,
     ["a1 a2 a3", "a1 a2", "a1 a3", "a1"]),
    ("zero or more", "followed_by", lambda p: p.one_or_more().optional(), LOOSE, ["a1 a2 a3", "a1 a2", "a1", ""]),
    ("zero or more, consecutive", "next", lambda p: p.one_or_more().consecutive().optional(), CLOSE,
     ["a1 a2 a3", "a1 a2", "a1", ""]),
    # Once.
    ("once", "followed_by", lambda p: p, LOOSE, ["a1"]),
    ("once or not at all", "followed_by", lambda p: p.optional(), LOOSE, ["a1", ""]),
    ("once or not at all, any", "followed_by_any", lambda p: p.optional(), LOOSE, ["a1", "a2", "a3", ""]),
    ("once or not at all, next", "next", lambda p: p.optional(), CLOSE, ["a1", ""]),
]


@pytest.mark.parametrize(("contiguity", "quantify", "events", "expected"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_a_loop_between_two_events(contiguity: str, quantify: Quantify, events: str, expected: list[str]) -> None:
    pattern = quantify(a_to_b(contiguity)).followed_by("b").where(has("b"))
    assert matches(pattern, events) == sorted(f"c {loop} b".replace("  ", " ") for loop in expected)


def test_a_loop_at_the_beginning() -> None:
    pattern = Pattern.begin("a").where(has("a")).one_or_more().followed_by("b").where(has("b"))
    assert matches(pattern, "a1 a2 b") == ["a1 a2 b", "a1 b", "a2 b"]


def test_a_loop_at_the_end_matches_at_each_of_its_events() -> None:
    pattern = a_to_b("followed_by").one_or_more()
    found = search(pattern, "c a1 a2")
    assert [match["a"] for match in found.matches] == [["a1"], ["a1", "a2"]]


def test_a_range_at_the_beginning_counts_from_each_event() -> None:
    pattern = Pattern.begin("a").where(has("a")).times(2, 3).consecutive()
    assert matches(pattern, "a1 a2 a3 x a4") == ["a1 a2", "a1 a2 a3", "a2 a3"]


def test_an_optional_pattern_at_the_beginning() -> None:
    pattern = Pattern.begin("a").where(has("a")).optional().followed_by("b").where(has("b"))
    assert matches(pattern, "a1 x b1") == ["a1 b1", "b1"]


def test_an_optional_pattern_at_the_end_matches_with_and_without() -> None:
    pattern = Pattern.begin("a").where(has("a")).followed_by("b").where(has("b")).optional()
    assert matches(pattern, "a x b") == ["a", "a b"]


def test_only_optional_patterns_make_no_empty_match() -> None:
    pattern = Pattern.begin("a").where(has("a")).optional()
    assert matches(pattern, "x a y") == ["a"]


def test_two_optional_patterns_in_a_row() -> None:
    pattern = (
        Pattern.begin("a").where(has("a"))
        .followed_by("b").where(has("b")).optional()
        .followed_by("c").where(has("c")).optional()
        .followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a b c d") == ["a b c d", "a b d", "a c d", "a d"]


def test_optional_before_the_quantifier_is_optional_after_it() -> None:
    pattern = a_to_b("followed_by").optional().times(2).followed_by("b").where(has("b"))
    assert matches(pattern, "c a1 b") == ["c b"]
