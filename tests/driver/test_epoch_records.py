"""What is kept of an epoch, so that it can be run again at a desk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import RestartStrategies
from millrace.common.errors import MillraceError
from millrace.common.job_client import JobClient
from millrace.datastream import ExternalizedCheckpointRetention, StreamExecutionEnvironment
from millrace.driver.epoch_records import (
    EpochRecord,
    EpochRecords,
    FailureRecord,
    decode_record,
    encode_record,
    read_records,
)
from millrace.driver.job import JobRun
from millrace.state.errors import StateCorruptedError
from millrace.state.files import open_files
from millrace.state.manifest import Manifest, list_manifests
from millrace.testing.crashes import Crash, Crashes
from millrace.testing.in_process import InProcessExecutor
from millrace.testing.memory_files import MemoryFiles
from tests.driver.jobs import LogSink, build, environment, epochs

RETAIN = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


@pytest.fixture(autouse=True, scope="module")
def _jobs_that_end_leave_what_they_have() -> Iterator[None]:
    """A job that finishes deletes its checkpoints; here they stay, as those of one that was cancelled do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRun, "_keeps_files", lambda job, status: job.options.checkpoints.retention != "never")
        yield


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    LogSink.committed.clear()
    yield
    LogSink.committed.clear()


def keeping(directory: Path, **settings: Any) -> StreamExecutionEnvironment:
    env = environment(directory, **settings)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(RETAIN)
    return env


def poisoned(at: int = 3) -> list[list[Any]]:
    """One record of an epoch is none that the checker can add up."""
    source: list[list[Any]] = [list(epoch) for epoch in epochs()]
    source[at][4] = ("k4", "0")
    return source


def submit(env: StreamExecutionEnvironment, source: list[list[Any]]) -> JobClient:
    build(env, source)
    return env.execute_async("all-round")


def fail(env: StreamExecutionEnvironment, source: list[list[Any]]) -> None:
    with pytest.raises(MillraceError, match="unsupported operand"):
        submit(env, source).get_job_execution_result().result()


def job_directory(directory: Path) -> Path:
    [entry] = (directory / "checkpoints" / "jobs").glob("*.json")
    return directory / "checkpoints" / entry.stem


def records(directory: Path) -> list[EpochRecord]:
    found, damaged = read_records(open_files(job_directory(directory)))
    assert not damaged
    return found


def missing(directory: Path) -> list[str]:
    """The files that records name and that are not there."""
    home = job_directory(directory)
    return [path for record in records(directory) for path in record.files() if not (home / path).exists()]


def test_each_kept_checkpoint_has_the_record_of_its_epoch_with_all_files(tmp_path: Path) -> None:
    submit(keeping(tmp_path), epochs()).get_job_execution_result().result()
    found = records(tmp_path)
    assert [record.epoch for record in found] == list_manifests(open_files(job_directory(tmp_path))) == [5, 6]
    assert [(record.before.epoch, record.before.sources, record.ends) for record in found] == [
        (4, {"numbers": {"next": 4}}, {"numbers": {"next": 5}}),
        (5, {"numbers": {"next": 5}}, {"numbers": {"next": 6}}),
    ]
    assert [record.final for record in found] == [False, True]
    assert found[0].files()
    assert not missing(tmp_path)


def test_nothing_is_left_of_epochs_whose_checkpoint_went(tmp_path: Path) -> None:
    submit(keeping(tmp_path), epochs(20)).get_job_execution_result().result()
    home = job_directory(tmp_path)
    needed = set().union(*(record.files() for record in records(tmp_path)))
    needed |= {h.path for hs in records(tmp_path)[1].before.subtasks.values() for s in hs for h in s.chain}
    final = open_files(home)
    assert [record.epoch for record in records(tmp_path)] == [19, 20]
    state = set(final.list("state"))
    assert needed <= state
    assert all(int(path.rpartition("/")[2].partition("-")[0]) > 10 or path in needed for path in state)


def test_the_epoch_that_failed_is_recorded_with_operator_subtask_and_record(tmp_path: Path) -> None:
    env = keeping(tmp_path, parallelism=3)
    env.set_restart_strategy(RestartStrategies.no_restart())
    fail(env, poisoned())
    failed = records(tmp_path)[-1]
    assert (failed.epoch, failed.attempt, failed.before.epoch) == (4, 0, 3)
    failure = failed.failure
    assert failure is not None
    assert (failure.uid, failure.kind, failure.record) == ("checker", "TypeError", "('k4', '0')")
    assert 0 <= failure.subtask < 3
    assert not missing(tmp_path)


def test_only_the_last_failed_epoch_is_kept_through_restarts(tmp_path: Path) -> None:
    env = keeping(tmp_path)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 0))
    fail(env, poisoned())
    assert [(record.epoch, record.failure is not None) for record in records(tmp_path)] == [
        (2, False),
        (3, False),
        (4, True),
    ]
    assert records(tmp_path)[-1].attempt == 2
    assert not missing(tmp_path)


