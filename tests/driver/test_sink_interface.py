"""The two-phase interface of sinks: writers with state, commits that fail for a while, the write-ahead log."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest

from millrace.common import Types, WatermarkStrategy
from millrace.common.errors import MillraceError
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors import Committer, Sink, SinkWriter, WriteAheadSink
from millrace.testing import EpochSource
from millrace.testing.crashes import Crash, Crashes
from millrace.testing.in_process import InProcessExecutor
from tests.driver.jobs import environment

EPOCHS = [[f"{epoch}.{number}" for number in range(7)] for epoch in range(6)]
RECORDS = [record for records in EPOCHS for record in records]


def run(env: StreamExecutionEnvironment, sink: Sink, epochs: list[list[str]] | None = None) -> None:
    source = EpochSource(EPOCHS if epochs is None else epochs)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records").uid("records").rebalance()
    stream.sink_to(sink).uid("sink")
    env.execute("sinks")


# --- writer state ---------------------------------------------------------------------------------------------------


class Numbering(Sink):
    """Each writer numbers its records from where the one before it was."""

    writer_state_type = Types.LONG()
    committed: ClassVar[list[int]] = []
    restored: ClassVar[list[list[int]]] = []

    def create_writer(self, runtime_context: Any) -> SinkWriter:
        return NumberingWriter([0])

    def restore_writer(self, runtime_context: Any, state: list[Any]) -> SinkWriter:
        Numbering.restored.append(state)
        return NumberingWriter(state)

    def create_committer(self) -> Committer:
        return NumberingCommitter()


class NumberingWriter(SinkWriter):
    def __init__(self, state: list[int]) -> None:
        self.state = state or [0]
        self.new: list[int] = []

    def write(self, value: Any, context: Any) -> None:
        self.state[0] += 1
        self.new.append(self.state[0])

    def prepare_commit(self) -> list[Any]:
        new, self.new = self.new, []
        return new

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return self.state


class NumberingCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        Numbering.committed += committables


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbering.committed, Numbering.restored = [], []
    Flaky.failures, Flaky.committed, Flaky.calls = 0, [], 0
    Shelf.sent, Shelf.failures = [], 0


def test_a_writers_state_goes_with_the_subtask_from_process_to_process() -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(processes=3)).set_parallelism(1)
    run(env, Numbering())
    assert Numbering.committed == list(range(1, len(RECORDS) + 1))
    assert Numbering.restored


def test_the_state_of_writers_is_dealt_out_anew_with_another_parallelism(tmp_path: Path) -> None:
    with Crashes(at=60) as crashes, contextlib.suppress(Crash):
        crashed = environment(tmp_path, 4)
        run(crashed, Numbering())
    assert crashes.dead
    Numbering.restored = []
    run(environment(tmp_path, 2), Numbering())
    assert [len(state) for state in Numbering.restored[:2]] == [2, 2]


# --- commits that fail ----------------------------------------------------------------------------------------------


class Flaky(Sink):
    failures: ClassVar[int] = 0
    committed: ClassVar[list[str]] = []
    calls: ClassVar[int] = 0

    def create_writer(self, runtime_context: Any) -> SinkWriter:
        return FlakyWriter()

    def create_committer(self) -> Committer:
        return FlakyCommitter()


class FlakyWriter(SinkWriter):
    def __init__(self) -> None:
        self.values: list[str] = []

    def write(self, value: Any, context: Any) -> None:
        self.values.append(value)

    def prepare_commit(self) -> list[Any]:
        values, self.values = self.values, []
        return values


class FlakyCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        Flaky.calls += 1
        if Flaky.failures:
            Flaky.failures -= 1
            raise ConnectionError("connection refused")
        Flaky.committed += committables

    def describe(self) -> str:
        return "the shelf at shelf.example:7000"


SOON = {"sink__committer__retry-delay": "1 ms"}


def test_a_commit_that_fails_is_tried_again(tmp_path: Path) -> None:
    Flaky.failures = 5
    run(environment(tmp_path, **SOON), Flaky())
    assert sorted(Flaky.committed) == sorted(RECORDS)


def test_a_commit_that_goes_on_failing_fails_the_job_and_names_the_system(tmp_path: Path) -> None:
    Flaky.failures = 1000
    env = environment(tmp_path, sink__committer__retries="2", **SOON)
    with pytest.raises(MillraceError) as failed:
        run(env, Flaky())
    text = str(failed.value)
    assert "the shelf at shelf.example:7000" in text
    assert "3 times" in text
    assert "ConnectionError: connection refused" in text
    assert "Action: " in text


def test_what_could_not_be_committed_is_committed_when_the_job_is_started_again(tmp_path: Path) -> None:
    Flaky.failures = 1000
    settings = {**SOON, "sink__committer__retries": "0", "restart-strategy__type": "none"}
    from millrace.datastream import ExternalizedCheckpointRetention as Retention

    def start() -> None:
        env = environment(tmp_path, **settings)
        env.get_checkpoint_config().set_externalized_checkpoint_retention(Retention.RETAIN_ON_CANCELLATION)
        run(env, Flaky())

    with pytest.raises(MillraceError):
        start()
    [manifests] = list((tmp_path / "checkpoints").glob("*/manifests"))
    Flaky.failures = 0
    env = environment(tmp_path, **settings, **{"execution__state-recovery__path": str(manifests.parent)})
    run(env, Flaky())
    assert sorted(Flaky.committed) == sorted(RECORDS)


# --- write-ahead log ------------------------------------------------------------------------------------------------


class Shelf(WriteAheadSink):
    """Takes an epoch once, as a system that remembers the number of the last one."""

    sent: ClassVar[list[tuple[int, list[str]]]] = []
    failures: ClassVar[int] = 0

    def send_values(self, values: list[Any], checkpoint_id: int) -> None:
        if Shelf.failures:
            Shelf.failures -= 1
            raise TimeoutError("busy")
        Shelf.sent.append((checkpoint_id, values))


class TypedShelf(Shelf):
    record_type = Types.STRING()


@pytest.mark.parametrize("sink", [Shelf, TypedShelf])
def test_the_records_of_an_epoch_are_sent_once_and_in_order(tmp_path: Path, sink: type[Shelf]) -> None:
    Shelf.failures = 2
    run(environment(tmp_path, **SOON), sink())
    assert sorted(value for _, values in Shelf.sent for value in values) == sorted(RECORDS)
    numbers = [number for number, _ in Shelf.sent]
    assert numbers == sorted(set(numbers))
    assert not list((tmp_path / "checkpoints").rglob("*.wal"))


def test_epochs_between_two_checkpoints_are_sent_one_by_one_after_the_second(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor()).set_parallelism(2)
    env.enable_checkpointing(60_000)
    env.get_checkpoint_config().set_checkpoint_storage(str(tmp_path))
    run(env, TypedShelf())
    assert len(Shelf.sent) == len(EPOCHS)
    assert sorted(value for _, values in Shelf.sent for value in values) == sorted(RECORDS)


@pytest.mark.parametrize("sink", [Shelf, TypedShelf])
def test_a_crash_at_any_step_sends_an_epoch_again_but_never_another_one_under_its_number(sink: type[Shelf]) -> None:
    epochs = EPOCHS[:3]
    with Crashes() as steps, tempfile.TemporaryDirectory() as directory:
        run(environment(Path(directory)), sink(), epochs)
    for number in range(1, steps.taken + 1, 2):
        Shelf.sent = []
        with tempfile.TemporaryDirectory() as directory:
            with Crashes(at=number) as crash, contextlib.suppress(Crash):
                run(environment(Path(directory)), sink(), epochs)
            over = not list((Path(directory) / "checkpoints" / "jobs").glob("*.json"))
            if not over or not Shelf.sent:
                run(environment(Path(directory)), sink(), epochs)
        by_number: dict[int, list[str]] = {}
        for epoch, values in Shelf.sent:
            assert by_number.setdefault(epoch, values) == values, crash.last
        sent = sorted(value for values in by_number.values() for value in values)
        assert sent == sorted(record for records in epochs for record in records), f"step {number}: {crash.last}"
