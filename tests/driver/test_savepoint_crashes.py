"""The process dies at every step of stopping with a savepoint: whoever goes on, nothing is lost and nothing doubled."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Types
from millrace.datastream import StreamExecutionEnvironment
from millrace.testing.crashes import Crash, Crashes
from tests.driver.all_round import RECORD_TYPE, GatedSource, finish, start, timed, wait_for_epochs
from tests.driver.jobs import Checker, LogSink, epochs

EPOCHS = epochs(4)

# Epochs that are read before the savepoint is asked for.
BEFORE = 2


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    LogSink.committed.clear()
    yield
    LogSink.announce = staticmethod(lambda what: None)
    LogSink.committed.clear()


def build(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    checked = numbers.key_by(lambda value: value[0], Types.STRING()).process(Checker(), Types.STRING()).uid("checker")
    checked.sink_to(LogSink()).uid("log")


def stop(directory: Path, dies_at: int) -> tuple[Any, Crashes]:
    """Stop the job with a savepoint; the process dies at this step, counted from the moment in which it is asked."""
    with Crashes() as crashes:
        job, _ = start(directory, 2, GatedSource(EPOCHS, BEFORE), build)
        wait_for_epochs(job, BEFORE)
        LogSink.announce = staticmethod(crashes.step)
        crashes._at = crashes.taken + dies_at
        asked = job.stop_with_savepoint(False, str(directory / "savepoints"))
        with contextlib.suppress(Crash):
            finish(job)
        LogSink.announce = staticmethod(lambda what: None)
    return asked, crashes


def deaths(directory: Path) -> Iterator[tuple[Path, Any, str]]:
    """One death at each step of the protocol: where, what was told of the savepoint, and at which step."""
    for number in itertools.count(1):
        LogSink.committed.clear()
        asked, crashes = stop(directory / str(number), number)
        if not crashes.dead:
            assert number > 20
            return
        yield directory / str(number), asked, f"died at step {number}: {crashes.last}"


def is_over(directory: Path) -> bool:
    return not list((directory / "checkpoints" / "jobs").glob("*.json"))


def undisturbed(directory: Path) -> list[str]:
    finish(start(directory, 2, GatedSource(EPOCHS), build)[0])
    records = LogSink.records()
    LogSink.committed.clear()
    return records


def test_the_killed_job_goes_on_by_itself_or_from_the_savepoint_that_it_told(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed")
    for directory, asked, died in deaths(tmp_path):
        begin = {"execution.state-recovery.path": asked.result(1)} if is_over(directory) else {}
        finish(start(directory, 3, GatedSource(EPOCHS), build, **begin)[0])
        assert LogSink.records() == expected, died


def test_a_savepoint_that_was_told_is_whole_wherever_the_process_dies_after_it(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "undisturbed")
    told = 0
    for directory, asked, died in deaths(tmp_path):
        if not asked.done() or asked.exception(0) is not None:
            continue
        told += 1
        begin = {"execution.state-recovery.path": asked.result(1)}
        finish(start(directory / "two", 1, GatedSource(EPOCHS), build, **begin)[0])
        assert LogSink.records() == expected, died
    assert told > 0
