"""next, followed_by and followed_by_any, alone and in a row."""

from __future__ import annotations

import pytest

from millrace.cep import Pattern
from tests.cep.matching import has, matches, search


@pytest.mark.parametrize(
    ("contiguity", "expected"),
    [("next", []), ("followed_by", ["a b1"]), ("followed_by_any", ["a b1", "a b2"])],
)
def test_another_event_in_between(contiguity: str, expected: list[str]) -> None:
    pattern = getattr(Pattern.begin("a").where(has("a")), contiguity)("b").where(has("b"))
    assert matches(pattern, "a c b1 b2") == expected


def test_strict_contiguity_takes_what_comes_next() -> None:
    pattern = Pattern.begin("a").where(has("a")).next("b").where(has("b"))
    assert matches(pattern, "a1 a2 b1 b2") == ["a2 b1"]


def test_a_pattern_without_condition_takes_any_event() -> None:
    assert matches(Pattern.begin("a").where(has("a")).next("any"), "a1 x a2 a3") == ["a1 x", "a2 a3"]


def test_each_event_that_fits_begins_a_partial_match() -> None:
    pattern = Pattern.begin("a").where(has("a")).followed_by("b").where(has("b"))
    assert matches(pattern, "a1 a2 x b1") == ["a1 b1", "a2 b1"]


def test_relaxed_contiguity_takes_the_first_that_fits_only() -> None:
    pattern = Pattern.begin("a").where(has("a")).followed_by("b").where(has("b")).followed_by("c").where(has("c"))
    assert matches(pattern, "a b1 b2 c1 c2") == ["a b1 c1"]


def test_non_deterministic_relaxed_contiguity_branches_at_each_step() -> None:
    pattern = (
        Pattern.begin("a").where(has("a")).followed_by_any("b").where(has("b")).followed_by_any("c").where(has("c"))
    )
    assert matches(pattern, "a b1 b2 c1 c2") == ["a b1 c1", "a b1 c2", "a b2 c1", "a b2 c2"]


def test_branching_after_relaxed_steps() -> None:
    """One start, a super event that fits two patterns, and an end that all branches share."""
    pattern = (
        Pattern.begin("start").where(has("s"))
        .followed_by_any("middle").where(has("m"))
        .followed_by_any("super").where(has("x"))
        .followed_by("end").where(has("e"))
    )
    assert matches(pattern, "s m1 mx2 x3 e") == ["s m1 mx2 e", "s m1 x3 e", "s mx2 x3 e"]


def test_one_event_does_not_serve_two_patterns_of_a_match() -> None:
    pattern = Pattern.begin("first").where(has("a")).followed_by("second").where(has("a"))
    assert matches(pattern, "a1 a2 a3") == ["a1 a2", "a2 a3"]


def test_a_match_names_its_events() -> None:
    pattern = Pattern.begin("first").where(has("a")).times(2).next("second").where(has("b"))
    assert search(pattern, "a1 a2 b").matches == [{"first": ["a1", "a2"], "second": ["b"]}]


def test_where_after_where_narrows_and_or_where_widens() -> None:
    narrow = Pattern.begin("p").where(has("a")).where(has("1"))
    assert matches(narrow, "a1 a2 b1") == ["a1"]
    assert matches(narrow.or_where(has("b")), "a1 a2 b1 c1") == ["a1", "b1"]
    assert matches(Pattern.begin("p").or_where(has("b")), "a1 b1") == ["b1"]


def test_subtype_narrows_to_a_class() -> None:
    found = search(Pattern.begin("number").subtype(int).where(lambda number: number > 1), "").nfa
    state = search(Pattern.begin("number"), "").matching
    assert [found.process(state, value, 1) for value in ("text", 1, 2)] == [[], [], [{"number": [2]}]]


def test_nothing_is_kept_when_no_partial_match_is_left() -> None:
    pattern = Pattern.begin("a").where(has("a")).next("b").where(has("b"))
    assert not search(pattern, "a1 x a2 b").matching
