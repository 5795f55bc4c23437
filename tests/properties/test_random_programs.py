"""Programs drawn at random give what plain Python gives: at every parallelism, in every number of processes, with
and without chaining, in both modes, and with tasks that fail half way and are run again."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import WatermarkStrategy
from millrace.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millrace.testing import EpochSource, Faults, InProcessExecutor
from tests.properties.programs import Program, Record, expected, first, programs, records, run

relaxed = settings(
    max_examples=int(os.environ.get("MILLRACE_PROGRAMS", "80")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("batch", [False, True], ids=["streaming", "batch"])
@relaxed
@given(program=programs, processes=st.integers(1, 3))
def test_a_random_program_means_what_plain_python_means(program: Program, processes: int, batch: bool) -> None:
    assert run(program, InProcessExecutor(processes), batch) == expected(program, batch)


@pytest.mark.parametrize("batch", [False, True], ids=["streaming", "batch"])
@relaxed
@given(program=programs, processes=st.integers(1, 3), share=st.floats(0.05, 0.5), seed=st.integers(0, 1000))
def test_tasks_that_fail_half_way_change_nothing(
    program: Program, processes: int, share: float, seed: int, batch: bool
) -> None:
    executor = InProcessExecutor(processes, Faults(share, seed))
    assert run(program, executor, batch) == expected(program, batch)


@relaxed
@given(
    epochs=st.lists(st.lists(records, max_size=30), min_size=1, max_size=4),
    before=st.integers(1, 8),
    keyed=st.integers(1, 8),
    chunk=st.integers(1, 7),
    distribution=st.sampled_from(["forward", "rescale", "global_"]),
    share=st.sampled_from([0.0, 0.3]),
)
def test_one_keyed_level_sees_each_key_in_the_order_of_the_source(
    epochs: list[list[Record]], before: int, keyed: int, chunk: int, distribution: str, share: float
) -> None:
    """Rolling sums tell the order exactly."""
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, Faults(share)))
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    stream = env.from_source(EpochSource(epochs, chunk), WatermarkStrategy.no_watermarks(), "source")
    mapped = stream.rebalance().map(lambda record: record).set_parallelism(before)
    spread = mapped if distribution == "forward" else getattr(mapped, distribution)()
    again = spread.filter(lambda record: True).set_parallelism(before)
    sums = again.key_by(first).reduce(lambda one, other: (one[0], one[1] + other[1])).set_parallelism(keyed)
    made: dict[int, list[int]] = {}
    for key, total in sums.execute_and_collect():
        made.setdefault(key, []).append(total)
    wanted: dict[int, list[int]] = {}
    for key, number in (record for epoch in epochs for record in epoch):
        totals = wanted.setdefault(key, [])
        totals.append(number + (totals[-1] if totals else 0))
    assert made == wanted
