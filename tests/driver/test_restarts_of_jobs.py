"""A job that fails: when it starts again, from where, what its functions see of it, and what it leaves behind."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from millrace.common import Configuration, RestartStrategies, Types
from millrace.common.errors import JobCancelledError, MillraceError
from millrace.common.job_status import JobStatus
from millrace.datastream import ExternalizedCheckpointRetention, JobManagerCheckpointStorage, StreamExecutionEnvironment
from millrace.datastream.accumulators import LongCounter
from millrace.datastream.functions import CheckpointListener, KeyedProcessFunction, MapFunction
from millrace.datastream.state import ValueStateDescriptor
from millrace.driver.checkpointer import Checkpointer
from millrace.state.files import JobFiles, intercept_files
from millrace.testing.crashes import Crash, Crashes
from millrace.testing.in_process import InProcessExecutor
from tests.driver.all_round import RECORD_TYPE, GatedSource, finish, timed, wait_for_epochs, wait_until
from tests.driver.jobs import LogSink

FAST = {"restart-strategy.exponential-delay.initial-backoff": "1 ms"}

# Records by epoch; the function counts them by key.
EPOCHS = [[(f"k{number % 3}", epoch) for number in range(6)] for epoch in range(6)]

EXPECTED = sorted(f"k{key} {number}" for key in range(3) for number in range(1, 13))


class Told(KeyedProcessFunction, CheckpointListener):
    """Counts by key, fails when the test says so, and keeps a diary."""

    failures: ClassVar[list[int]] = []  # at which records of all that come, failed attempts included
    seen: ClassVar[int] = 0
    open_now: ClassVar[Counter[int]] = Counter()
    opened: ClassVar[int] = 0
    closed: ClassVar[int] = 0
    completed: ClassVar[list[int]] = []
    aborted: ClassVar[list[int]] = []
    attempts: ClassVar[set[int]] = set()

    @classmethod
    def forget(cls) -> None:
        cls.failures, cls.seen, cls.opened, cls.closed = [], 0, 0, 0
        cls.completed, cls.aborted, cls.attempts = [], [], set()
        cls.open_now = Counter()

    def open(self, runtime_context: Any) -> None:
        Told.opened += 1
        Told.open_now[id(self)] += 1
        Told.attempts.add(runtime_context.get_attempt_number())
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        Told.seen += 1
        if Told.seen in Told.failures:
            raise ValueError(f"told to fail at {Told.seen}")
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]} {self.count.value()}"

    def close(self) -> None:
        Told.closed += 1
        Told.open_now[id(self)] -= 1

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Told.completed.append(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        Told.aborted.append(checkpoint_id)


@pytest.fixture(autouse=True)
def _a_clean_diary() -> Iterator[None]:
    Told.forget()
    LogSink.committed.clear()
    yield
    assert set(Told.open_now.values()) <= {0}, "open() and close() do not pair up"
    assert Told.opened == Told.closed
    LogSink.committed.clear()


def environment(directory: Path | None = None, checkpoints: bool = True, **options: str) -> StreamExecutionEnvironment:
    """Two subtasks; with checkpoints, every epoch is one, and restarts do not wait."""
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(every_epoch=True))
    env.set_parallelism(2)
    if checkpoints:
        env.enable_checkpointing(10)
        if directory is not None:
            env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    if options:
        env.configure(Configuration.from_dict(options))
    return env


def submit(env: StreamExecutionEnvironment, source: GatedSource | None = None, failures: Any = ()) -> Any:
    """Start the program; it fails at these records."""
    Told.failures = list(failures)
    numbers = env.from_source(source or GatedSource(EPOCHS), timed(), "numbers", RECORD_TYPE).uid("numbers")
    numbers.key_by(lambda value: value[0], Types.STRING()).process(Told(), Types.STRING()).uid("told").sink_to(
        LogSink()
    ).uid("log")
    return env.execute_async("told")


def exponential(directory: Path | None = None, **options: str) -> StreamExecutionEnvironment:
    """Flink's default with checkpoints, but for its pauses."""
    return environment(directory, **{"restart-strategy.type": "exponential-delay", **FAST, **options})


# --- whether a job starts again ------------------------------------------------------------------------------------


