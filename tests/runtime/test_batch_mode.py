"""BATCH mode: one epoch, key by key, in the order of time, final results only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from millrace.common import WatermarkStrategy
from millrace.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.runtime.sources.sequence import DataGeneratorSource
from millrace.state import MapStateDescriptor, ValueStateDescriptor
from millrace.testing import EpochSource, Faults, InProcessExecutor, KeyedOneInputHarness

RULES = MapStateDescriptor("rules")
STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


def environment(faults: Faults | None = None, parallelism: int = 2) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, faults))
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(parallelism)


def key(value: Any) -> Any:
    return value[0]


class Tell(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**6)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), "end", self.count.value()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_keys_come_one_after_the_other_each_in_the_order_of_time(parallelism: int) -> None:
    values = [(name, stamp) for stamp in (5, 3, 9, 1) for name in ("a", "b", "c")]
    stream = environment(parallelism=parallelism).from_collection(values).assign_timestamps_and_watermarks(STAMPED)
    told = list(stream.key_by(key).process(Tell()).set_parallelism(parallelism).execute_and_collect())
    by_key: dict[str, list[Any]] = {}
    for record in told:
        by_key.setdefault(record[0], []).append(record[1:])
    assert by_key == {name: [(1,), (3,), (5,), (9,), ("end", 4)] for name in "abc"}
    if parallelism == 1:
        assert sum(one[0] != other[0] for one, other in pairwise(told)) == 2


def test_a_reduction_gives_the_final_result_of_each_key() -> None:
    values = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
    reduced = environment().from_collection(values).key_by(key).reduce(lambda one, other: (one[0], one[1] + other[1]))
    assert sorted(reduced.execute_and_collect()) == [("a", 8), ("b", 2)]


def test_the_state_of_a_key_is_gone_when_its_records_are_over() -> None:
    count = ValueStateDescriptor("count")
    with KeyedOneInputHarness(Tell(), key, batch=True) as harness:
        harness.push_all([("a", 1), ("b", 2)])
        harness.end_of_input()
        assert harness.keys(count) == []
        assert harness.output == [("a", 1), ("a", "end", 1), ("b", 2), ("b", "end", 1)]


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_all_epochs_of_a_source_are_read(share: float) -> None:
    source = EpochSource([[("a", 1)], [], [("a", 2), ("b", 3)], [("a", 4)]])
    stream = environment(Faults(share)).from_source(source, WatermarkStrategy.no_watermarks(), "source")
    reduced = stream.key_by(key).reduce(lambda one, other: (one[0], one[1] + other[1]))
    assert sorted(reduced.execute_and_collect()) == [("a", 7), ("b", 3)]


def test_a_source_with_a_rate_is_read_to_its_end() -> None:
    source = DataGeneratorSource(lambda index: ("key", index), count=5, records_per_second=200)
    stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "source")
    reduced = stream.key_by(key).reduce(lambda one, other: (one[0], one[1] + other[1]))
    assert list(reduced.execute_and_collect()) == [("key", 10)]


class Apply(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, len(list(ctx.get_broadcast_state(RULES).keys()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, True)


def test_the_whole_broadcast_side_comes_before_the_first_key() -> None:
    env = environment()
    rules = env.from_source(EpochSource([list(range(40))], 1), WatermarkStrategy.no_watermarks(), "rules")
    values = env.from_collection([(number, "value") for number in range(60)])
    applied = values.key_by(key).connect(rules.broadcast(RULES)).process(Apply())
    assert {seen for _, seen in applied.execute_and_collect()} == {40}


def test_an_attempt_that_fails_within_a_key_group_does_not_double_its_records() -> None:
    for seed in range(20):
        env = environment(Faults(0.4, seed))
        stream = env.from_collection([("a", 1)] * 10).key_by(key)
        assert list(stream.reduce(lambda one, other: (one[0], one[1] + other[1])).execute_and_collect()) == [("a", 10)]
