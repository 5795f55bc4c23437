"""A subtask's life: opened once, moved between processes, run again after failures, closed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.common import JobExecutionError, WatermarkStrategy
from millrace.common.job_execution_result import JobExecutionResult
from millrace.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    MapFunction,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.datastream.accumulators import IntCounter
from millrace.datastream.connectors import Sink, SinkWriter
from millrace.state import ListStateDescriptor, ValueStateDescriptor
from millrace.testing import EpochSource, Faults, InProcessExecutor

# What the functions did, by name. The processes are imitated, so that they all write here.
LOG: Counter[str] = Counter()

NUMBERS = [[1, 2, 3], [4, 5], [6]]


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


def program(processes: int = 2, faults: Faults | None = None, chunk: int = 2) -> tuple[StreamExecutionEnvironment, Any]:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(processes, faults))
    env.set_parallelism(1).set_runtime_mode(RuntimeExecutionMode.STREAMING)
    source = EpochSource(NUMBERS, chunk)
    return env, env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def collected(stream: Any) -> list[Any]:
    return list(stream.execute_and_collect())


# Each of the first attempts fails once, alone.
every_attempt = pytest.mark.parametrize("attempt", range(1, 13))


def one_fault(attempt: int) -> Faults:
    return Faults(attempts={attempt}, seed=attempt)


# --- open and close -----------------------------------------------------------------------------------------------


class Watched(MapFunction):
    def __init__(self, fails_at: int | None = None, fails_in_close: bool = False) -> None:
        self._fails_at = fails_at
        self._fails_in_close = fails_in_close

    def open(self, runtime_context: Any) -> None:
        LOG["open"] += 1
        self.is_open = True

    def map(self, value: int) -> int:
        assert self.is_open
        if value == self._fails_at:
            raise ValueError("as asked")
        return value

    def close(self) -> None:
        assert self.is_open
        self.is_open = False
        LOG["close"] += 1
        if self._fails_in_close:
            raise OSError("in close")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_function_is_opened_and_closed_once_in_each_process_that_runs_it(processes: int) -> None:
    _, stream = program(processes)
    assert collected(stream.map(Watched())) == [1, 2, 3, 4, 5, 6]
    assert {"open": processes, "close": processes} == LOG


def test_functions_are_closed_once_after_a_failure() -> None:
    _, stream = program()
    with pytest.raises(JobExecutionError, match="as asked"):
        collected(stream.map(Watched(fails_at=4)).map(Watched()).disable_chaining().map(Watched()))
    assert LOG["open"] == LOG["close"] > 0


def test_attempts_that_fail_do_not_open_a_function_again() -> None:
    _, stream = program(1, Faults(0.5, seed=3))
    assert collected(stream.map(Watched())) == [1, 2, 3, 4, 5, 6]
    assert LOG == {"open": 1, "close": 1}


def test_an_error_in_close_fails_the_job_but_leaves_no_function_open() -> None:
    _, stream = program()
    with pytest.raises(JobExecutionError, match="Closing"):
        collected(stream.map(Watched(fails_in_close=True)).map(Watched()))
    assert LOG["open"] == LOG["close"] > 0


RECORDED: list[str] = []


class Named(MapFunction):
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: Any) -> None:
        RECORDED.append(f"open {self.name}")

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        RECORDED.append(f"close {self.name}")


def test_a_chain_is_opened_from_its_end_and_closed_from_its_beginning() -> None:
    RECORDED.clear()
    _, stream = program(1)
    collected(stream.map(Named("a")).map(Named("b")))
    assert RECORDED == ["open b", "open a", "close a", "close b"]


class OpensTheSecondTime(MapFunction):
    def open(self, runtime_context: Any) -> None:
        LOG["open"] += 1
        if LOG["open"] == 1:
            raise InjectedOnce("in open")
        self.ready = True

    def map(self, value: int) -> int:
        assert self.ready
        return value

    def close(self) -> None:
        LOG["close"] += 1


class InjectedOnce(Exception):
    pass


def test_an_attempt_that_failed_in_open_is_followed_by_one_with_a_new_function() -> None:
    from millrace.graph.job_graph import plan_job
    from millrace.runtime.epoch import EpochInput, JobSettings
    from millrace.runtime.host import HostedJob
    from millrace.runtime.shipping import ship

    env, stream = program(1)
    stream.map(OpensTheSecondTime()).print()
    host = HostedJob(ship(plan_job(env.get_stream_graph())), JobSettings("job", "job", "/nowhere"))
    epoch = EpochInput(1, 0, keep_state=False)
    with pytest.raises(Exception, match="in open"):
        list(host.task(0, 0, epoch, 1).run([]))
    list(host.task(0, 0, epoch, 2).run([]))
    assert host.close() == []
    assert LOG == {"open": 2, "close": 2}


# --- state that moves ---------------------------------------------------------------------------------------------


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        self.calls = IntCounter()
        runtime_context.add_accumulator("calls", self.calls)
        self.counter = runtime_context.get_metrics_group().counter("calls")

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.calls.add(1)
        self.counter.inc()
        total = (self.total.value() or 0) + value
        self.total.update(total)
        yield total


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_keyed_state_follows_the_subtask_from_process_to_process(processes: int) -> None:
    _, stream = program(processes)
    assert collected(stream.key_by(lambda value: "all").process(RunningSum())) == [1, 3, 6, 10, 15, 21]


@every_attempt
@pytest.mark.parametrize("processes", [1, 2])
def test_an_attempt_that_is_run_again_leaves_no_trace(attempt: int, processes: int) -> None:
    faults = one_fault(attempt)
    env, stream = program(processes, faults)
    pending = stream.key_by(lambda value: "all").process(RunningSum()).collect_async()
    client = env.execute_async()
    assert list(pending.results(client)) == [1, 3, 6, 10, 15, 21]
    result: JobExecutionResult = client.get_job_execution_result().result()
    assert result.get_accumulator_result("calls") == 6
    reports = [report for report in client.coordinator.operators.values() if report.metrics]  # type: ignore[attr-defined]
    assert [report.metrics for report in reports] == [{"calls": ("counter", 6)}]
    assert faults.injected <= 1


class FieldSum(CheckpointedFunction, ProcessFunction):
    """Keeps its sum in a field, as CheckpointedFunctions do."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("sum"))
        self.total = sum(self.state.get())

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.total += value
        yield self.total

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.total])


