"""After a match: what becomes of the others."""

from __future__ import annotations

import pytest

from millrace.cep import AfterMatchSkipStrategy as Skip
from millrace.cep import Pattern
from millrace.common.errors import ProgramError
from tests.cep.matching import has, matches, search


def test_no_skip_finds_all() -> None:
    pattern = Pattern.begin("a", Skip.no_skip()).where(has("a")).times(3)
    assert matches(pattern, "a1 a2 a3 a4 a5 a6") == ["a1 a2 a3", "a2 a3 a4", "a3 a4 a5", "a4 a5 a6"]


def test_skip_past_last_event_finds_matches_that_do_not_overlap() -> None:
    pattern = Pattern.begin("a", Skip.skip_past_last_event()).where(has("a")).times(3)
    assert matches(pattern, "a1 a2 a3 a4 a5 a6") == ["a1 a2 a3", "a4 a5 a6"]


def test_skip_to_next_finds_one_match_for_each_first_event() -> None:
    def pattern(strategy: Skip) -> Pattern:
        return Pattern.begin("a", strategy).where(has("a")).followed_by_any("b").where(has("b"))

    assert matches(pattern(Skip.no_skip()), "a1 b1 a2 b2") == ["a1 b1", "a1 b2", "a2 b2"]
    assert matches(pattern(Skip.skip_to_next()), "a1 b1 a2 b2") == ["a1 b1", "a2 b2"]


def test_skip_to_next_with_a_loop_at_the_end() -> None:
    pattern = Pattern.begin("a", Skip.skip_to_next()).where(has("a")).next("b").where(has("b")).one_or_more()
    assert matches(pattern, "a1 b1 b2 b3") == ["a1 b1"]


def pairs(strategy: Skip) -> Pattern:
    return Pattern.begin("a", strategy).where(has("a")).times(2).next("b").where(has("b")).times(2)


def test_skip_to_first() -> None:
    found = matches(pairs(Skip.skip_to_first("b")), "ab1 ab2 ab3 ab4 ab5 ab6")
    assert found == ["ab1 ab2 ab3 ab4", "ab3 ab4 ab5 ab6"]


def test_skip_to_last() -> None:
    found = matches(pairs(Skip.skip_to_last("b")), "ab1 ab2 ab3 ab4 ab5 ab6 ab7")
    assert found == ["ab1 ab2 ab3 ab4", "ab4 ab5 ab6 ab7"]


