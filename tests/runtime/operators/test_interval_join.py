"""Interval joins, statement by statement: Flink's IntervalJoinOperator is the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millrace.common import Time, Types
from millrace.common.errors import ProgramError
from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.datastream import DataStream, OutputTag, ProcessJoinFunction
from millrace.runtime.operators.joins.time_buffer import ENTRY, TimeBuffer
from millrace.state import MapStateDescriptor
from millrace.testing import TwoStreamsHarness

LEFT = TimeBuffer.descriptor("left", None)
RIGHT = TimeBuffer.descriptor("right", None)
LATE_LEFT = OutputTag("late left")
LATE_RIGHT = OutputTag("late right")


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def harness(
    lower: Any, upper: Any, *settings: str, function: Any = None, how: str = "inner", **options: Any
) -> TwoStreamsHarness:
    """Records are strings; the first letter is the key."""

    def join(left: DataStream, right: DataStream) -> DataStream:
        keyed = [stream.key_by(lambda value: value[0], Types.STRING()) for stream in (left, right)]
        joined = keyed[0].interval_join(keyed[1], how).in_event_time().between(lower, upper)
        for setting in settings:
            joined = getattr(joined, setting)()
        if "late" in options:
            joined.side_output_left_late_data(LATE_LEFT).side_output_right_late_data(LATE_RIGHT)
        return joined.process(function or Pair())

    return TwoStreamsHarness(join, **{name: value for name, value in options.items() if name != "late"})


def is_empty(joined: TwoStreamsHarness) -> bool:
    return not (joined.keys(LEFT) or joined.keys(RIGHT) or joined.event_time_timers)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), [8, 9, 10, 11, 13]),
        (("lower_bound_exclusive",), [9, 10, 11, 13]),
        (("upper_bound_exclusive",), [8, 9, 10, 11]),
        (("lower_bound_exclusive", "upper_bound_exclusive"), [9, 10, 11]),
    ],
)
@pytest.mark.parametrize("left_first", [True, False])
def test_bounds_are_inclusive_unless_it_is_said_otherwise(
    settings: tuple[str, ...], expected: list[int], left_first: bool
) -> None:
    with harness(-2, 3, *settings) as joined:
        if left_first:
            joined.push1("a", 10)
        for timestamp in (7, 8, 9, 10, 11, 13, 14):
            joined.push2(f"a{timestamp}", timestamp)
        if not left_first:
            joined.push1("a", 10)
        assert sorted(int(right[1:]) for _, right in joined.output) == expected


def test_bounds_may_be_spans_of_time() -> None:
    with harness(Time.seconds(-1), Time.seconds(1)) as joined:
        joined.push1("a", 5000)
        joined.push2("a far", 6001)
        joined.push2("a near", 6000)
        assert joined.output == [("a", "a near")]


def test_only_records_of_one_key_are_joined() -> None:
    with harness(0, 10) as joined:
        joined.push1("a", 0)
        joined.push2("b", 0)
        assert joined.output == []


def test_the_result_has_the_later_timestamp_and_the_context_tells_all_three() -> None:
    class Times(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()

    with harness(-5, 5, function=Times()) as joined:
        joined.push1("a", 3)
        joined.push2("a", 7)
        joined.push2("a", 1)
        assert joined.records == [((3, 7, 7), 7), ((3, 1, 3), 3)]


def test_records_meet_in_the_order_of_time_and_then_of_arrival() -> None:
    with harness(-10, 10) as joined:
        for value, timestamp in [("a9", 9), ("a2", 2), ("a9 again", 9), ("a5", 5), ("a9 third", 9)]:
            joined.push2(value, timestamp)
        joined.push1("a", 6)
        assert [right for _, right in joined.output] == ["a2", "a5", "a9", "a9 again", "a9 third"]


def test_a_record_behind_the_watermark_is_dropped_and_counted() -> None:
    with harness(-10, 10) as joined:
        joined.push2("a", 10)
        joined.watermark(10)
        joined.push1("a late", 9)
        joined.push1("a at the watermark", 10)
        joined.push2("a late", 9)
        assert joined.output == [("a at the watermark", "a")]
        assert joined.metrics["numLateRecordsDropped"] == 2


def test_a_record_behind_the_watermark_goes_to_the_side_output_of_its_side() -> None:
    with harness(-10, 10, late=True) as joined:
        joined.watermark(10)
        joined.push1("a left", 9)
        joined.push2("a right", 8)
        assert joined.side_records(LATE_LEFT) == [("a left", 9)]
        assert joined.side_records(LATE_RIGHT) == [("a right", 8)]
        assert joined.metrics["numLateRecordsDropped"] == 0
        assert is_empty(joined)


@pytest.mark.parametrize(
    ("lower", "upper", "left_until", "right_until"),
    [(-2, 3, 13, 12), (1, 3, 13, 10), (-3, -1, 10, 13), (0, 0, 10, 10), (2, 2, 12, 10)],
)
def test_a_record_stays_until_the_watermark_reaches_the_last_time_at_which_it_could_meet_one(
    lower: int, upper: int, left_until: int, right_until: int
) -> None:
    with harness(lower, upper) as joined:
        joined.push1("a", 10)
        joined.push2("b", 10)
        assert joined.event_time_timers == sorted([("a", left_until), ("b", right_until)], key=lambda item: item[1])
        joined.watermark(min(left_until, right_until) - 1)
        assert joined.keys(LEFT) == ["a"]
        assert joined.keys(RIGHT) == ["b"]
        joined.watermark(left_until)
        assert joined.keys(LEFT) == []
        joined.watermark(max(left_until, right_until))
        assert is_empty(joined)


def test_one_timer_for_a_key_and_side_removes_all_that_is_over() -> None:
    with harness(0, 10) as joined:
        for timestamp in (5, 4, 6, 40, 50):
            joined.push1("a", timestamp)
        assert joined.event_time_timers == [("a", 14), ("a", 15)]
        joined.watermark(30)
        assert list(joined.state(LEFT, "a")) == [(40, 0), (50, 0)]
        assert joined.event_time_timers == [("a", 50)]
        joined.end_of_input()
        assert is_empty(joined)


@pytest.mark.parametrize("timestamp", [None, MIN_TIMESTAMP])
def test_a_record_without_a_timestamp_is_an_error(timestamp: int | None) -> None:
    with harness(0, 1) as joined, pytest.raises(ProgramError, match="needs a timestamp for each record"):
        joined.push1("a", timestamp)


def test_times_at_the_ends_of_the_scale_do_not_overflow() -> None:
    with harness(-(1 << 62), 1 << 62) as joined:
        joined.push1("a", MAX_WATERMARK - 1)
        joined.push2("a", MAX_WATERMARK - 1)
        joined.push2("b", MIN_TIMESTAMP + 1)
        assert len(joined.output) == 1
        joined.end_epoch()
        joined.end_of_input()
        assert is_empty(joined)


def test_the_context_and_yielded_pairs_reach_side_outputs() -> None:
    seen = OutputTag("seen")

    class Aside(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
            ctx.output(seen, left)
            yield seen, right

    with harness(0, 5, function=Aside()) as joined:
        joined.push1("a left", 1)
        joined.push2("a right", 3)
        assert joined.side_records(seen) == [("a left", 3), ("a right", 3)]
        assert joined.output == []


def test_a_pair_on_which_the_function_fails_follows_the_policy() -> None:
    class Fails(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
            yield right
            if right == "a bad":
                raise ValueError("no")

    with harness(0, 5, function=Fails(), on_error="skip") as joined:
        joined.push1("a", 1)
        joined.push2("a bad", 1)
        joined.push2("a good", 2)
        assert joined.records == [("a good", 2)]
        assert joined.skipped == 1
    with harness(0, 5, function=Fails()) as joined:
        joined.push1("a", 1)
        with pytest.raises(ValueError, match="no"):
            joined.push2("a bad", 1)


def test_what_waits_survives_into_another_process() -> None:
    with harness(-5, 5) as joined:
        joined.push1("a1", 10)
        joined.push1("a2", 8)
        joined.push2("b", 9)
        joined.watermark(8)
        snapshot = joined.snapshot()
    with harness(-5, 5, snapshot=snapshot) as joined:
        joined.push2("a", 9)
        joined.push1("b", 9)
        joined.push1("a late", 7)
        assert joined.output == [("a2", "a"), ("a1", "a"), ("b", "b")]
        joined.end_of_input()
        assert is_empty(joined)


def test_state_of_declared_types_needs_no_pickle() -> None:
    with harness(-5, 5, input_types=(Types.STRING(), Types.STRING())) as joined:
        joined.push1("a1", 10)
        joined.push2("a1", 10)
        tables = joined._backends.keyed.tables()
        untyped = {role for table in tables for role, codec in table.codecs.items() if codec.type_info is None}
        assert untyped == {"count"}  # the codec of plain numbers
        joined.end_of_input()


class TestOuter:
    def test_a_left_record_without_a_partner_is_joined_with_none_when_its_time_is_over(self) -> None:
        with harness(-1, 5, how="left") as joined:
            joined.push1("a alone", 10)
            joined.push1("a met", 11)
            joined.push2("a", 16)
            joined.push2("b", 16)
            joined.watermark(14)
            assert joined.take() == [("a met", "a")]
            joined.watermark(15)
            assert joined.records == [(("a alone", None), 15)]
            joined.end_of_input()
            assert joined.output == [("a alone", None)]
            assert is_empty(joined)
            assert joined.keys(MapStateDescriptor("left-matched", ENTRY, Types.BOOLEAN())) == []

    @pytest.mark.parametrize(
        ("how", "expected"),
        [
            ("inner", [("a", "a")]),
            ("left", [("a", "a"), ("l", None)]),
            ("right", [("a", "a"), (None, "r")]),
            ("outer", [("a", "a"), ("l", None), (None, "r")]),
        ],
    )
    def test_how_says_which_sides_keep_what_has_no_partner(self, how: str, expected: list[Any]) -> None:
        with harness(0, 5, how=how) as joined:
            for value in "al":
                joined.push1(value, 1)
            for value in "ar":
                joined.push2(value, 1)
            joined.end_epoch()
            joined.end_of_input()
            assert sorted(joined.output, key=repr) == sorted(expected, key=repr)

    def test_unmatched_results_are_not_late_behind_the_join(self) -> None:
        with harness(0, 5, how="outer") as joined:
            joined.push1("a", 10)
            joined.watermark(14)
            joined.watermark(20)
            assert joined.records == [(("a", None), 15)]


def test_in_batch_mode_a_keys_records_are_joined_in_the_order_of_time() -> None:
    with harness(-1, 1, how="left", batch=True) as joined:
        joined.push1("a3", 3)
        joined.push1("b1", 1)
        joined.push2("a2", 2)
        joined.push2("b9", 9)
        joined.push1("a1", 1)
        joined.end_of_input()
        assert joined.output == [("a1", "a2"), ("a3", "a2"), ("b1", None)]
        assert is_empty(joined)
