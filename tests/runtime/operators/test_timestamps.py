"""Timestamps and watermarks: from a strategy to what operators downstream see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.common import WatermarkStrategy
from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP, Duration
from millrace.common.watermarks import Watermark, WatermarkGenerator, WatermarkOutput
from millrace.graph.job_graph import plan_job
from millrace.runtime.epoch import EpochInput, JobSettings
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.router import Outbox
from millrace.runtime.sources.base import Chunk, Offset, Source, Split
from millrace.runtime.subtask import Subtask
from millrace.state import StateHandles
from millrace.testing import MemoryFiles, OneInputHarness
from tests.graph.graphs import node, stream_graph


class Punctuated(WatermarkGenerator):
    """Speaks when a record says so: a record is (timestamp, whether it ends something)."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[1]:
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Never."""


def first(value: Any, before: int) -> int:
    return int(value[0])


ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(first)


# --- in the middle of a program -------------------------------------------------------------------------------------


def test_records_take_the_timestamps_that_the_assigner_gives() -> None:
    with OneInputHarness(ASCENDING) as harness:
        harness.push_all([(5, "a"), (7, "b")])
        assert harness.records == [((5, "a"), 5), ((7, "b"), 7)]


def test_ascending_watermarks_trail_the_highest_timestamp_by_one() -> None:
    with OneInputHarness(ASCENDING) as harness:
        harness.push_all([(5,), (9,), (7,)])
        harness.push((3,))
        harness.push((20,))
        assert harness.watermarks == [8, 19]


def test_bounded_out_of_orderness_trails_by_its_delay() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_assigner(first)
    with OneInputHarness(strategy) as harness:
        harness.push_all([(100,), (120,), (90,)])
        harness.push((121,))
        assert harness.watermarks == [109, 110]


def test_a_punctuated_generator_is_heard_in_the_middle_of_a_chunk() -> None:
    order: list[Any] = []

    class Order:
        def emit(self, batch: Any) -> None:
            order.append(batch.values)

        def watermark(self, watermark: int) -> None:
            order.append(watermark)

    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(first)
    with OneInputHarness(strategy) as harness:
        harness._subtask.operators[harness._last].output.main.append(Order())  # type: ignore[arg-type]
        harness.push_all([(1, 0), (2, 1), (3, 0), (4, 1), (5, 0)])
    assert order == [[(1, 0), (2, 1)], 2, [(3, 0), (4, 1)], 4, [(5, 0)]]


def test_watermarks_from_upstream_are_replaced_except_for_the_last() -> None:
    with OneInputHarness(ASCENDING) as harness:
        harness.watermark(1000)
        assert harness.watermarks == []
        harness.push((5,))
        harness.end_of_input()
        assert harness.watermarks == [4, MAX_WATERMARK]


def test_a_restored_generator_remembers_what_it_saw() -> None:
    with OneInputHarness(ASCENDING) as harness:
        harness.push((50,))
        snapshot = harness.snapshot()
    with OneInputHarness(ASCENDING, snapshot=snapshot) as harness:
        harness.push((40,))
        assert harness.watermarks == []
        harness.push((60,))
        assert harness.watermarks == [59]


@pytest.mark.parametrize("wrong", [1.5, "1", None, True])
def test_a_timestamp_that_is_no_int_is_refused(wrong: Any) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    with OneInputHarness(strategy) as harness, pytest.raises(TypeError, match="int of milliseconds"):
        harness.push_all([1, wrong])


def test_an_assigner_that_raises_stop_iteration_loses_no_record_in_silence() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: next(iter(value))
    )
    with OneInputHarness(strategy) as harness, pytest.raises(RuntimeError, match="StopIteration"):
        harness.push_all([[1], []])


# --- at a source, split by split ------------------------------------------------------------------------------------


class Listed(Source):
    """Gives what each split's range holds: chunks of timestamps."""

    def initial_offset(self) -> Offset:
        return {}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {}

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        return []

    def read(self, split: Split) -> Iterator[Chunk]:
        for seq, stamps in enumerate(split.range):
            yield Chunk(seq, [(stamp,) for stamp in stamps])