def test_without_checkpoints_the_first_failure_is_the_last() -> None:
    job = submit(environment(checkpoints=False), failures=[10])
    with pytest.raises(MillraceError, match="told to fail at 10"):
        finish(job)
    assert job.get_restarts().result() == []
    assert job.get_job_status().result() is JobStatus.FAILED


def test_with_checkpoints_a_job_starts_again_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from millrace.driver import restarts

    fast = replace(restarts.DEFAULT_EXPONENTIAL_DELAY, initial_backoff_ms=1)
    monkeypatch.setattr(restarts, "DEFAULT_EXPONENTIAL_DELAY", fast)
    job = submit(environment(tmp_path), failures=[10, 20])
    finish(job)
    assert len(job.get_restarts().result()) == 2
    assert LogSink.records() == EXPECTED


def test_a_fixed_delay_without_checkpoints_starts_from_nothing() -> None:
    env = environment(checkpoints=False)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    job = submit(env, failures=[15])
    finish(job)
    assert len(job.get_restarts().result()) == 1
    assert not set(LogSink.records()) - set(EXPECTED)
    assert Told.seen == 15 + 36
    assert Counter(LogSink.records()) == Counter(EXPECTED) + Counter(_first_epochs(2))


def _first_epochs(count: int) -> list[str]:
    """What was committed of an attempt that was then begun anew: without checkpoints there is nothing to wait for."""
    return [f"k{key} {number}" for key in range(3) for number in range(1, 2 * count + 1)]


@pytest.mark.parametrize(
    "options",
    [
        {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "2"},
        {
            "restart-strategy.type": "failure-rate",
            "restart-strategy.failure-rate.max-failures-per-interval": "2",
            "restart-strategy.failure-rate.delay": "1 ms",
        },
        {
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.attempts-before-reset-backoff": "2",
            **FAST,
        },
    ],
)
def test_a_strategy_gives_up_after_as_many_failures_as_it_says(tmp_path: Path, options: dict[str, str]) -> None:
    options = {**options, "restart-strategy.fixed-delay.delay": "1 ms"}
    job = submit(environment(tmp_path, **options), failures=[7, 8, 20, 25])
    with pytest.raises(MillraceError, match=r"told to fail at (20|25)"):
        finish(job)
    assert len(job.get_restarts().result()) == 2
    assert not Counter(LogSink.records()) - Counter(EXPECTED)


def test_no_restart_is_no_restart_with_checkpoints_too(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="told to fail at 9"):
        finish(submit(environment(tmp_path, **{"restart-strategy.type": "none"}), failures=[9]))


# --- what is seen of it --------------------------------------------------------------------------------------------


def test_restarts_are_told_with_number_cause_and_delay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "millrace.job"):
        job = submit(exponential(tmp_path), failures=[10, 20])
        finish(job)
    restarts = job.get_restarts().result()
    assert [restart.number for restart in restarts] == [1, 2]
    assert ["told to fail at 10" in restarts[0].cause, "told to fail at 20" in restarts[1].cause] == [True, True]
    assert all(0 <= restart.delay_ms <= 3 for restart in restarts)
    warnings = [record.getMessage() for record in caplog.records if "restarts in" in record.getMessage()]
    assert ["restart 1" in warnings[0], "told to fail at 10" in warnings[0]] == [True, True]
    assert ["restart 2" in warnings[1], "told to fail at 20" in warnings[1]] == [True, True]


def waiting_job(directory: Path) -> Any:
    """A job in the pause before its restart, which is long."""
    env = environment(directory)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 600_000))
    job = submit(env, failures=[10])
    wait_until(lambda: job.get_job_status().result() is JobStatus.RESTARTING)
    return job


def test_a_job_is_restarting_during_the_pause_and_can_be_cancelled_then(tmp_path: Path) -> None:
    job = waiting_job(tmp_path)
    assert len(job.get_restarts().result()) == 1
    job.cancel().result(10)
    assert job.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        finish(job)
    assert not list((tmp_path / "checkpoints").rglob("*.manifest"))


def test_a_savepoint_that_is_asked_for_during_the_pause_fails_when_the_job_ends(tmp_path: Path) -> None:
    job = waiting_job(tmp_path)
    asked = job.trigger_savepoint(str(tmp_path / "savepoints"))
    job.cancel().result(10)
    with pytest.raises(MillraceError, match="ended before a savepoint was taken"):
        asked.result(10)


