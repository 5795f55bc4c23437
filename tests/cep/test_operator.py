"""A pattern on a stream: order, lateness, timestamps, side outputs, state and timers."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from millrace.cep import (
    CEP,
    AfterMatchSkipStrategy,
    EventComparator,
    IterativeCondition,
    Pattern,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from millrace.common.errors import ProgramError
from millrace.datastream import OutputTag, StreamExecutionEnvironment
from tests.cep.streams import PatternHarness, a_then_b, is_a, letters

LATE = OutputTag("late")
TIMED_OUT = OutputTag("timed out")


def test_events_are_put_in_order_once_the_watermark_has_passed_them() -> None:
    with PatternHarness(a_then_b()) as harness:
        harness.push_letters("b1@20 b2@40 a1@10 a2@30")
        assert harness.output == []
        harness.watermark(25)
        assert harness.records == [("u: a1 b1", 20)]
        harness.watermark(40)
        assert harness.records == [("u: a1 b1", 20), ("u: a2 b2", 40)]


def test_each_key_has_matches_of_its_own() -> None:
    with PatternHarness(a_then_b()) as harness:
        harness.push_letters("a1@1", "ann")
        harness.push_letters("b1@2", "bob")
        harness.push_letters("b2@3", "ann")
        harness.watermark(10)
        assert harness.output == ["ann: a1 b2"]


def test_a_stream_without_keys_is_searched_as_a_whole() -> None:
    with PatternHarness(a_then_b(), keyed=False) as harness:
        harness.push_letters("a1@1", "ann")
        harness.push_letters("b1@2", "bob")
        harness.watermark(10)
        assert harness.output == ["ann: a1 b1"]
        harness.watermark(1000)
        assert harness.kept() == {}


def test_a_stream_without_keys_runs_in_one_subtask() -> None:
    env = StreamExecutionEnvironment().set_parallelism(4)
    found = CEP.pattern(env.from_collection([("u", "a")]), a_then_b()).select(letters)
    assert [env.get_stream_graph("").nodes[outlet.node_id].parallelism for outlet in found._outlets] == [1]


def test_late_events_are_dropped_and_counted() -> None:
    with PatternHarness(a_then_b()) as harness:
        harness.watermark(10)
        harness.push_letters("a1@10 a2@11 b1@12 a0@9")
        harness.watermark(20)
        assert harness.output == ["u: a2 b1"]
        assert harness.metrics["numLateRecordsDropped"] == 2


def test_late_events_go_to_a_side_output() -> None:
    with PatternHarness(a_then_b(), lambda found: found.side_output_late_data(LATE).select(letters)) as harness:
        harness.watermark(10)
        harness.push_letters("a1@10 a2@11")
        assert harness.side_records(LATE) == [(("u", "a1"), 10)]
        assert harness.metrics["numLateRecordsDropped"] == 0


def test_events_without_timestamps_are_refused() -> None:
    with pytest.raises(ProgramError, match="no timestamps"), PatternHarness(a_then_b()) as harness:
        harness.push_letters("a1")


def test_events_of_one_timestamp_stay_as_they_came_or_follow_a_comparator() -> None:
    def by_letter(one: Any, other: Any) -> int:
        return (one[1] > other[1]) - (one[1] < other[1])

    class ByLetter(EventComparator):
        def compare(self, one, other):
            return by_letter(one, other)

    for comparator, expected in ((None, []), (by_letter, ["u: a1 b1"]), (ByLetter(), ["u: a1 b1"])):
        with PatternHarness(a_then_b(), comparator=comparator) as harness:
            harness.push_letters("b1@5 a1@5")
            harness.watermark(5)
            assert harness.output == expected


# --- functions --------------------------------------------------------------------------------------------------


def test_flat_select_gives_any_number_of_records() -> None:
    def twice(match):
        yield letters(match)
        yield letters(match).upper()

    with PatternHarness(a_then_b(), lambda found: found.flat_select(twice)) as harness:
        harness.push_letters("a1@1 b1@2")
        harness.watermark(10)
        assert harness.records == [("u: a1 b1", 2), ("U: A1 B1", 2)]
    with PatternHarness(a_then_b(), lambda found: found.flat_select(lambda match: None)) as harness:
        harness.push_letters("a1@1 b1@2")
        harness.watermark(10)
        assert harness.output == []


def test_partial_matches_that_time_out_go_to_a_side_output() -> None:
    def select(found):
        return found.select(letters, timeout_tag=TIMED_OUT, timeout_fn=lambda match, time: (letters(match), time))

    with PatternHarness(a_then_b(), select) as harness:
        harness.push_letters("a1@1 b1@2 a2@50")
        harness.watermark(149)
        assert harness.side_output(TIMED_OUT) == []
        harness.watermark(150)
        assert harness.records == [("u: a1 b1", 2)]
        assert harness.side_records(TIMED_OUT) == [(("u: a2", 150), 150)]
        assert harness.kept() == {}


class Report(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        yield letters(match), ctx.timestamp(), ctx.current_processing_time()
        yield LATE, "also aside"

    def process_timed_out_match(self, match, ctx):
        ctx.output(TIMED_OUT, (letters(match), ctx.timestamp()))


def test_a_process_function_sees_matches_and_what_timed_out() -> None:
    with PatternHarness(a_then_b(), lambda found: found.process(Report()), processing_time=7) as harness:
        harness.push_letters("a1@1 b1@2 a2@50")
        harness.watermark(1000)
        assert harness.records == [(("u: a1 b1", 2, 7), 2)]
        assert harness.side_records(LATE) == [("also aside", 2)]
        assert harness.side_records(TIMED_OUT) == [(("u: a2", 150), 150)]


class Life:
    """Notes when it is opened and closed."""

    log: ClassVar[list[str]] = []

    def open(self, runtime_context):
        self.log.append(f"open {type(self).__name__} in {runtime_context.get_task_name()}")

    def close(self):
        self.log.append(f"close {type(self).__name__}")


class Select(Life, PatternSelectFunction):
    def select(self, match):
        return letters(match)


class Timeout(Life, PatternTimeoutFunction):
    def timeout(self, match, timestamp):
        return letters(match), timestamp


class Rich(Life, IterativeCondition):
    def filter(self, value, ctx):
        return value[1][0] == "a"


class Flat(PatternFlatSelectFunction):
    def flat_select(self, match):
        return [letters(match)]


class FlatTimeout(PatternFlatTimeoutFunction):
    def timeout(self, match, timestamp):
        return [timestamp, timestamp]


def test_function_objects_and_conditions_are_opened_and_closed_once() -> None:
    pattern = Pattern.begin("a").where(Rich()).times(2).within(10)
    make = lambda found: found.select(Select(), timeout_tag=TIMED_OUT, timeout_fn=Timeout())  # noqa: E731
    Life.log.clear()
    with PatternHarness(pattern, make) as harness:
        harness.push_letters("a1@1 a2@2 a3@50")
        harness.watermark(100)
        harness.end_epoch()
        assert harness.output == ["u: a1 a2"]
        assert harness.side_output(TIMED_OUT) == [("u: a2", 12), ("u: a3", 60)]
    names = ["Select", "Timeout", "Rich"]
    assert Life.log == [f"open {name} in CepOperator" for name in names] + [f"close {name}" for name in names]


def test_flat_function_objects() -> None:
    make = lambda found: found.flat_select(Flat(), timeout_tag=TIMED_OUT, timeout_fn=FlatTimeout())  # noqa: E731
    with PatternHarness(a_then_b(), make) as harness:
        harness.push_letters("a1@1 b1@2 a2@3")
        harness.watermark(200)
        assert harness.output == ["u: a1 b1"]
        assert harness.side_output(TIMED_OUT) == [103, 103]


def test_a_condition_that_fails_is_told_with_its_event() -> None:
    def fails(event):
        return 1 / 0

    with PatternHarness(Pattern.begin("a").where(fails)) as harness:
        harness.push_letters("a1@1")
        with pytest.raises(ZeroDivisionError):
            harness.watermark(5)
    with PatternHarness(Pattern.begin("a").where(fails), on_error="skip") as harness:
        harness.push_letters("a1@1")
        harness.watermark(5)
        assert (harness.output, harness.skipped) == ([], 1)


def test_a_function_that_fails_follows_the_policy() -> None:
    bad = OutputTag("bad")
    with PatternHarness(a_then_b(), lambda found: found.select(lambda match: match["no"]), on_error=bad) as harness:
        harness.push_letters("a1@1 b1@2")
        harness.watermark(5)
        assert [record.value for record in harness.side_output(bad)] == [{"a": [("u", "a1")], "b": [("u", "b1")]}]


# --- state ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [True, False])
def test_an_epoch_may_end_anywhere(typed: bool) -> None:
    events = "a1@1 b1@2 a2@3 a3@4 b2@5 b3@6"
    with PatternHarness(a_then_b(), typed=typed) as whole:
        whole.push_letters(events)
        whole.watermark(50)
    with PatternHarness(a_then_b(), typed=typed) as cut:
        for time, event in enumerate(events.split()):
            cut.push_letters(event)
            cut.end_epoch()
            cut.watermark(time)
            cut.end_epoch()
        cut.watermark(50)
    assert whole.records == cut.records


@pytest.mark.parametrize("typed", [True, False])
def test_a_search_goes_on_from_a_snapshot(typed: bool) -> None:
    pattern = Pattern.begin("a").where(is_a("a")).one_or_more().followed_by("b").where(is_a("b")).within(100)
    with PatternHarness(pattern, typed=typed) as before:
        before.push_letters("a1@1 a2@2 a3@30")
        before.watermark(10)
        snapshot = before.snapshot()
    with PatternHarness(pattern, typed=typed, snapshot=snapshot) as after:
        assert after.event_time_timers == [("u", 30)]
        after.push_letters("b1@20")
        after.watermark(25)
        assert sorted(after.take()) == ["u: a1 a2 b1", "u: a1 b1", "u: a2 b1"]
        after.push_letters("b2@101")
        after.watermark(101)
        assert after.take() == ["u: a2 a3 b2", "u: a3 b2"]
        after.watermark(1000)
        assert after.kept() == {}


def test_a_match_that_waits_for_another_survives() -> None:
    pattern = (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(is_a("a"))
        .followed_by("b").where(lambda event, ctx: event[1] == "b" + ctx.get_events_for_pattern("a")[0][1][1])
        .within(50)
    )
    with PatternHarness(pattern) as before:
        before.push_letters("a1@1 a2@2 b2@3")
        before.watermark(10)
        assert before.output == []
        snapshot = before.snapshot()
    with PatternHarness(pattern, snapshot=snapshot) as after:
        after.watermark(51)
        assert after.records == [("u: a2 b2", 51)]
        assert after.kept() == {}


def test_nothing_is_pickled_where_the_type_of_the_stream_is_declared() -> None:
    with PatternHarness(a_then_b()) as harness:
        harness.push_letters("a1@1 a2@20")
        harness.watermark(10)
        harness.end_epoch()
        tables = harness._backends.keyed.tables()
        assert len(tables) == 3
        assert "pickled" not in str([codec.type_json for table in tables for codec in table.codecs.values()]).lower()


@pytest.mark.parametrize(
    "pattern",
    [
        a_then_b(),
        Pattern.begin("a").where(is_a("a")).one_or_more().allow_combinations().within(20),
        Pattern.begin("a").where(is_a("a")).not_followed_by("b").where(is_a("b")).within(20),
        Pattern.begin("a").where(is_a("a")).not_followed_by("b").where(is_a("b")).within(
            20, WithinType.PREVIOUS_AND_CURRENT
        ),
        Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(is_a("a")).times(2).within(20),
    ],
)
def test_nothing_is_left_when_the_watermark_has_passed_all(pattern: Pattern) -> None:
    with PatternHarness(pattern) as harness:
        for user in ("ann", "bob"):
            harness.push_letters("a1@1 x@2 a2@9 b1@30 a3@31 a4@32 b2@33 a5@90", user)
        harness.watermark(40)
        assert set(harness.kept()) >= {"cep-waiting", "event timers"}
        harness.watermark(89)
        assert set(harness.kept()) <= {"cep-waiting", "cep-matches", "cep-events", "event timers"}
        harness.watermark(1000)
        assert harness.kept() == {}


def test_a_key_has_one_timer() -> None:
    with PatternHarness(a_then_b()) as harness:
        harness.push_letters("a3@30 a1@10 a2@20 a4@5")
        assert harness.event_time_timers == [("u", 5)]
        harness.watermark(15)
        assert harness.event_time_timers == [("u", 20)]
        harness.watermark(50)
        assert harness.event_time_timers == [("u", 105)]


def test_a_pattern_that_changed_is_told() -> None:
    with PatternHarness(a_then_b()) as before:
        before.push_letters("a1@1")
        before.watermark(5)
        snapshot = before.snapshot()
    other = Pattern.begin("z").where(is_a("z")).followed_by("y").within(10)
    with pytest.raises(ProgramError, match="a partial match at 'b'"), PatternHarness(other, snapshot=snapshot) as after:
        after.push_letters("a1@6")


# --- processing time --------------------------------------------------------------------------------------------


def in_processing_time(found):
    return found.in_processing_time().process(Report())


def test_in_processing_time_events_are_taken_as_they_come() -> None:
    with PatternHarness(a_then_b(), in_processing_time) as harness:
        harness.set_processing_time(10)
        harness.push_letters("a1")
        harness.set_processing_time(20)
        harness.push_letters("b1 a2")
        assert harness.records == [(("u: a1 b1", 20, 20), None)]
        harness.set_processing_time(119)
        assert harness.side_output(TIMED_OUT) == []
        harness.set_processing_time(125)
        assert harness.side_records(TIMED_OUT) == [(("u: a2", 120), None)]
        assert harness.kept() == {}


def test_in_processing_time_a_comparator_orders_what_comes_in_an_epoch() -> None:
    def by_letter(one: Any, other: Any) -> int:
        return (one[1] > other[1]) - (one[1] < other[1])

    make = lambda found: found.in_processing_time().select(letters)  # noqa: E731
    with PatternHarness(a_then_b(), make, comparator=by_letter) as harness:
        harness.push_letters("b1 a1")
        assert harness.output == []
        harness.advance_processing_time(1)
        assert harness.output == ["u: a1 b1"]
        harness.push_letters("b2 a2")
        harness.end_of_input()
        assert harness.output == ["u: a1 b1", "u: a2 b2"]


def test_the_last_choice_of_time_counts() -> None:
    make = lambda found: found.in_processing_time().in_event_time().select(letters)  # noqa: E731
    with PatternHarness(a_then_b(), make) as harness:
        harness.push_letters("b1@2 a1@1")
        harness.watermark(5)
        assert harness.output == ["u: a1 b1"]


def test_in_batch_mode_time_ends_for_each_key() -> None:
    def select(found):
        return found.select(letters, timeout_tag=TIMED_OUT, timeout_fn=lambda match, _: letters(match))

    with PatternHarness(a_then_b(), select, batch=True) as harness:
        harness.push_letters("b1@2 a1@1 a2@3", "ann")
        harness.push_letters("a3@5", "bob")
        harness.end_of_input()
        assert harness.output == ["ann: a1 b1"]
        assert sorted(harness.side_output(TIMED_OUT)) == ["ann: a2", "bob: a3"]
