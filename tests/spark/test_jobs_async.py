"""Asynchronous calls in jobs on Spark."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Time, WatermarkStrategy
from millrace.common.errors import JobCancelledError, JobExecutionError
from millrace.datastream import AsyncDataStream, AsyncFunction
from tests.spark.jobs import Steps, collected, environment, eventually, note, notes_in

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]


class Ask(AsyncFunction[int, int]):
    def __init__(self, path: Path, slow: bool = False) -> None:
        self.path, self.slow = path, slow

    async def async_invoke(self, value: int) -> list[int]:
        if self.slow:
            note(self.path, "asked")
            try:
                await asyncio.sleep(60)
            finally:
                note(self.path, "given up")
        if value == 99:
            raise ValueError("a bad record")
        return [2 * value]

    def close(self) -> None:
        note(self.path, "closed")


def stream(path: Path, slow: bool = False, **steps: int) -> Any:
    env = environment(2)
    numbers = env.from_source(Steps(**steps), WatermarkStrategy.no_watermarks(), "numbers")
    return AsyncDataStream.unordered_wait(numbers, Ask(path, slow), Time.seconds(90), 1000)


def test_every_epoch_is_answered(tmp_path: Path) -> None:
    doubled = stream(tmp_path / "notes", epochs=3).key_by(lambda number: number % 2).map(lambda number: number)
    assert sorted(collected(doubled)) == [2 * number for number in range(30)]


def test_a_failing_call_fails_the_job(tmp_path: Path) -> None:
    with pytest.raises(JobExecutionError, match="a bad record") as caught:
        collected(stream(tmp_path / "notes", epochs=20))
    assert caught.value.record_repr == "99"


def test_a_job_is_cancelled_while_it_waits_for_answers(tmp_path: Path) -> None:
    waiting = stream(tmp_path / "notes", slow=True, epochs=5)
    waiting.print()
    client = waiting.get_execution_environment().execute_async("slow")
    eventually((tmp_path / "notes").exists, 30)
    began = time.monotonic()
    client.cancel().result()
    assert time.monotonic() - began < 5
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    notes = notes_in(tmp_path / "notes")
    assert notes.count("given up") == notes.count("asked")
    assert "closed" in notes