def test_functions_see_the_number_of_the_attempt(tmp_path: Path) -> None:
    finish(submit(exponential(tmp_path), failures=[10, 20]))
    assert Told.attempts == {0, 1, 2}


class Counted(MapFunction):
    """Counts records in an accumulator."""

    def open(self, runtime_context: Any) -> None:
        self.counter = LongCounter()
        runtime_context.add_accumulator("records", self.counter)

    def map(self, value: Any) -> Any:
        self.counter.add(1)
        return value


def test_accumulators_count_from_the_last_restart_on(tmp_path: Path) -> None:
    """As in Flink: they are no state."""
    env = exponential(tmp_path)
    Told.failures = [15]
    numbers = env.from_source(GatedSource(EPOCHS), timed(), "numbers", RECORD_TYPE).map(Counted(), RECORD_TYPE)
    numbers.key_by(lambda value: value[0], Types.STRING()).process(Told(), Types.STRING()).sink_to(LogSink())
    job = env.execute_async("counted")
    finish(job)
    assert job.get_job_execution_result().result().get_accumulator_result("records") == 36 - 12


# --- listeners -----------------------------------------------------------------------------------------------------


def test_listeners_are_told_of_every_checkpoint_also_of_the_last_one(tmp_path: Path) -> None:
    finish(submit(exponential(tmp_path)))
    assert set(Told.completed) == set(range(1, len(EPOCHS) + 1))
    assert Told.completed == sorted(Told.completed)
    assert Told.aborted == []


def test_listeners_are_told_of_no_checkpoint_where_there_are_none() -> None:
    finish(submit(environment(checkpoints=False)))
    assert Told.completed == []


class FullDisk:
    """Files of which those that a test names cannot be written for as long as it says."""

    def __init__(self, name: str, times: int) -> None:
        self.name = name
        self.times = times

    def __call__(self, files: JobFiles) -> JobFiles:
        return _Full(files, self)


class _Full:
    def __init__(self, files: JobFiles, disk: FullDisk) -> None:
        self.read, self.list, self.delete = files.read, files.list, files.delete
        self._files, self._disk = files, disk

    def write(self, path: str, data: bytes) -> None:
        if self._disk.name in path and self._disk.times > 0:
            self._disk.times -= 1
            raise OSError(28, "No space left on device", path)
        self._files.write(path, data)


def test_a_checkpoint_that_fails_is_tolerated_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    env = exponential(tmp_path, **{"execution.checkpointing.tolerable-failed-checkpoints": "2"})
    with caplog.at_level(logging.WARNING, "millrace.job"), intercept_files(FullDisk("000003.manifest", 1)):
        job = submit(env)
        finish(job)
    assert job.get_restarts().result() == []
    assert LogSink.records() == EXPECTED
    assert set(Told.aborted) == {3}
    assert 3 not in Told.completed
    assert "No space left on device" in caplog.text
    assert "failure 1 of 2" in caplog.text


def test_one_failed_checkpoint_more_than_is_tolerated_restarts_the_job(tmp_path: Path) -> None:
    env = exponential(tmp_path, **{"execution.checkpointing.tolerable-failed-checkpoints": "1"})
    with intercept_files(FullDisk(".manifest", 2)):
        job = submit(env)
        finish(job)
    [restart] = job.get_restarts().result()
    assert "No space left on device" in restart.cause
    assert LogSink.records() == EXPECTED


def test_the_last_checkpoint_must_succeed_even_where_failures_are_tolerated(tmp_path: Path) -> None:
    """No other one comes after it, to let out what sinks have prepared."""
    env = exponential(tmp_path, **{"execution.checkpointing.tolerable-failed-checkpoints": "5"})
    with intercept_files(FullDisk(f"{len(EPOCHS):06}.manifest", 1)):
        job = submit(env)
        finish(job)
    assert len(job.get_restarts().result()) == 1
    assert LogSink.records() == EXPECTED