class ListedSum(ListCheckpointed, ProcessFunction):
    total = 0

    def restore_state(self, state: list[Any]) -> None:
        self.total = state[0]

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.total += value
        yield self.total

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.total]


@pytest.mark.parametrize("function", [FieldSum(), ListedSum()], ids=lambda function: type(function).__name__)
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_operator_state_in_fields_is_restored_where_another_process_was_last(function: Any, processes: int) -> None:
    _, stream = program(processes)
    assert collected(stream.process(function)) == [1, 3, 6, 10, 15, 21]


@pytest.mark.parametrize("function", [FieldSum(), ListedSum()], ids=lambda function: type(function).__name__)
@every_attempt
@pytest.mark.parametrize("processes", [1, 2])
def test_operator_state_in_fields_is_not_counted_twice(function: Any, attempt: int, processes: int) -> None:
    _, stream = program(processes, one_fault(attempt))
    assert collected(stream.process(function)) == [1, 3, 6, 10, 15, 21]


class Watermarks(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield ctx.current_watermark()


@every_attempt
@pytest.mark.parametrize("processes", [1, 2])
def test_the_clock_does_not_run_ahead_after_an_attempt_that_failed(attempt: int, processes: int) -> None:
    def watermarks(faults: Faults) -> list[int]:
        env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(processes, faults))
        env.set_parallelism(1).set_runtime_mode(RuntimeExecutionMode.STREAMING)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
        stream = env.from_source(EpochSource(NUMBERS, 1), strategy, "numbers")
        told = stream.rebalance().process(Watermarks()).disable_chaining().set_parallelism(2)
        return sorted(told.execute_and_collect())

    assert watermarks(one_fault(attempt)) == watermarks(Faults())


# --- sinks ----------------------------------------------------------------------------------------------------------


class Gathering(Sink):
    """Commits what its writer gathered."""

    def create_writer(self, context: Any) -> SinkWriter:
        return GatheringWriter()

    def create_committer(self) -> Any:
        return GatheringCommitter()


class GatheringWriter(SinkWriter):
    def __init__(self) -> None:
        self.values: list[int] = []

    def write(self, value: int, context: Any) -> None:
        self.values.append(value)

    def flush(self, end_of_input: bool) -> None:
        pass

    def prepare_commit(self) -> list[Any]:
        values, self.values = self.values, []
        return values

    def close(self) -> None:
        pass


class GatheringCommitter:
    def commit(self, committables: list[Any]) -> None:
        RECORDED.extend(map(str, committables))


@every_attempt
@pytest.mark.parametrize("chunk", [1, 3])
def test_a_writer_commits_nothing_of_an_attempt_that_failed(attempt: int, chunk: int) -> None:
    RECORDED.clear()
    env, stream = program(1, one_fault(attempt), chunk)
    stream.rebalance().map(lambda value: value).disable_chaining().sink_to(Gathering())
    env.execute()
    assert RECORDED == ["1", "2", "3", "4", "5", "6"]
