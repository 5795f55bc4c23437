"""Asynchronous calls: order, capacity, timeouts, retries, errors, and what an epoch waits for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from millrace.common import ProgramError, Time, WatermarkStrategy
from millrace.common.errors import JobExecutionError
from millrace.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    BadRecord,
    OutputTag,
    StreamExecutionEnvironment,
)
from millrace.datastream.async_data_stream import wait_as_described
from millrace.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from millrace.datastream.functions import AsyncFunctionDescriptor
from millrace.runtime import call_pool
from millrace.runtime.operators.asynchronous import AsyncOperator
from millrace.testing import EpochSource, Faults, InProcessExecutor, OneInputHarness

ORDERED, UNORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED, AsyncFunctionDescriptor.OutputMode.UNORDERED
BOTH = pytest.mark.parametrize("mode", [ORDERED, UNORDERED])


def harness(
    function: Any,
    mode: AsyncFunctionDescriptor.OutputMode = ORDERED,
    *,
    timeout: int = 5_000,
    capacity: int = 100,
    strategy: AsyncRetryStrategy[Any] | None = None,
    **options: Any,
) -> OneInputHarness:
    strategy = strategy or AsyncRetryStrategy.no_restart()
    return OneInputHarness(AsyncFunctionDescriptor(function, timeout, capacity, strategy, mode), **options)


async def after(millis: int) -> list[int]:
    await asyncio.sleep(millis / 1000)
    return [millis]


class Failing(AsyncFunction[Any, Any]):
    """Fails so many times for each record, then gives it back."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.times, self.error = times, error
        self.attempts: dict[Any, int] = {}

    async def async_invoke(self, value: Any) -> list[Any]:
        attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
        if attempt > self.times:
            return [value]
        if self.error is None:
            return []
        raise self.error


def test_ordered_results_come_in_the_order_of_the_records() -> None:
    with harness(after) as one:
        one.push_all([30, 1, 15], timestamps=[1, 2, 3])
        one.end_epoch()
        assert one.records == [(30, 1), (1, 2), (15, 3)]


def test_unordered_results_come_in_the_order_of_their_completion() -> None:
    with harness(after, UNORDERED) as one:
        one.push_all([60, 1, 30], timestamps=[1, 2, 3])
        one.end_epoch()
        assert one.records == [(1, 2), (30, 3), (60, 1)]


def test_unordered_results_do_not_pass_a_watermark() -> None:
    with harness(after, UNORDERED) as one:
        one.push_all([40, 20])
        one.watermark(10)
        one.push(1)
        assert one.watermarks == []
        one.end_epoch()
        assert (one.output, one.watermarks) == ([20, 40, 1], [10])


@BOTH
def test_an_epoch_waits_for_all_calls(mode: Any) -> None:
    with harness(after, mode) as one:
        one.push(20)
        assert one.output == []
        one.end_epoch()
        assert one.output == [20]


@BOTH
def test_the_end_of_event_time_waits_for_all_calls(mode: Any) -> None:
    with harness(after, mode) as one:
        one.push(20)
        one.end_of_input()
        assert one.output == [20]


@BOTH
def test_a_watermark_without_calls_in_flight_goes_on_at_once(mode: Any) -> None:
    with harness(after, mode) as one:
        one.watermark(7)
        assert one.watermarks == [7]


@BOTH
def test_no_more_calls_are_in_flight_than_the_capacity(mode: Any) -> None:
    class Count(AsyncFunction[int, int]):
        def open(self, runtime_context: Any) -> None:
            self.flying = self.most = 0

        async def async_invoke(self, value: int) -> list[int]:
            self.flying += 1
            self.most = max(self.most, self.flying)
            await asyncio.sleep(0.001)
            self.flying -= 1
            return [self.most]

    with harness(Count(), mode, capacity=3) as one:
        one.push_all(range(10))
        one.push_all(range(10))
        one.end_epoch()
        assert len(one.output) == 20
        assert max(one.output) == 3


def test_when_ordered_results_are_handed_on_depends_on_the_records_alone() -> None:
    with harness(after, capacity=2) as one:
        for _ in range(3):
            one.push(1)
            time.sleep(0.005)
        assert len(one.output) == 1
        one.push(1)
        assert len(one.output) == 2


@BOTH
def test_a_call_may_give_any_number_of_results_and_side_outputs(mode: Any) -> None:
    tag = OutputTag("odd")

    async def spread(value: int) -> Any:
        return None if value == 0 else [value] * value if value % 2 == 0 else [(tag, value)]

    with harness(spread, mode) as one:
        one.push_all(range(4), timestamps=range(4))
        one.end_epoch()
        assert one.records == [(2, 2), (2, 2)]
        assert sorted(one.side_output(tag)) == [1, 3]


@BOTH
def test_a_late_call_fails_with_a_timeout(mode: Any) -> None:
    with pytest.raises(TimeoutError, match="no answer within 5 ms"), harness(after, mode, timeout=5) as one:
        one.push(60_000)