def test_a_directory_that_cannot_be_written_for_a_while_is_waited_for(tmp_path: Path) -> None:
    job = submit(exponential(tmp_path), source := GatedSource(EPOCHS, 2))
    wait_for_epochs(job, 2)
    states = next(path for path in (tmp_path / "checkpoints").iterdir() if path.name != "jobs") / "state"
    states.rename(tmp_path / "away")
    states.write_text("a file stands where the directory was")
    source.allowed = 100
    wait_until(lambda: len(job.get_restarts().result()) >= 2)
    states.unlink()
    (tmp_path / "away").rename(states)
    finish(job)
    assert LogSink.records() == EXPECTED


# --- damaged checkpoints -------------------------------------------------------------------------------------------


def killed(directory: Path, epochs: int = 4) -> Path:
    """Run the program until the process dies after some checkpoints; the job's directory."""
    with Crashes() as crashes:
        source = GatedSource(EPOCHS, epochs)
        job = submit(exponential(directory), source)
        wait_for_epochs(job, epochs)
        crashes._at = crashes.taken + 1
        source.allowed = 100
        with pytest.raises(Crash):
            finish(job)
    return next(path for path in (directory / "checkpoints").iterdir() if path.name != "jobs")


def damage(path: Path) -> str:
    """Change a byte in the middle of a file. Its name."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    return path.name


def newest_file_of(home: Path, directory: str) -> Path:
    return max((path for path in (home / directory).rglob("*") if path.is_file()), key=lambda path: path.name)


def newest_delta(home: Path) -> Path:
    """A state file that only the newest checkpoint needs."""
    manifests = sorted((home / "manifests").iterdir())
    newest, before = manifests[-1].read_text(), manifests[-2].read_text()
    return next(
        path
        for path in (home / "state").rglob("*")
        if path.is_file() and path.name in newest and path.relative_to(home).as_posix() not in before
    )


@pytest.mark.parametrize("find", [lambda home: newest_file_of(home, "manifests"), newest_delta])
def test_a_damaged_file_of_the_newest_checkpoint_is_named_and_the_one_before_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, find: Any
) -> None:
    name = damage(find(killed(tmp_path)))
    with caplog.at_level(logging.WARNING, "millrace.job"):
        job = submit(exponential(tmp_path))
        finish(job)
    assert name in caplog.text
    # What the damaged checkpoint had committed is committed again; the state, and so every result, is right.
    assert set(LogSink.records()) == set(EXPECTED)
    assert not Counter(EXPECTED) - Counter(LogSink.records())


@pytest.mark.parametrize("failures", [[2], [7], [8, 9]])
def test_a_job_that_left_a_damaged_checkpoint_out_does_not_go_back_twice(
    tmp_path: Path, failures: list[int]
) -> None:
    damage(newest_file_of(killed(tmp_path), "manifests"))
    before = len(LogSink.records())
    Told.seen = 0
    finish(submit(exponential(tmp_path), failures=failures))
    assert set(LogSink.records()) == set(EXPECTED)
    assert len(LogSink.records()) - len(EXPECTED) == 6, before


@pytest.mark.parametrize("kind", ["manifests", "state"])
def test_when_all_checkpoints_are_damaged_the_files_are_named_and_nothing_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    names = [damage(path) for path in (killed(tmp_path) / kind).rglob("*") if path.is_file()]
    before = LogSink.records()
    with caplog.at_level(logging.WARNING, "millrace.job"), pytest.raises(MillraceError) as failed:
        finish(submit(exponential(tmp_path)))
    assert any(name in caplog.text + str(failed.value) for name in names)
    assert LogSink.records() == before


def test_a_program_that_its_own_checkpoint_refuses_does_not_lose_it(tmp_path: Path) -> None:
    """A mistake in a new version of a program must not cost what the killed old one had done."""
    killed(tmp_path)
    env = exponential(tmp_path)
    env.from_source(GatedSource(EPOCHS), timed(), "numbers", RECORD_TYPE).uid("other numbers").sink_to(LogSink())
    for _ in range(2):
        with pytest.raises(MillraceError, match=r"uid 'told'\): 'count'"):
            env.execute_async("told")
        env = exponential(tmp_path)
        env.from_source(GatedSource(EPOCHS), timed(), "numbers", RECORD_TYPE).uid("other numbers").sink_to(LogSink())
    finish(submit(exponential(tmp_path)))
    assert LogSink.records() == EXPECTED


def test_a_job_that_cannot_be_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = threading.Lock()
    for env in (environment(tmp_path), environment()):
        env.from_collection([1]).map(lambda number: (lock, number)).print()
        with pytest.raises(MillraceError, match="cannot be shipped"):
            env.execute("never")
    assert [path for path in tmp_path.rglob("*") if path.is_file() or "millrace-" in path.name] == []


def test_a_job_that_cannot_be_started_does_not_lose_what_a_killed_one_left(tmp_path: Path) -> None:
    killed(tmp_path)
    env = exponential(tmp_path)
    lock = threading.Lock()
    numbers = env.from_source(GatedSource(EPOCHS), timed(), "numbers", RECORD_TYPE).uid("numbers")
    told = numbers.key_by(lambda value: value[0], Types.STRING()).process(Told(), Types.STRING()).uid("told")
    told.map(lambda text: (lock, text)[1], Types.STRING()).sink_to(LogSink()).uid("log")
    with pytest.raises(MillraceError, match="cannot be shipped"):
        env.execute("told")
    finish(submit(exponential(tmp_path)))
    assert LogSink.records() == EXPECTED


def test_what_a_killed_job_left_goes_before_the_savepoint_that_it_began_from(tmp_path: Path) -> None:
    """The same command starts it again: with the same savepoint, from which it had begun."""
    first = submit(exponential(tmp_path / "first"), GatedSource(EPOCHS, 1))
    wait_for_epochs(first, 1)
    path = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(10)
    finish(first)
    begun = {"execution.state-recovery.path": path}
    with Crashes() as crashes:
        second = submit(exponential(tmp_path, **begun), source := GatedSource(EPOCHS, 4))
        wait_for_epochs(second, 4)
        crashes._at = crashes.taken + 1
        source.allowed = 100
        with pytest.raises(Crash):
            finish(second)
    finish(submit(exponential(tmp_path, **begun)))
    assert LogSink.records() == EXPECTED


# --- when checkpoints are taken ------------------------------------------------------------------------------------


class Clock:
    """Seconds that the test moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def checkpointer(**options: Any) -> tuple[Checkpointer, Clock, Any]:
    from millrace.driver.home import temporary_home
    from millrace.graph.job_options import CheckpointOptions

    clock, home = Clock(), temporary_home()
    return Checkpointer(home, CheckpointOptions(**{"interval": 1000, **options}), clock), clock, home