class SourceDriver:
    """A subtask of one source, epoch by epoch; `process()` goes on in another process."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._plan = plan_job(stream_graph([node(1, operator=SourceOperator(Listed(), strategy))]))
        self._strategy = strategy
        self._files = MemoryFiles()
        self._handles: StateHandles | None = None
        self._number = 0
        self.watermarks: list[int] = []
        self.idle_calls = 0
        self.process()

    def emit(self, batch: Any) -> None:
        """Records are of no interest."""

    def watermark(self, watermark: int) -> None:
        self.watermarks.append(watermark)

    def idle(self) -> None:
        self.idle_calls += 1

    def process(self) -> None:
        plan = plan_job(stream_graph([node(1, operator=SourceOperator(Listed(), self._strategy))]))
        self._subtask = Subtask(plan.vertices[0], 0, JobSettings("job", "job", ""), self._files)
        self._subtask.operators[1].output.main.append(self)  # type: ignore[arg-type]

    def epoch(self, now: int = 0, **splits: list[list[int]]) -> list[int]:
        """Run an epoch; the watermarks that it makes."""
        self.watermarks = []
        self._number += 1
        share = [Split(name, origin, chunks) for origin, (name, chunks) in enumerate(splits.items())]
        state = {} if self._handles is None else {(1, 0): self._handles}
        self._subtask.begin(EpochInput(self._number, now, splits={(1, 0): share}, state=state), Outbox())
        for _ in self._subtask.read_sources():
            pass
        self._handles = self._subtask.end().state
        return self.watermarks


@pytest.fixture
def driver() -> Callable[[WatermarkStrategy], SourceDriver]:
    return SourceDriver


def test_the_slowest_split_decides(driver: Callable[[WatermarkStrategy], SourceDriver]) -> None:
    source = driver(ASCENDING)
    assert source.epoch(a=[[100], [200]], b=[[50], [60]]) == [49, 59]


def test_a_split_that_has_not_said_anything_yet_holds_time_back(
    driver: Callable[[WatermarkStrategy], SourceDriver],
) -> None:
    source = driver(ASCENDING)
    assert source.epoch(a=[[100]], b=[]) == []
    assert source.epoch(a=[[200]], b=[[150]]) == [149]


def test_an_idle_split_is_left_out_and_comes_back(driver: Callable[[WatermarkStrategy], SourceDriver]) -> None:
    source = driver(ASCENDING.with_idleness(Duration.of_millis(500)))
    assert source.epoch(0, a=[[100]], b=[[10]]) == [9]
    assert source.epoch(400, a=[[200]], b=[]) == []
    assert source.epoch(600, a=[[300]], b=[]) == [299]
    assert source.epoch(700, b=[[50]], a=[[310]]) == []
    assert source.epoch(800, a=[[320]], b=[[400]]) == [319]


def test_when_all_splits_are_idle_it_is_said_once(driver: Callable[[WatermarkStrategy], SourceDriver]) -> None:
    source = driver(ASCENDING.with_idleness(Duration.of_millis(500)))
    source.epoch(0, a=[[100]])
    for now in (500, 600, 700):
        source.epoch(now, a=[])
    assert source.idle_calls == 1
    assert source.epoch(800, a=[[200]]) == [199]


def test_a_split_that_never_gave_a_record_becomes_idle_too(
    driver: Callable[[WatermarkStrategy], SourceDriver],
) -> None:
    source = driver(ASCENDING.with_idleness(Duration.of_millis(500)))
    assert source.epoch(0, a=[[100]], b=[]) == []
    assert source.epoch(500, a=[[101]], b=[]) == [100]


def test_watermarks_go_on_in_another_process(driver: Callable[[WatermarkStrategy], SourceDriver]) -> None:
    source = driver(ASCENDING)
    assert source.epoch(a=[[100]], b=[[50]]) == [49]
    source.process()
    assert source.epoch(a=[], b=[[40]]) == []
    source.process()
    assert source.epoch(a=[], b=[[120]]) == [99]
    assert source._subtask.operators[1].watermark == MIN_TIMESTAMP