@BOTH
def test_a_function_may_answer_for_a_late_call(mode: Any) -> None:
    class Late(AsyncFunction[int, Any]):
        async def async_invoke(self, value: int) -> list[Any]:
            return await after(value)

        def timeout(self, value: int) -> list[Any]:
            return [("late", value)]

    with harness(Late(), mode, timeout=20) as one:
        one.push_all([60_000, 1])
        one.end_epoch()
        assert sorted(one.output, key=str) == [("late", 60_000), 1]


def test_a_timeout_of_the_functions_own_is_not_a_late_call() -> None:
    async def impatient(value: int) -> list[int]:
        raise TimeoutError("the server is slow")

    with pytest.raises(TimeoutError, match="the server is slow"), harness(impatient) as one:
        one.push(1)


@BOTH
def test_a_call_that_failed_is_made_again_as_the_strategy_says(mode: Any) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, has_exception_predicate)
    with harness(Failing(2, ValueError("down")), mode, strategy=strategy) as one:
        one.push_all([1, 2])
        one.end_epoch()
        assert sorted(one.output) == [1, 2]


def test_an_empty_result_is_asked_for_again_and_in_the_end_accepted() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(2, 1, 2, 2.0, empty_result_predicate, None)
    with harness(Failing(2), strategy=strategy) as one:
        one.push(1)
        one.end_epoch()
        assert one.output == [1]
    with harness(Failing(3), strategy=strategy) as one:
        one.push(1)
        one.end_epoch()
        assert one.output == []


def test_an_exception_that_is_not_worth_it_is_not_tried_again() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(5, 1, None, lambda error: exception_type_predicate(error, OSError))
    with pytest.raises(ValueError, match="wrong"), harness(Failing(1, ValueError("wrong")), strategy=strategy) as one:
        one.push(1)


def test_the_timeout_is_for_all_attempts_together() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1000, 5, None, has_exception_predicate)
    started = time.monotonic()
    with pytest.raises(TimeoutError), harness(Failing(10_000, OSError()), timeout=50, strategy=strategy) as one:
        one.push(1)
    assert time.monotonic() - started < 2


async def picky(value: Any) -> list[Any]:
    await asyncio.sleep(0)
    if value == "bad":
        raise ValueError("no good")
    return [value]


@BOTH
def test_a_bad_record_is_skipped_and_counted(mode: Any) -> None:
    with harness(picky, mode, on_error="skip") as one:
        one.push_all(["a", "bad", "b"], timestamps=[1, 2, 3])
        one.end_epoch()
        assert (one.records, one.skipped) == ([("a", 1), ("b", 3)], 1)


@BOTH
def test_a_bad_record_goes_to_the_side_output(mode: Any) -> None:
    tag = OutputTag("bad")
    with harness(picky, mode, on_error=tag) as one:
        one.push_all(["a", "bad"])
        one.end_epoch()
        [bad] = one.side_output(tag)
        assert isinstance(bad, BadRecord)
        assert (bad.value, bad.error) == ("bad", "ValueError: no good")


def test_the_first_error_ends_the_waiting() -> None:
    async def mixed(value: int) -> list[int]:
        if value:
            return await after(60_000)
        raise ValueError("at once")

    started = time.monotonic()
    with pytest.raises(ValueError, match="at once"), harness(mixed) as one:
        one.push_all([1, 0])  # The epoch ends with the block.
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("found", ["text", ("a",), 5])
def test_results_that_are_no_list_are_refused(found: Any) -> None:
    async def wrong(value: int) -> Any:
        return found

    with pytest.raises(TypeError, match="must give a list of results"), harness(wrong) as one:
        one.push(1)


def test_a_call_that_cancels_itself_is_an_error_of_its_record() -> None:
    async def cancels(value: int) -> list[int]:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="was cancelled"), harness(cancels) as one:
        one.push(1)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_function_that_ends_the_program_fails_the_job(error: BaseException) -> None:
    async def leave(value: int) -> list[int]:
        raise error

    with pytest.raises(type(error)), harness(leave) as one:
        one.push(1)


class Cancelled(BaseException):
    """As a task of a job that is being cancelled raises it, wherever it is."""


def test_what_ends_a_task_is_not_kept_by_the_loop() -> None:
    async def interrupted(value: int) -> list[int]:
        await asyncio.sleep(0)
        raise Cancelled

    with pytest.raises(Cancelled), harness(interrupted) as one:
        one.push(1)


def test_what_ends_a_task_between_two_calls_is_not_kept_by_the_loop() -> None:
    def interrupt() -> None:
        raise Cancelled

    async def waits(value: int) -> list[int]:
        asyncio.get_running_loop().call_soon(interrupt)
        return await after(60_000)

    with pytest.raises(Cancelled), harness(waits) as one:
        one.push(1)


def test_open_and_close_run_inside_the_loop_and_may_be_asynchronous() -> None:
    class Rich(AsyncFunction[int, Any]):
        async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.loop = asyncio.get_running_loop()

        async def async_invoke(self, value: int) -> list[Any]:
            return [asyncio.get_running_loop() is self.loop]

        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            raise ValueError("closed")

    one = harness(Rich()).open()
    one.push(1)
    one.end_epoch()
    assert one.output == [True]
    with pytest.raises(ValueError, match="closed"):
        one.close()


