"""Execution config, restart strategies, ids, results and futures."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import CancelledError
from datetime import timedelta

import pytest

from millrace.common import (
    CompletableFuture,
    ExecutionConfig,
    InputDependencyConstraint,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
    JvmOnlyError,
    ProgramError,
    RestartStrategies,
)
from millrace.common.io import InputFormat


def test_settings_read_back():
    config = (
        ExecutionConfig()
        .set_parallelism(4)
        .set_max_parallelism(128)
        .set_auto_watermark_interval(timedelta(seconds=1))
        .set_latency_tracking_interval(5)
        .set_task_cancellation_interval(6)
        .set_task_cancellation_timeout(7)
        .set_use_snapshot_compression(True)
        .set_global_job_parameters({"a": 1})
        .disable_closure_cleaner()
        .disable_generic_types()
        .disable_auto_generated_uids()
        .enable_object_reuse()
        .disable_force_kryo()
        .disable_force_avro()
    )
    assert (config.get_parallelism(), config.get_max_parallelism()) == (4, 128)
    assert config.get_auto_watermark_interval() == 1_000
    assert config.get_latency_tracking_interval() == 5
    assert (config.get_task_cancellation_interval(), config.get_task_cancellation_timeout()) == (6, 7)
    assert config.is_use_snapshot_compression()
    assert config.get_global_job_parameters() == {"a": "1"}
    assert not config.is_closure_cleaner_enabled()
    assert config.has_generic_types_disabled()
    assert not config.has_auto_generated_uids_enabled()
    assert config.is_object_reuse_enabled()
    assert (config.is_force_kryo_enabled(), config.is_force_avro_enabled()) == (False, False)
    assert pickle.loads(pickle.dumps(config)) == config != ExecutionConfig()


def test_settings_switch_back_on():
    config = ExecutionConfig().disable_closure_cleaner().disable_generic_types().disable_auto_generated_uids()
    config.enable_closure_cleaner().enable_generic_types().enable_auto_generated_uids()
    assert config.enable_object_reuse().disable_object_reuse() == ExecutionConfig()
    assert hash(config) == hash(ExecutionConfig())
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == -1
    assert (config.get_default_kryo_serializer_classes(), config.get_registered_kryo_types()) == ({}, [])
    assert config.get_registered_pojo_types() == []


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda c: c.set_parallelism(0), "the parallelism must be between 1 and 32768, got 0"),
        (
            lambda c: c.set_max_parallelism(2**15 + 1),
            "the max parallelism must be between 1 and 32768, got 32769",
        ),
        (
            lambda c: c.set_auto_watermark_interval(-1),
            "the watermark interval must not be negative, got -1 ms",
        ),
        (
            lambda c: c.set_task_cancellation_timeout(-1),
            "the cancellation timeout must not be negative, got -1 ms",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(act, message):
    with pytest.raises(ProgramError, match=message):
        act(ExecutionConfig())


@pytest.mark.parametrize("name", ["enable_force_kryo", "enable_force_avro"])
def test_serializers_of_the_jvm_are_refused(name):
    with pytest.raises(JvmOnlyError, match=f"ExecutionConfig.{name} needs a JVM"):
        getattr(ExecutionConfig(), name)()


@pytest.mark.parametrize(
    ("strategy", "description"),
    [
        (RestartStrategies.no_restart(), "Restart deactivated."),
        (RestartStrategies.fall_back_restart(), "Cluster level default restart strategy"),
        (
            RestartStrategies.fixed_delay_restart(3, 500),
            "Restart with fixed delay (500 ms). #3 restart attempts.",
        ),
        (
            RestartStrategies.failure_rate_restart(2, timedelta(minutes=5), 1000),
            "Failure rate restart with maximum of 2 failures within interval 5 min and fixed delay 1 s.",
        ),
        (
            RestartStrategies.exponential_delay_restart(1000, timedelta(minutes=1), 2.0, timedelta(hours=1), 0.1),
            (
                "Restart with exponential delay: starting at 1 s, increasing by 2.0, with maximum 1 min. "
                "Delay resets after 1 h with jitter 0.1"
            ),
        ),
    ],
)
def test_restart_strategies_describe_themselves_and_pickle(strategy, description):
    assert strategy.get_description() == description
    copy = pickle.loads(pickle.dumps(strategy))
    assert copy == strategy
    assert hash(copy) == hash(strategy)


def test_restart_strategies_answer_in_timedeltas():
    second, minute = timedelta(seconds=1), timedelta(minutes=1)
    fixed = RestartStrategies.fixed_delay_restart(3, second)
    assert (fixed.get_restart_attempts(), fixed.get_delay_between_attempts_interval()) == (3, second)
    rate = RestartStrategies.failure_rate_restart(2, minute, second)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (2, minute)
    assert rate.get_delay_between_attempts_interval() == second
    growing = RestartStrategies.exponential_delay_restart(second, minute, 1.5, minute, 0.0)
    assert (growing.get_initial_backoff(), growing.get_max_backoff()) == (second, minute)
    assert (growing.get_backoff_multiplier(), growing.get_jitter_factor()) == (1.5, 0.0)
    assert growing.get_reset_backoff_threshold() == minute


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: RestartStrategies.fixed_delay_restart(-1, 0),
            "the restart attempts must not be negative, got -1",
        ),
        (
            lambda: RestartStrategies.fixed_delay_restart(1, -1),
            "the delay between attempts must not be negative, got -1",
        ),
        (lambda: RestartStrategies.failure_rate_restart(0, 1, 1), "the failure rate must be positive, got 0"),
        (
            lambda: RestartStrategies.failure_rate_restart(1, 0, 1),
            "the failure interval must be positive, got 0",
        ),
        (
            lambda: RestartStrategies.failure_rate_restart(1, 1, -1),
            "the delay between attempts must not be negative",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(0, 1, 2, 1, 0),
            "the initial backoff must be positive",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(2, 1, 2, 1, 0),
            "the max backoff must not be below",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(1, 1, 1, 1, 0),
            "the backoff multiplier must be above 1",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(1, 1, 2, 0, 0),
            "the threshold to reset the backoff",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(1, 1, 2, 1, 2),
            "the jitter factor must be between 0 and 1",
        ),
    ],
)
def test_restart_strategies_that_make_no_sense_are_refused(build, message):
    with pytest.raises(ProgramError, match=message):
        build()


def test_job_ids():
    given_ = JobID("0123456789ABCDEF" * 2)
    assert str(given_) == given_.to_hex_string() == "0123456789abcdef" * 2
    assert JobID.from_hex_string(str(given_)) == given_ == pickle.loads(pickle.dumps(given_))
    assert len({JobID.generate(), JobID.generate(), given_}) == 3
    assert repr(given_) == f"JobID({given_})"
    with pytest.raises(ProgramError, match=r"'xyz' is not a job id\nAction: Give 32 hexadecimal digits."):
        JobID("xyz")


def test_only_three_states_are_final_everywhere():
    final = {status for status in JobStatus if status.is_globally_terminal_state()}
    assert final == {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}
    assert {status for status in JobStatus if status.is_terminal_state()} == final | {JobStatus.SUSPENDED}


def test_results_answer():
    result = JobExecutionResult(JobID("0" * 32), 5, {"n": 1})
    assert (str(result.get_job_id()), result.get_net_runtime(), result.get_all_accumulator_results()) == (
        "0" * 32,
        5,
        {"n": 1},
    )
    assert result.get_accumulator_result("none") is None
    assert result.is_job_execution_result()
    assert repr(result) == f"JobExecutionResult({'0' * 32}, 5 ms)"
    submitted = JobExecutionResult(JobID())
    assert not submitted.is_job_execution_result()
    assert submitted.get_net_runtime() == -1


def test_a_future_passes_results_and_errors_on():
    assert CompletableFuture.completed(2).then(str).result() == "2"
    boom = ValueError("x")
    failed = CompletableFuture.failed(boom)
    assert failed.then(str).exception() is boom
    assert isinstance(CompletableFuture.completed("a").then(int).exception(), ValueError)
    assert failed.done()
    assert "CompletableFuture" in repr(failed)


def test_a_cancelled_future_cancels_what_follows():
    future: CompletableFuture[int] = CompletableFuture()
    after = future.then(str)
    assert not future.done()
    assert future.cancel()
    assert future.cancelled()
    assert after.cancelled()
    with pytest.raises(CancelledError):
        future.result()
    with pytest.raises(TimeoutError):
        CompletableFuture[int]().result(timeout=0)


def test_a_future_can_be_awaited():
    async def wait() -> int:
        return await CompletableFuture.completed(3)

    assert asyncio.run(wait()) == 3


def test_interfaces_cannot_be_made():
    for interface in (JobClient, InputFormat):
        with pytest.raises(TypeError):
            interface()
    assert [c.name for c in InputDependencyConstraint] == ["ANY", "ALL"]
