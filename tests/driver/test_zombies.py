"""A task that was given up wakes up after its replacement: what it writes then counts for nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from millrace.runtime.epoch import EpochInput
from millrace.runtime.rows import Row
from millrace.testing import in_process
from millrace.testing.in_process import InProcessRunner
from tests.driver.jobs import LogSink, environment, submit


class Sleeper:
    """A first attempt of a task: it falls asleep over its input, and wakes up when it is told to."""

    def __init__(self) -> None:
        self._asleep, self._woken = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.rows: list[Row] = []

    def start(self, runner: ZombieRunner, level: int, slot: int, epoch: EpochInput, share: list[Row]) -> None:
        """Begin in a process of its own: what it keeps in memory is nobody else's."""

        def work() -> None:
            task = runner._hosts[2].task(level, slot, epoch, next(runner._attempts))
            self.rows = in_process._rows(task, self._dozing(share))

        self._thread = threading.Thread(target=work)
        self._thread.start()
        assert self._asleep.wait(5)

    def _dozing(self, share: Iterable[Row]) -> Iterator[Row]:
        for number, row in enumerate(share):
            if number == 1:
                self._sleep()
            yield row
        if not self._asleep.is_set():
            self._sleep()

    def _sleep(self) -> None:
        self._asleep.set()
        assert self._woken.wait(5)

    def wake(self) -> None:
        """Let it go on, to its end: it writes its delta and its report."""
        self._woken.set()
        assert self._thread is not None
        self._thread.join(5)
        assert not self._thread.is_alive()


class ZombieRunner(InProcessRunner):
    """Every task has a first attempt that ends late: after its replacement, or in the middle of the next epoch."""

    zombies = 0

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._sleepers: list[Sleeper] = []

    def _run_attempt(self, process: int, level: int, slot: int, epoch: EpochInput, share: list[Row]) -> list[Row]:
        for sleeper in self._sleepers:
            sleeper.wake()
            ZombieRunner.zombies += 1
            assert sleeper.rows
        sleeper = Sleeper()
        sleeper.start(self, level, slot, epoch, share)
        rows = super()._run_attempt(process % 2, level, slot, epoch, share)
        self._sleepers = [sleeper]
        return rows

    def close(self) -> list[str]:
        for sleeper in self._sleepers:
            sleeper.wake()
        return super().close()


def test_attempts_that_end_after_their_replacement_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogSink.committed.clear()
    submit(environment(tmp_path / "quiet")).get_job_execution_result().result()
    expected = LogSink.records()
    LogSink.committed.clear()
    monkeypatch.setattr(in_process, "InProcessRunner", ZombieRunner)
    env = environment(tmp_path / "haunted")
    env._executor._processes = 3  # type: ignore[union-attr]
    submit(env).get_job_execution_result().result()
    assert ZombieRunner.zombies > 20
    assert LogSink.records() == expected
    LogSink.committed.clear()