class FailsOnce:
    """Fails at one number, once in this process."""

    failed = False

    def __call__(self, value: Any) -> Any:
        if value == ("k4", 7) and not FailsOnce.failed:
            FailsOnce.failed = True
            raise ValueError("only once")
        return value


def test_files_between_checkpoints_stay_for_the_record_while_the_job_goes_on_without_them(tmp_path: Path) -> None:
    """No checkpoint was there when epoch 4 failed, and the job began anew: what it had by then is still needed."""
    from millrace.common import Types, WatermarkStrategy
    from millrace.testing import EpochSource
    from tests.driver.jobs import Checker

    FailsOnce.failed = False
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    env.set_parallelism(2)
    env.enable_checkpointing(3_600_000)
    env.get_checkpoint_config().set_checkpoint_storage(str(tmp_path / "checkpoints"))
    env.get_checkpoint_config().set_externalized_checkpoint_retention(RETAIN)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    stream = env.from_source(EpochSource(epochs()), strategy, "numbers").uid("numbers")
    checked = stream.map(_once).uid("once").key_by(lambda value: value[0]).process(Checker(), Types.STRING())
    checked.uid("checker").sink_to(LogSink()).uid("log")
    env.execute("once")
    assert [(record.epoch, record.attempt, record.failure is not None) for record in records(tmp_path)] == [
        (4, 0, True),
        (6, 1, False),
    ]
    assert not missing(tmp_path)


def _once(value: Any) -> Any:
    import tests.driver.test_epoch_records as here

    return here.FailsOnce()(value)


def test_another_process_goes_on_keeping_what_the_dead_one_kept(tmp_path: Path) -> None:
    """The second process fails at once, so that what the first one has recorded is still the newest."""
    with Crashes() as steps:
        submit(keeping(tmp_path / "undisturbed"), epochs()).get_job_execution_result().result()
    with Crashes(at=steps.taken * 3 // 4), pytest.raises(Crash):
        submit(keeping(tmp_path), epochs()).get_job_execution_result().result()
    before = [record.epoch for record in records(tmp_path)]
    assert before
    assert not missing(tmp_path)
    submit(keeping(tmp_path), epochs()).get_job_execution_result().result()
    assert [record.epoch for record in records(tmp_path)][-1] == 6
    assert not missing(tmp_path)


def test_a_restore_is_recorded_with_the_directory_that_it_reads(tmp_path: Path) -> None:
    submit(keeping(tmp_path / "first"), epochs(3)).get_job_execution_result().result()
    old = job_directory(tmp_path / "first")
    checkpoint = f"{old}/manifests/000000000002.manifest"
    env = keeping(tmp_path / "second", execution__savepoint__path=checkpoint, parallelism=3)
    env.set_restart_strategy(RestartStrategies.no_restart())
    fail(env, poisoned(2))
    [failed] = records(tmp_path / "second")
    assert (failed.epoch, failed.before.epoch) == (3, 2)
    assert {restored.directory for restored in failed.restore.values()} == {str(old)}


def test_a_job_that_ends_without_retention_leaves_nothing(tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.set_restart_strategy(RestartStrategies.no_restart())
    fail(env, poisoned())
    assert not list((tmp_path / "checkpoints").rglob("*.epoch"))


def test_a_record_that_cannot_be_written_does_not_fail_the_job() -> None:
    class Full(MemoryFiles):
        def write(self, path: str, data: bytes) -> None:
            raise OSError("No space left on device")

    kept = EpochRecords(Full())
    kept.put(record())
    assert kept.files() == set()


# --- the file ---------------------------------------------------------------------------------------------------------


def record(epoch: int = 4) -> EpochRecord:
    before = Manifest("0" * 32, epoch - 1, sources={"s": {"next": 3}})
    failure = FailureRecord("E", "m", "op", 2)
    return EpochRecord(epoch, 1, 1_700_000_000_000, before, {"s": {"next": 4}}, failure=failure)


def test_a_record_is_read_as_it_was_written() -> None:
    assert decode_record(encode_record(record()), "r") == record()


@pytest.mark.parametrize(
    ("forge", "told"),
    [
        (lambda data: data[:20], "cut short within its first line"),
        (lambda data: data[:-1], "bytes instead of"),
        (lambda data: data.replace(b'"next": 3', b'"next": 1'), "the checksum of the epoch-record does not fit"),
        (lambda data: data.replace(b"record 1 ", b"record 9 ", 1), "format 9 is unknown here"),
        (lambda data: data.replace(b"epoch-record", b"manifest", 1), "no epoch-record"),
    ],
)
def test_a_record_that_was_cut_or_changed_is_told(forge: Any, told: str) -> None:
    with pytest.raises(StateCorruptedError, match=told):
        decode_record(forge(encode_record(record())), "epochs/4.epoch")


def test_a_damaged_record_is_left_out_and_the_others_are_read() -> None:
    files = MemoryFiles()
    files.write(record(4).path, b"nonsense")
    files.write(record(5).path, encode_record(record(5)))
    found, damaged = read_records(files)
    assert found == [record(5)]
    assert [error.path for error in damaged] == [record(4).path]


