"""not_next and not_followed_by: what must not be found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.cep import AfterMatchSkipStrategy, Pattern, WithinType
from tests.cep.matching import has, matches, search

Quantify = Callable[[Pattern], Pattern]


def start(letter: str = "a") -> Pattern:
    return Pattern.begin(letter).where(has(letter))


def test_not_next_looks_at_the_next_event_only() -> None:
    pattern = (
        start().not_next("b").where(has("b")).followed_by_any("c").where(has("c")).followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a c1 b c2 d") == ["a c1 d", "a c2 d"]
    assert matches(pattern, "a b c1 c2 d") == []


def test_not_next_at_the_end_waits_for_the_next_event() -> None:
    pattern = (
        start().followed_by_any("c").where(has("c")).followed_by_any("d").where(has("d")).not_next("b").where(has("b"))
    )
    assert matches(pattern, "a c1 c2 d b") == []
    assert matches(pattern, "a c1 c2 d") == []
    assert matches(pattern, "a c1 c2 d x") == ["a c1 d", "a c2 d"]


def test_not_followed_by_looks_at_all_until_the_next_pattern() -> None:
    pattern = (
        start().not_followed_by("b").where(has("b"))
        .followed_by_any("c").where(has("c"))
        .followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a c1 b c2 d") == ["a c1 d"]


@pytest.mark.parametrize(
    ("quantify", "expected"),
    [(lambda p: p.optional(), ["a c1 d"]), (lambda p: p.times(2).optional(), ["a c1 c2 d"])],
)
def test_not_followed_by_before_an_optional_pattern(quantify: Quantify, expected: list[str]) -> None:
    """Once the optional pattern is found, what must not come before it may come."""
    pattern = quantify(start().not_followed_by("b").where(has("b")).followed_by_any("c").where(has("c")))
    assert matches(pattern.followed_by("d").where(has("d")), "a c1 b c2 d") == expected


def test_not_followed_by_before_an_optional_pattern_at_the_end() -> None:
    pattern = start().not_followed_by("b").where(has("b")).followed_by_any("c").where(has("c")).optional()
    assert matches(pattern, "a c1 b c2") == ["a", "a c1"]


def test_not_followed_by_before_optional_times_that_ignored_events() -> None:
    pattern = (
        start().not_followed_by("b").where(has("b"))
        .followed_by_any("c").where(has("c")).times(2).optional()
        .followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a d1 e b c1 c2 d2") == ["a d1"]


@pytest.mark.parametrize("events", ["a b1 c b2 d", "a d1 e b1 b2 c d2"])
def test_not_followed_by_after_times(events: str) -> None:
    pattern = (
        start().followed_by_any("b").where(has("b")).times(2)
        .not_followed_by("c").where(has("c"))
        .followed_by("d").where(has("d"))
    )
    assert matches(pattern, events) == []


def test_not_followed_by_stops_only_the_partial_matches_before_it() -> None:
    pattern = (
        start().not_followed_by("b").where(has("b")).followed_by("c").where(has("c")).followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a1 b c1 a2 c2 d") == ["a2 c2 d"]


@pytest.mark.parametrize(("contiguity", "expected"), [("followed_by", []), ("followed_by_any", ["a b2 d"])])
def test_not_next_after_one_or_more(contiguity: str, expected: list[str]) -> None:
    loop = getattr(start(), contiguity)("b").where(has("b")).one_or_more()
    pattern = loop.not_next("c").where(has("c")).followed_by("d").where(has("d"))
    assert matches(pattern, "a b1 c b2 d") == expected


@pytest.mark.parametrize(
    ("contiguity", "combined", "expected"),
    [
        ("followed_by", False, []),
        ("followed_by", True, []),
        ("followed_by_any", False, ["b4 b5 b6", "b4 b5", "b4", "b5 b6", "b5", "b6"]),
        ("followed_by_any", True, ["b4 b5 b6", "b4 b5", "b4 b6", "b4", "b5 b6", "b5", "b6"]),
    ],
)
def test_not_followed_by_after_one_or_more(contiguity: str, combined: bool, expected: list[str]) -> None:
    loop = getattr(start(), contiguity)("b").where(has("b")).one_or_more()
    loop = loop.allow_combinations() if combined else loop
    pattern = loop.not_followed_by("c").where(has("c")).followed_by("d").where(has("d"))
    assert matches(pattern, "a b1 b2 b3 c b4 b5 b6 d") == sorted(f"a {part} d" for part in expected)


@pytest.mark.parametrize("contiguity", ["followed_by", "followed_by_any"])
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(
    ("combined", "expected"),
    [
        (False, ["b1 b4 b5 b6", "b1 b4 b5", "b1 b4", "b1"]),
        (True, ["b1 b4 b5 b6", "b1 b4 b6", "b1 b4 b5", "b1 b4", "b1 b5 b6", "b1 b5", "b1 b6", "b1"]),
    ],
)
def test_not_followed_by_before_a_loop(contiguity: str, optional: bool, combined: bool, expected: list[str]) -> None:
    loop = getattr(start().not_followed_by("c").where(has("c")), contiguity)("b").where(has("b")).one_or_more()
    loop = loop.optional() if optional else loop
    loop = loop.allow_combinations() if combined else loop
    pattern = loop.followed_by("d").where(has("d"))
    assert matches(pattern, "a b1 c b4 b5 b6 d") == sorted(f"a {part} d" for part in expected)


@pytest.mark.parametrize("within_type", list(WithinType))
def test_not_followed_by_at_the_end_matches_when_the_time_is_over(within_type: WithinType) -> None:
    pattern = start().not_followed_by("b").where(has("b")).within(3, within_type)
    assert matches(pattern, "a1@1 b1@2 a2@4 c@5 b2@10 a3@11 b3@13") == ["a2"]
    last = search(pattern, "a1@1")
    last.advance(3)
    assert last.matches == []
    last.advance(4)
    assert last.matches == [{"a": ["a1"]}]
    assert not last.matching


def test_two_things_that_must_not_follow_at_the_end() -> None:
    pattern = start().not_followed_by("b").where(has("b")).not_followed_by("c").where(has("c")).within(5)
    assert matches(pattern, "a1@1 x@2 y@9") == ["a1"]
    assert matches(pattern, "a1@1 b@2 y@9") == []
    assert matches(pattern, "a1@1 c@2 y@9") == []


def test_not_followed_by_before_optional_times_with_a_time_limit() -> None:
    pattern = (
        start().not_followed_by("b").where(has("b")).followed_by("c").where(has("c")).times(0, 2).within(3)
    )
    found = matches(pattern, "a1@1 b1@2 a2@10 c1@11 c2@12 a3@20 c3@21 c4@24")
    assert found == ["a1", "a2", "a2 c1", "a2 c1 c2", "a3", "a3 c3"]


def test_not_followed_by_at_the_end_behind_a_loop_that_skips() -> None:
    pattern = (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(has("a"))
        .one_or_more().allow_combinations()
        .followed_by("c").where(has("c"))
        .not_followed_by("b").where(has("b"))
        .within(5)
    )
    assert matches(pattern, "a1@1 a2@2 a3@3 c1@4 c2@10") == ["a1 a2 a3 c1"]


def test_what_must_not_come_before_a_range_may_come_within_it() -> None:
    pattern = start().not_followed_by("b").where(has("b")).followed_by("c").where(has("c")).times(1, 2)
    assert matches(pattern, "a c1 x b c2") == ["a c1", "a c1 c2"]


def test_what_must_not_come_before_an_optional_group_may_come_within_it() -> None:
    group = Pattern.begin("c").where(has("c")).followed_by("d").where(has("d"))
    pattern = (
        start().not_followed_by("b").where(has("b")).followed_by(group).optional().followed_by("e").where(has("e"))
    )
    assert matches(pattern, "a c x b d b e") == ["a c d e"]
    assert matches(pattern, "a x b c d e") == []
