"""Groups of patterns, with quantifiers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.cep import Pattern
from tests.cep.matching import has, matches

Quantify = Callable[[Pattern], Pattern]

TWO = "c a1 b1 a2 b2 d"
THREE = "c a1 b1 a2 b2 a3 b3 d"
AB1, AB2, AB3 = "a1 b1", "a2 b2", "a3 b3"


def group() -> Pattern:
    return Pattern.begin("a").where(has("a")).followed_by("b").where(has("b"))


CASES: list[tuple[str, str, Quantify, str, list[str]]] = [
    ("twice", "followed_by", lambda p: p.times(2), TWO, [f"{AB1} {AB2}"]),
    ("optional", "followed_by", lambda p: p.optional(), "c a1 a2 b1 d", ["", AB1]),
    ("twice or not at all", "followed_by", lambda p: p.times(2).optional(), "c a1 d", [""]),
    ("one or more", "followed_by", lambda p: p.one_or_more(), TWO, [AB1, f"{AB1} {AB2}"]),
    ("zero or more", "followed_by", lambda p: p.one_or_more().optional(), TWO, ["", AB1, f"{AB1} {AB2}"]),
    ("any, twice, combined", "followed_by_any", lambda p: p.times(2).allow_combinations(), THREE,
     [f"{AB1} {AB2}", f"{AB1} {AB3}", f"{AB2} {AB3}"]),
    ("any, twice or not at all", "followed_by_any", lambda p: p.times(2).optional(), THREE,
     ["", f"{AB1} {AB2}", f"{AB2} {AB3}"]),
    ("any, one or more", "followed_by_any", lambda p: p.one_or_more(), THREE,
     [AB1, AB2, AB3, f"{AB1} {AB2}", f"{AB2} {AB3}", f"{AB1} {AB2} {AB3}"]),
    ("next, twice, consecutive", "next", lambda p: p.times(2).consecutive(), TWO, [f"{AB1} {AB2}"]),
    ("next, but not at once", "next", lambda p: p.times(2), f"c x1 {AB1} {AB2} d", []),
    ("twice, consecutive, others between", "followed_by", lambda p: p.times(2).consecutive(),
     f"c {AB1} x1 {AB2} d", []),
    ("one or more, consecutive", "followed_by", lambda p: p.one_or_more().consecutive(),
     f"c {AB1} x1 {AB2} d", [AB1]),
]  # fmt: skip


@pytest.mark.parametrize(("contiguity", "quantify", "events", "expected"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_a_group_between_two_events(contiguity: str, quantify: Quantify, events: str, expected: list[str]) -> None:
    start = Pattern.begin("c").where(has("c"))
    pattern = quantify(getattr(start, contiguity)(group())).followed_by("d").where(has("d"))
    if "a2 b1" in events:
        expected = [part.replace(AB1, "a1 b1") for part in expected]
    assert matches(pattern, events) == sorted(f"c {part} d".replace("  ", " ") for part in expected)


def test_a_group_at_the_beginning_begins_at_each_event() -> None:
    pattern = Pattern.begin(group()).times(2).followed_by("d").where(has("d"))
    assert matches(pattern, f"{AB1} {AB2} {AB3} d") == [f"{AB1} {AB2} d", f"{AB2} {AB3} d"]


def test_a_group_at_the_end_matches_at_each_turn() -> None:
    pattern = Pattern.begin("c").where(has("c")).followed_by(group()).one_or_more()
    assert matches(pattern, f"c {AB1} {AB2}") == [f"c {AB1}", f"c {AB1} {AB2}"]


def test_a_group_in_a_group() -> None:
    inner = Pattern.begin("b").where(has("b")).next("c").where(has("c"))
    outer = Pattern.begin("a").where(has("a")).followed_by(inner).times(2)
    pattern = Pattern.begin(outer).followed_by("d").where(has("d"))
    assert matches(pattern, "a b1 c1 b2 c2 d") == ["a b1 c1 b2 c2 d"]
    assert matches(pattern, "a b1 x c1 b2 c2 d") == []


def test_a_loop_in_a_group() -> None:
    inner = Pattern.begin("a").where(has("a")).one_or_more().consecutive().next("b").where(has("b"))
    pattern = Pattern.begin("c").where(has("c")).followed_by(inner).times(2)
    assert matches(pattern, "c a1 a2 b1 a3 b2") == ["c a1 a2 b1 a3 b2"]


@pytest.mark.parametrize("quantify", [lambda p: p.one_or_more(), lambda p: p.times(1, 3)])
def test_a_group_is_found_once_however_many_events_lie_behind_it(quantify: Quantify) -> None:
    pattern = quantify(Pattern.begin("c").where(has("c")).followed_by(group())).followed_by("d").where(has("d"))
    assert matches(pattern, f"c {AB1} x1 x2 x3 d") == [f"c {AB1} d"]


def test_the_contiguity_of_a_group_is_that_of_the_group_at_its_head() -> None:
    inner = Pattern.begin("a").where(has("a")).next("b").where(has("b"))
    outer = Pattern.begin(inner).followed_by("e").where(has("e"))
    assert matches(Pattern.begin("c").where(has("c")).followed_by(outer), "c x1 a b e") == ["c a b e"]
    assert matches(Pattern.begin("c").where(has("c")).next(outer), "c x1 a b e") == []
