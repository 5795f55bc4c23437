"""Joins with a table that every subtask holds whole."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.common import Row, Types, WatermarkStrategy
from millrace.common.typeinfo import TypeInformation
from millrace.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from millrace.datastream._joins import join_rows
from millrace.runtime.operators.joins.lookup import pair
from millrace.state import MapStateDescriptor
from millrace.testing import EpochSource, Faults, InProcessExecutor, TwoStreamsHarness

ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
ANN, BOB, BEN = Row(id=1, name="Ann"), Row(id=2, name="Bob"), Row(id=2, name="Ben")


def harness(
    on: Any = 0, table_on: Any = "id", function: Any = pair, outer: bool = False, **options: Any
) -> TwoStreamsHarness:
    def join(stream: DataStream, rows: DataStream) -> DataStream:
        return join_rows(stream, rows, (on, table_on), function, outer)

    return TwoStreamsHarness(join, **{"input_types": (None, ROW), **options})


def test_a_record_meets_every_row_of_its_key_in_the_tables_order() -> None:
    with harness() as joined:
        for row in (ANN, BOB, BEN):
            joined.push2(row)
        joined.push1((2, "tea"), 7)
        joined.push1((3, "milk"), 8)
        assert joined.records == [(((2, "tea"), BOB), 7), (((2, "tea"), BEN), 7)]


def test_a_left_join_gives_none_for_what_is_not_in_the_table() -> None:
    with harness(outer=True) as joined:
        joined.push2(ANN)
        joined.push1((1, "tea"))
        joined.push1((3, "milk"))
        assert joined.output == [((1, "tea"), ANN), ((3, "milk"), None)]


def test_what_is_none_is_equal_to_nothing() -> None:
    with harness(outer=True) as joined:
        joined.push2(Row(id=None, name="nobody"))
        joined.push1((None, "tea"))
        assert joined.output == [((None, "tea"), None)]


def test_a_function_makes_the_result() -> None:
    with harness(function=lambda record, row: f"{row.name} takes {record[1]}") as joined:
        joined.push2(ANN)
        joined.push1((1, "tea"))
        assert joined.output == ["Ann takes tea"]


def test_a_key_may_have_several_fields() -> None:
    with harness((0, 1), ("id", "name")) as joined:
        joined.push2(ANN)
        joined.push1((1, "Ann"))
        joined.push1((1, "Bob"))
        assert joined.output == [((1, "Ann"), ANN)]


def test_a_record_on_which_the_function_fails_follows_the_policy() -> None:
    with harness(function=lambda record, row: row.nothing, on_error="skip") as joined:
        joined.push2(ANN)
        joined.push1((1, "tea"))
        assert joined.output == []
        assert joined.skipped == 1


def test_a_row_without_the_key_is_an_error_that_shows_the_row() -> None:
    with harness(table_on=lambda row: row.nothing) as joined, pytest.raises(Exception, match="nothing"):
        joined.push2(ANN)


def test_the_table_is_state_and_survives_into_another_process() -> None:
    with harness() as joined:
        for row in (ANN, BOB, BEN):
            joined.push2(row)
        snapshot = joined.snapshot()
    with harness(snapshot=snapshot) as joined:
        joined.push1((2, "tea"))
        assert [row.name for _, row in joined.output] == ["Bob", "Ben"]
        assert list(joined.broadcast_state(MapStateDescriptor("table", Types.LONG(), ROW))) == [0, 1, 2]
        joined.end_epoch()
        joined.push1((1, "tea"))
        assert [row.name for _, row in joined.output] == ["Bob", "Ben", "Ann"]


def test_an_index_that_was_made_by_an_attempt_that_failed_is_made_anew() -> None:
    """Two processes of which the first one's attempt does not count, and read the table in another order."""
    with harness() as failed, harness() as counts:
        for row in (ANN, BOB):
            failed.push2(row)
        for row in (BEN, ANN):
            counts.push2(row)
        snapshot = counts.snapshot()
        failed._files.content.update(snapshot.files)
        failed._handles = snapshot.state
        failed._begin()
        failed.push1((2, "tea"))
        assert [row.name for _, row in failed.output] == ["Ben"]


@pytest.mark.parametrize("mode", list(RuntimeExecutionMode))
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_no_record_passes_before_the_table_is_there(
    mode: RuntimeExecutionMode, parallelism: int, share: float
) -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, Faults(share, 1)))
    env.set_parallelism(parallelism).set_runtime_mode(mode)
    no_time = WatermarkStrategy.no_watermarks()
    stream = env.from_source(EpochSource([range(100), range(100, 200)], 7), no_time, "numbers").rebalance()
    table = [(number, f"name {number}") for number in range(0, 200, 2) for _ in range(2)]
    table_type: TypeInformation = Types.TUPLE([Types.LONG(), Types.STRING()])
    rows = env.from_source(EpochSource([table], 5), no_time, "table", table_type)
    joined = join_rows(stream, rows, (lambda number: number, 0), pair, outer=True)
    found = sorted(joined.execute_and_collect(), key=lambda item: item[0])
    assert found == [
        (number, None if number % 2 else (number, f"name {number}"))
        for number in range(200)
        for _ in range(1 if number % 2 else 2)
    ]
