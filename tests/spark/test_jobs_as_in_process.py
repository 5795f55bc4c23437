"""The same program gives the same result on Spark and in one process without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.common import Types, WatermarkStrategy
from millrace.common.watermark_strategy import TimestampAssigner
from millrace.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.datastream.state import MapStateDescriptor
from millrace.testing.in_process import InProcessExecutor
from tests.spark.jobs import Steps

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]
LATE = OutputTag("late", Types.LONG())


class OutOfOrder(TimestampAssigner):
    """Event time that jumps to and fro."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value + value * 7 % 23


class CountByTen(KeyedProcessFunction):
    """Counts a key's records in panes of ten milliseconds of event time; what comes too late goes aside."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.panes = runtime_context.get_map_state(MapStateDescriptor("panes", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        end = ctx.timestamp() // 10 * 10 + 10
        if ctx.timer_service().current_watermark() >= end:
            yield LATE, value
            return
        self.panes.put(end, (self.panes.get(end) or 0) + 1)
        ctx.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
        yield ctx.get_current_key(), timestamp, self.panes.get(timestamp)
        self.panes.remove(timestamp)


def panes(env: StreamExecutionEnvironment) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OutOfOrder())
    numbers = env.from_source(Steps(4, 50), strategy, "numbers")
    counted = numbers.key_by(lambda number: number % 3).process(CountByTen())
    return counted.union(counted.get_side_output(LATE).map(lambda value: ("late", value)))


def joined(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_sequence(0, 499)
    even = numbers.filter(lambda number: number % 2 == 0).map(lambda number: (number % 7, number))
    odd = numbers.filter(lambda number: number % 2).map(lambda number: (number % 7, -number)).set_parallelism(3)
    sums = even.union(odd).key_by(0).sum(1)
    return sums.rebalance().filter(lambda record: record[1] % 3 == 0).key_by(0).max(1)


def rounds(env: StreamExecutionEnvironment) -> DataStream:
    entry = env.from_source(Steps(3, 10), WatermarkStrategy.no_watermarks(), "numbers").iterate()
    halved = entry.map(lambda number: number // 2)
    entry.close_with(halved.filter(lambda number: number > 2))
    return halved.key_by(lambda number: number % 2).reduce(lambda one, two: one + two)


def words(env: StreamExecutionEnvironment) -> DataStream:
    lines = env.from_collection(["to be or not to be", "that is the question"] * 20)
    pairs = lines.rebalance().flat_map(str.split).map(lambda word: (word, 1))
    return pairs.key_by(0).reduce(lambda one, two: (one[0], one[1] + two[1]))


def run(
    make: Callable[[StreamExecutionEnvironment], DataStream], env: StreamExecutionEnvironment, mode: Any
) -> list[Any]:
    return list(make(env.set_runtime_mode(mode)).execute_and_collect())


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("make", [panes, joined, rounds, words])
def test_program(make: Callable[[StreamExecutionEnvironment], DataStream], parallelism: int, mode: Any) -> None:
    if make is rounds and mode is RuntimeExecutionMode.BATCH:
        mode = RuntimeExecutionMode.AUTOMATIC
    here = StreamExecutionEnvironment.create_with_executor(InProcessExecutor()).set_parallelism(parallelism)
    there = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    expected = run(make, here, mode)
    assert len(expected) > 3
    assert run(make, there, mode) == expected