def manifest(epoch: int) -> Any:
    from millrace.state.manifest import Manifest

    return Manifest("job", epoch)


def test_a_checkpoint_is_due_when_the_interval_is_over() -> None:
    taker, clock, home = checkpointer()
    due = []
    for clock.now in (0.5, 0.99, 1.0, 1.5, 2.0, 2.5):
        due.append(taker.is_due())
        if due[-1]:
            taker.take(manifest(int(clock.now * 10)))
    assert due == [False, False, True, False, True, False]
    home.close("FINISHED", keep=False)


def test_the_pause_counts_from_the_end_of_the_checkpoint_before() -> None:
    taker, clock, home = checkpointer(interval=10, min_pause=2000)
    clock.now = 1.0
    assert taker.is_due()
    assert taker.take(manifest(1))
    for clock.now, due in ((1.5, False), (2.9, False), (3.0, True)):
        assert taker.is_due() is due
    home.close("FINISHED", keep=False)


def test_a_checkpoint_that_takes_too_long_is_given_up() -> None:
    taker, clock, home = checkpointer(timeout=500, tolerable_failures=1)
    write = home.files.write

    def slow(path: str, data: bytes) -> None:
        clock.now += 0.6
        write(path, data)

    home.files.write = slow
    assert not taker.take(manifest(1))
    assert (taker.aborted, taker.completed) == (1, 0)
    assert home.files.list("manifests") == []
    with pytest.raises(MillraceError, match=r"took 0.6 s, and 0.5 s are allowed"):
        taker.take(manifest(2))
    home.close("FINISHED", keep=False)


