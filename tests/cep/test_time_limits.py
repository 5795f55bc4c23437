"""within: how long a match may take, and what becomes of a partial match when the time is over."""

from __future__ import annotations

from datetime import timedelta

from millrace.cep import Pattern, WithinType
from millrace.cep.compiler import compile_pattern
from millrace.common import Duration, Time
from tests.cep.matching import has, matches, search

GAP = WithinType.PREVIOUS_AND_CURRENT


def a_b() -> Pattern:
    return Pattern.begin("a").where(has("a")).followed_by("b").where(has("b"))


def test_a_match_takes_less_than_the_limit() -> None:
    assert matches(a_b().within(10), "a1@1 b1@10") == ["a1 b1"]
    assert matches(a_b().within(10), "a1@1 b1@11") == []


def test_the_least_limit_of_all_patterns_counts() -> None:
    pattern = a_b().within(timedelta(seconds=10)).followed_by("c").within(Duration.of_seconds(20)).followed_by("d")
    assert compile_pattern(pattern).window == 10_000
    assert compile_pattern(a_b().within(Time.seconds(3))).window == 3_000
    inner = Pattern.begin(a_b().within(5)).within(9)
    assert compile_pattern(inner).window == 5


def test_a_partial_match_times_out_at_its_limit() -> None:
    found = search(a_b().within(10), "a1@1 a2@3 x@12", times_out=True)
    assert found.timed_out == [({"a": ["a1"]}, 11)]
    found.advance(100)
    assert found.timed_out == [({"a": ["a1"]}, 11), ({"a": ["a2"]}, 13)]
    assert not found.matching


def test_partial_matches_time_out_in_the_order_of_their_limits_however_far_time_goes_at_once() -> None:
    pattern = (
        Pattern.begin("a").where(has("a"))
        .followed_by("b").where(has("b")).within(3, GAP)
        .followed_by("c").where(has("c")).within(9, GAP)
    )
    found = search(pattern, "a1@1 b1@2 a2@3", times_out=True)
    found.advance(1000)
    assert found.timed_out == [({"a": ["a2"]}, 6), ({"a": ["a1"], "b": ["b1"]}, 11)]


def test_the_gap_to_the_event_before_is_limited() -> None:
    pattern = a_b().within(3, GAP).followed_by("c").where(has("c"))
    assert matches(pattern, "a1@1 x@2 b1@3 c1@90") == ["a1 b1 c1"]
    assert matches(pattern, "a1@1 x@2 b1@4 c1@5") == []


def test_the_gaps_in_a_loop_are_limited_and_the_way_out_of_it_is_not() -> None:
    loop = Pattern.begin("a").where(has("a")).one_or_more().within(3, GAP)
    pattern = loop.followed_by("b").where(has("b"))
    assert matches(pattern, "a1@1 a2@3 a3@7 b1@50") == ["a1 a2 b1", "a1 b1", "a2 b1", "a3 b1"]


def test_a_loop_at_the_end_is_over_when_its_gap_is() -> None:
    loop = Pattern.begin("a").where(has("a")).times_or_more(2).within(3, GAP)
    found = search(loop, "a1@1 a2@2 a3@9")
    assert [match["a"] for match in found.matches] == [["a1", "a2"]]
    found.advance(12)
    assert not found.matching


def test_a_fixed_number_of_times_with_limited_gaps() -> None:
    pattern = Pattern.begin("a").where(has("a")).times(3).within(3, GAP)
    assert matches(pattern, "a1@1 a2@3 a3@5 a4@9") == ["a1 a2 a3"]


def test_without_a_limit_partial_matches_stay() -> None:
    found = search(a_b(), "a1@1 x@1000000")
    found.advance(2**62)
    assert len(found.matching.runs) == 1
