"""Temporal joins, statement by statement: Flink SQL's join `FOR SYSTEM_TIME AS OF` an event time is the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millrace.common import Row, RowKind
from millrace.common.errors import ProgramError
from millrace.datastream import DataStream, OutputTag, ProcessJoinFunction
from millrace.runtime.operators.joins.time_buffer import TimeBuffer
from millrace.testing import TwoStreamsHarness

WAITING = TimeBuffer.descriptor("waiting", None)
VERSIONS = TimeBuffer.descriptor("versions", None)
LATE = OutputTag("late")


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def key_of(value: Any) -> Any:
    return value[0][0]  # of a string, or of the string in a Row


def harness(how: str = "inner", function: Any = None, late: bool = False, **options: Any) -> TwoStreamsHarness:
    def join(left: DataStream, right: DataStream) -> DataStream:
        joined = left.key_by(key_of).temporal_join(right.key_by(key_of), how)
        if late:
            joined.side_output_late_data(LATE)
        return joined.process(function or Pair())

    return TwoStreamsHarness(join, **options)


def versions_of(joined: TwoStreamsHarness, key: str) -> list[Any]:
    return list(joined.state(VERSIONS, key).values())


def test_a_record_waits_until_the_watermark_has_reached_its_time() -> None:
    with harness() as joined:
        joined.push2("a v1", 1)
        joined.push1("a", 5)
        joined.watermark(4)
        assert joined.output == []
        joined.push2("a v2", 5)
        joined.watermark(5)
        assert joined.records == [(("a", "a v2"), 5)]
        assert joined.keys(WAITING) == []


def test_a_record_is_joined_with_the_last_version_at_or_before_its_time() -> None:
    with harness() as joined:
        for value, timestamp in [("a v3", 30), ("a v1", 10), ("a v2", 20), ("b v1", 15)]:
            joined.push2(value, timestamp)
        for timestamp in (35, 29, 30, 10, 19, 9):
            joined.push1(f"a{timestamp}", timestamp)
        joined.watermark(100)
        assert joined.output == [
            ("a10", "a v1"), ("a19", "a v1"), ("a29", "a v2"), ("a30", "a v3"), ("a35", "a v3"),
        ]  # fmt: skip


def test_without_a_version_an_inner_join_gives_nothing_and_a_left_join_none() -> None:
    for how, expected in (("inner", []), ("left", [("a", None), ("b", None)])):
        with harness(how) as joined:
            joined.push1("a", 5)
            joined.push1("b", 6)
            joined.push2("a v1", 6)
            joined.watermark(10)
            assert joined.output == expected


def test_of_versions_with_the_same_time_the_last_one_counts() -> None:
    with harness() as joined:
        joined.push2("a v1", 5)
        joined.push2("a v2", 5)
        joined.push1("a", 5)
        joined.watermark(5)
        assert joined.output == [("a", "a v2")]


def test_only_the_last_version_below_the_watermark_and_those_above_it_are_kept() -> None:
    with harness() as joined:
        for timestamp in (10, 20, 30, 40):
            joined.push2(f"a{timestamp}", timestamp)
        joined.watermark(9)
        assert len(versions_of(joined, "a")) == 4
        joined.watermark(19)
        assert len(versions_of(joined, "a")) == 4
        joined.watermark(30)
        assert versions_of(joined, "a") == ["a30", "a40"]
        joined.end_epoch()
        joined.end_of_input()
        assert versions_of(joined, "a") == ["a40"]
        assert joined.event_time_timers == []


def test_a_late_version_counts_for_the_records_to_come() -> None:
    with harness() as joined:
        joined.push2("a v1", 1)
        joined.watermark(10)
        joined.push2("a v2", 5)
        joined.push2("a v0", 0)
        joined.push1("a", 11)
        joined.watermark(11)
        assert joined.output == [("a", "a v2")]
        assert versions_of(joined, "a") == ["a v2"]


def test_a_late_record_is_dropped_and_counted_or_goes_aside() -> None:
    with harness() as joined:
        joined.push2("a v1", 1)
        joined.watermark(10)
        joined.push1("a", 9)
        joined.push1("a at the watermark", 10)
        joined.watermark(11)
        assert joined.output == [("a at the watermark", "a v1")]
        assert joined.metrics["numLateRecordsDropped"] == 1
    with harness(late=True) as joined:
        joined.watermark(10)
        joined.push1("a", 9)
        assert joined.side_records(LATE) == [("a", 9)]
        assert joined.metrics["numLateRecordsDropped"] == 0


def test_a_deletion_means_that_there_is_no_version_from_then_on() -> None:
    with harness("left") as joined:
        joined.push2(Row("a", 1), 1)
        joined.push2(Row.of_kind(RowKind.DELETE, "a", 1), 5)
        joined.push2(Row("a", 2), 8)
        for timestamp in (4, 5, 7, 8):
            joined.push1(f"a{timestamp}", timestamp)
        joined.watermark(10)
        assert joined.output == [("a4", Row("a", 1)), ("a5", None), ("a7", None), ("a8", Row("a", 2))]


def test_the_context_tells_the_times() -> None:
    class Times(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()

    with harness("left", Times()) as joined:
        joined.push2("a", 3)
        joined.push1("a", 5)
        joined.push1("b", 6)
        joined.watermark(6)
        assert joined.records == [((5, 3, 5), 5), ((6, None, 6), 6)]


def test_what_waits_survives_into_another_process() -> None:
    with harness() as joined:
        joined.push2("a v1", 1)
        joined.push1("a6", 6)
        joined.push1("a5", 5)
        joined.push2("a v2", 6)
        joined.watermark(2)
        snapshot = joined.snapshot()
    with harness(snapshot=snapshot) as joined:
        joined.push1("a4", 4)
        joined.watermark(5)
        assert joined.take() == [("a4", "a v1"), ("a5", "a v1")]
        joined.watermark(6)
        assert joined.take() == [("a6", "a v2")]


def test_an_error_names_the_pair() -> None:
    class Fails(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
            raise ValueError(left)

    with harness(function=Fails()) as joined:
        joined.push2("a", 1)
        joined.push1("a5", 5)
        with pytest.raises(ValueError, match="a5"):
            joined.watermark(5)
    with harness(function=Fails(), on_error="skip") as joined:
        joined.push2("a", 1)
        joined.push1("a5", 5)
        joined.watermark(5)
        assert joined.skipped == 1


def test_a_record_without_a_timestamp_is_an_error() -> None:
    with harness() as joined, pytest.raises(ProgramError, match="needs a timestamp for each record"):
        joined.push2("a")


def test_in_batch_mode_every_record_is_joined_as_of_its_time() -> None:
    with harness("left", batch=True) as joined:
        joined.push1("a5", 5)
        joined.push2("a v2", 4)
        joined.push1("a1", 1)
        joined.push1("b1", 1)
        joined.push2("a v1", 1)
        joined.end_of_input()
        assert joined.output == [("a1", "a v1"), ("a5", "a v2"), ("b1", None)]
        assert joined.keys(VERSIONS) == []