@pytest.mark.parametrize("retained", [1, 2, 5])
def test_as_many_checkpoints_are_kept_as_was_said(tmp_path: Path, retained: int) -> None:
    job = submit(
        exponential(tmp_path, **{"execution.checkpointing.num-retained": str(retained)}),
        source := GatedSource(EPOCHS, 5),
    )
    wait_for_epochs(job, 5)
    kept = sorted(int(path.stem) for path in (tmp_path / "checkpoints").rglob("*.manifest"))
    assert len(kept) == retained
    assert kept == list(range(kept[-1] - retained + 1, kept[-1] + 1))
    source.allowed = 100
    finish(job)


# --- what is left --------------------------------------------------------------------------------------------------


RETENTION = {
    "never": ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
    "on-failure": ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
    "on-cancellation": ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
}


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
@pytest.mark.parametrize("retention", RETENTION)
def test_what_the_end_of_a_job_leaves(tmp_path: Path, retention: str, end: str) -> None:
    env = environment(tmp_path, **{"restart-strategy.type": "none"})
    env.get_checkpoint_config().set_externalized_checkpoint_retention(RETENTION[retention])
    source = GatedSource(EPOCHS, 3 if end == "cancelled" else None)
    job = submit(env, source, failures=[20] if end == "failed" else [])
    if end == "cancelled":
        wait_for_epochs(job, 3)
        job.cancel().result(10)
    elif end == "failed":
        with pytest.raises(MillraceError, match="told to fail"):
            finish(job)
    else:
        finish(job)
    kept = {"never": set(), "on-failure": {"failed"}, "on-cancellation": {"failed", "cancelled"}}[retention]
    files = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert bool(list((tmp_path / "checkpoints").rglob("*.manifest"))) is (end in kept), files
    if end not in kept:
        assert files == []


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
def test_checkpoints_in_the_job_managers_memory_serve_restarts_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    env = environment()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    source = GatedSource(EPOCHS, 3 if end == "cancelled" else None)
    job = submit(env, source, failures=[15, 20] if end == "failed" else [15])
    if end == "cancelled":
        wait_for_epochs(job, 3)
        job.cancel().result(10)
    elif end == "failed":
        with pytest.raises(MillraceError, match="told to fail"):
            finish(job)
    else:
        finish(job)
        assert LogSink.records() == EXPECTED
    assert len(job.get_restarts().result()) == 1
    assert list(tmp_path.iterdir()) == []


class Churn(KeyedProcessFunction):
    """Each key lives for a few records, and leaves its state behind for a timer to clear."""

    def open(self, runtime_context: Any) -> None:
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.text.update(f"{value[0]} " * 40)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 50)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.text.clear()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("retained", "times"), [(1, 3), (2, 4)])
def test_a_directory_stays_near_the_size_of_what_lives(
    tmp_path: Path, backend: str, retained: int, times: int
) -> None:
    """300 epochs over keys that come and go. Each epoch's live keys are those of the last five."""
    epochs = [[(f"k{epoch}-{number}", epoch) for number in range(100)] for epoch in range(300)]
    sizes: list[int] = []
    counts: list[int] = []
    directory = tmp_path / "checkpoints"

    class Measured(GatedSource):
        def latest_offset(self, start: Any, now: int) -> Any:
            files = [path for path in directory.rglob("*") if path.is_file()]
            sizes.append(sum(path.stat().st_size for path in files))
            counts.append(len(files))
            return super().latest_offset(start, now)

        def __reduce__(self) -> Any:
            return GatedSource, (self._epochs, self.allowed)

    options = {"execution.checkpointing.num-retained": str(retained), "state.backend.type": backend}
    env = environment(tmp_path, **options)
    numbers = env.from_source(Measured(epochs), timed(), "numbers", RECORD_TYPE).uid("numbers")
    churning = numbers.key_by(lambda value: value[0], Types.STRING()).process(Churn(), Types.STRING()).uid("churn")
    churning.sink_to(LogSink())
    finish(env.execute_async("churn"))
    live = 6 * 100 * 40 * 8  # bytes: the keys of six epochs, with forty words of up to eight letters each
    assert max(sizes) < times * live
    assert max(counts) < 200
    assert max(counts[200:]) <= max(counts[50:200]) + 5


def test_threads_end_with_the_job(tmp_path: Path) -> None:
    before = {thread.ident for thread in threading.enumerate()}
    job = submit(exponential(tmp_path), failures=[5, 10])
    finish(job)
    job._thread.join(10)
    assert {thread.ident for thread in threading.enumerate()} <= before