def test_skip_past_last_event_discards_branches_of_the_same_beginning() -> None:
    pattern = (
        Pattern.begin("a", Skip.skip_past_last_event()).where(has("a"))
        .followed_by_any("b").where(has("b"))
        .followed_by_any("c").where(has("c"))
        .followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a1 a2 b1 b2 c1 c2 d1 d2") == ["a1 b1 c1 d1"]


def test_skip_past_last_event_after_a_partial_match_that_failed() -> None:
    pattern = Pattern.begin("a", Skip.skip_past_last_event()).where(has("a")).next("b").where(has("b"))
    assert matches(pattern, "a1 c a2 b2") == ["a2 b2"]


def test_skip_to_first_where_the_first_pattern_is_optional() -> None:
    pattern = (
        Pattern.begin("x", Skip.skip_to_first("b")).where(has("x")).one_or_more().optional()
        .next("b").where(has("b"))
        .next("c").where(has("c"))
    )
    assert matches(pattern, "ab1 c1 ab2 c2") == ["ab1 c1", "ab2 c2"]


def test_skip_to_the_first_event_of_the_match() -> None:
    pattern = Pattern.begin("b", Skip.skip_to_first("b")).where(has("b")).next("c").where(has("c"))
    assert matches(pattern, "ab1 c1 ab2 c2") == ["ab1 c1", "ab2 c2"]


@pytest.mark.parametrize("strategy", [Skip.skip_to_first("b"), Skip.skip_to_last("b")])
def test_skipping_to_a_loop_at_the_end(strategy: Skip) -> None:
    pattern = Pattern.begin("a", strategy).where(has("a")).next("b").where(has("b")).one_or_more().consecutive()
    assert matches(pattern, "a1 b1 a2 b2 b3 a3 b4") == ["a1 b1", "a2 b2", "a3 b4"]


def missed(strategy: Skip) -> Pattern:
    return (
        Pattern.begin("a", strategy).where(has("a"))
        .next("b").where(has("b")).one_or_more().optional().consecutive()
        .next("c").where(has("c"))
    )


@pytest.mark.parametrize("strategy", [Skip.skip_to_first("b"), Skip.skip_to_last("b")])
def test_a_match_without_the_event_to_skip_to(strategy: Skip) -> None:
    assert matches(missed(strategy), "a c") == ["a c"]
    with pytest.raises(ProgramError, match="the match has no such event"):
        matches(missed(strategy.throw_exception_on_miss()), "a c")


def test_skipping_to_the_first_event_can_be_an_error() -> None:
    pattern = Pattern.begin("a", Skip.skip_to_first("a").throw_exception_on_miss()).where(has("a"))
    with pytest.raises(ProgramError, match="it is the first event of the match"):
        matches(pattern, "a1")


ALL = ["a1 a2 a3 b1", "a2 a3 b1", "a3 b1"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Skip.no_skip(), ALL),
        (Skip.skip_to_next(), ALL),
        (Skip.skip_past_last_event(), ALL[:1]),
        (Skip.skip_to_first("a"), ALL),
        (Skip.skip_to_last("a"), [ALL[0], ALL[2]]),
    ],
)
def test_a_greedy_loop_at_the_beginning(strategy: Skip, expected: list[str]) -> None:
    pattern = (
        Pattern.begin("a", strategy).where(has("a")).one_or_more().consecutive().greedy().next("b").where(has("b"))
    )
    assert matches(pattern, "a1 a2 a3 b1") == expected


def test_a_match_waits_for_partial_matches_that_began_earlier() -> None:
    pattern = (
        Pattern.begin("a", Skip.skip_past_last_event()).where(has("a"))
        .followed_by("b").where(has("b"))
        .followed_by("c").where(has("c"))
        .within(10)
    )
    early = Pattern.begin("x", Skip.skip_past_last_event()).where(has("ax")).followed_by("b").where(
        lambda event, ctx: event[0] == ("b" if ctx.get_events_for_pattern("x")[0][0] == "a" else "y")
    ).within(10)
    assert matches(pattern, "a1 a2 b1 c1 a3 b2 c2") == ["a1 b1 c1", "a3 b2 c2"]
    held = search(early, "x1@1 a1@2 b1@3")
    assert held.matches == []
    assert len(held.matching.held) == 1
    held.advance(11)
    assert held.matches == [{"x": ["a1"], "b": ["b1"]}]
    discarded = search(early, "x1@1 a1@2 b1@3 y1@4")
    assert discarded.matches == [{"x": ["x1"], "b": ["y1"]}]
    assert not discarded.matching


def test_a_match_that_is_complete_is_not_discarded_by_one_that_it_waits_for() -> None:
    pattern = (
        Pattern.begin("a", Skip.skip_to_first("c")).where(has("a"))
        .followed_by("c").where(has("c"))
        .followed_by("b").where(
            lambda event, ctx: "b" in event and ctx.get_events_for_pattern("a")[0][-1] == event[-1]
        )
    )
    assert matches(pattern, "a1 c1 a2 c2 b2 b1") == ["a1 c1 b1", "a2 c2 b2"]


def test_skip_to_first_discards_what_began_before() -> None:
    pattern = (
        Pattern.begin("a or c", Skip.skip_to_first("c*")).where(has("ac"))
        .followed_by("b or c").where(has("bc"))
        .followed_by("c*").where(has("c")).one_or_more().greedy()
        .followed_by("d").where(has("d"))
    )
    assert matches(pattern, "a b c1 c2 c3 d") == ["a b c1 c2 c3 d", "c1 c2 c3 d"]


def test_only_strategies_that_name_a_pattern_can_miss() -> None:
    with pytest.raises(ProgramError, match="names no pattern"):
        Skip.skip_to_next().throw_exception_on_miss()
