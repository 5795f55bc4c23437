"""Iterations: what is fed back comes in again with the next epoch."""

from __future__ import annotations

import pytest

from millrace.datastream import StreamExecutionEnvironment
from millrace.testing import Faults, InProcessExecutor


def environment(parallelism: int, processes: int = 2, faults: Faults | None = None) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(processes, faults))
    return env.set_parallelism(parallelism)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_records_go_round_until_none_is_fed_back(parallelism: int, processes: int, share: float) -> None:
    env = environment(parallelism, processes, Faults(share))
    counts = env.from_collection([3, 1, 2]).iterate()
    less = counts.map(lambda count: count - 1)
    counts.close_with(less.filter(lambda count: count > 0))
    done = less.filter(lambda count: count == 0)
    assert list(done.execute_and_collect()) == [0, 0, 0]


@pytest.mark.parametrize("chaining", [True, False])
def test_an_iteration_may_be_fed_by_two_streams(chaining: bool) -> None:
    env = environment(1)
    if not chaining:
        env.disable_operator_chaining()
    numbers = env.from_collection([4]).iterate()
    halves = numbers.filter(lambda number: number > 1).map(lambda number: number // 2)
    numbers.close_with(halves)
    numbers.close_with(halves.map(lambda number: number))
    assert sorted(numbers.execute_and_collect()) == [1, 1, 1, 1, 2, 2, 4]


def test_an_iteration_behind_another_parallelism_deals_its_feedback_out() -> None:
    env = environment(2)
    numbers = env.from_collection(list(range(6))).rebalance().map(lambda number: (number, 2)).iterate()
    less = numbers.map(lambda pair: (pair[0], pair[1] - 1)).set_parallelism(3)
    numbers.close_with(less.filter(lambda pair: pair[1] > 0).set_parallelism(3))
    done = less.filter(lambda pair: pair[1] == 0)
    assert sorted(done.execute_and_collect()) == [(number, 0) for number in range(6)]