def test_calls_in_flight_clean_up_when_the_job_ends_early() -> None:
    class Holding(AsyncFunction[int, int]):
        def open(self, runtime_context: Any) -> None:
            self.held = 0

        async def async_invoke(self, value: int) -> list[int]:
            self.held += 1
            try:
                return await after(60_000)
            finally:
                await asyncio.sleep(0)
                self.held -= 1

        def close(self) -> None:
            assert self.held == 0

    one = harness(Holding()).open()
    one.push_all([1, 2])
    one.close()


def failure_of(function: Any) -> JobExecutionError:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    stream = AsyncDataStream.ordered_wait(env.from_collection(["a", "bad"]), function, Time.seconds(1)).name("asking")
    with pytest.raises(JobExecutionError) as caught:
        list(stream.execute_and_collect())
    return caught.value


def test_an_error_names_operator_function_line_and_record() -> None:
    error = failure_of(picky)
    assert (error.operator_name, error.function_name, error.record_repr) == ("asking", "picky", "'bad'")
    assert f"test_asynchronous.py:{picky.__code__.co_firstlineno + 3}" in str(error)


def test_an_asynchronous_operator_behind_another_in_one_chain() -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor()).set_parallelism(1)
    first = AsyncDataStream.ordered_wait(env.from_sequence(1, 2000), picky, Time.seconds(5), 10)
    second = AsyncDataStream.unordered_wait(first, picky, Time.seconds(5), 10)
    assert sorted(second.execute_and_collect()) == list(range(1, 2001))


@BOTH
def test_ten_thousand_calls_of_ten_milliseconds_overlap(mode: Any) -> None:
    with harness(after, mode, capacity=1000) as one:
        started = time.monotonic()
        for _ in range(10):
            one.push_all([10] * 1000)
        one.end_epoch()
        assert len(one.output) == 10_000
        assert time.monotonic() - started < 20  # One after the other they take a hundred seconds.


def build(**changed: Any) -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    settings = {"async_function": picky, "timeout": Time.seconds(1), "data_stream": env.from_collection([1]), **changed}
    if "async_retry_strategy" in changed:
        AsyncDataStream.unordered_wait_with_retry(**settings)
    else:
        AsyncDataStream.ordered_wait(**settings)


def plain(value: int) -> list[int]:
    return [value]


async def generator(value: int) -> Any:
    yield value


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"timeout": Time.seconds(0)}, "must be positive"),
        ({"timeout": "soon"}, "expected a span of time"),
        ({"capacity": 0}, "must be at least 1"),
        ({"async_function": plain}, "cannot be awaited"),
        ({"async_function": generator}, "cannot be awaited"),
        ({"async_function": 5}, "takes an AsyncFunction or a callable"),
        ({"async_function": Failing}, "instead of an instance"),
        ({"data_stream": [1]}, "takes a DataStream"),
        ({"async_retry_strategy": 3}, "takes an AsyncRetryStrategy"),
    ],
)
def test_mistakes_are_seen_when_the_program_is_built(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        build(**changed)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AsyncRetryStrategy.fixed_delay(0, 1),
        lambda: AsyncRetryStrategy.fixed_delay(1, -1),
        lambda: AsyncRetryStrategy.exponential_backoff(1, 10, 5, 2.0),
        lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 5, 0.5),
    ],
)
def test_strategies_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ProgramError, match="must be at least"):
        make()


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_tasks_that_fail_and_are_run_again_give_each_result_once(mode: Any, seed: int) -> None:
    async def ask(value: int) -> list[int]:
        await asyncio.sleep(0.001 * (value % 3))
        return [value]

    faults = Faults(share=0.3, seed=seed)
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(faults=faults)).set_parallelism(2)
    source = EpochSource([list(range(start, start + 50)) for start in range(0, 200, 50)])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").rebalance()
    settings = AsyncFunctionDescriptor(ask, Time.seconds(5), 7, AsyncRetryStrategy.no_restart(), mode)
    answers = wait_as_described(numbers, settings).key_by(lambda value: value % 2)
    assert sorted(answers.map(lambda value: value).execute_and_collect()) == list(range(200))


def test_a_call_that_was_given_up_and_answers_later_does_not_count() -> None:
    class Stubborn(AsyncFunction[int, int]):
        def open(self, runtime_context: Any) -> None:
            self.calls = 0

        async def async_invoke(self, value: int) -> list[int]:
            self.calls += 1
            if self.calls > 1:
                await asyncio.sleep(0.05)
                return [value]
            while True:
                try:
                    await asyncio.sleep(0.02)
                    raise ValueError("too late")
                except asyncio.CancelledError:
                    continue

    with harness(Stubborn()) as one:
        one.push(1)
        operator = next(iter(one._subtask.operators.values()))
        assert isinstance(operator, AsyncOperator)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(call_pool, "_FAREWELL_SECONDS", 0.0)
            operator.begin()  # As the next attempt does.
        one.push(2)
        one.end_epoch()
        assert one.output == [2]
