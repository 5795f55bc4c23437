"""Functions in several levels of a job: for every `open` there is one `close`, however the job ends."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import WatermarkStrategy
from millrace.common.errors import JobCancelledError, JobExecutionError
from millrace.datastream import KeyedProcessFunction, MapFunction, RuntimeContext, SinkFunction
from millrace.datastream.connectors import DataGeneratorSource, Sink, SinkWriter, Source
from millrace.datastream.stream_execution_environment import StreamExecutionEnvironment
from tests.spark.jobs import Steps, environment, eventually, note, notes_in

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


class Noting:
    """Writes down when it is opened and closed, where, and whether that is the main thread."""

    path: Path
    who: str

    def _note(self, what: str) -> None:
        main = threading.current_thread() is threading.main_thread()
        note(self.path, f"{what} {self.who} {os.getpid()} {id(self)} {main}")

    def open(self, runtime_context: RuntimeContext) -> None:
        self.who = f"{type(self).__name__}-{runtime_context.get_index_of_this_subtask()}"
        self._note("open")

    def close(self) -> None:
        self._note("close")


class NotingMap(Noting, MapFunction):
    def __init__(self, path: Path, bad: int | None = None, slow: bool = False) -> None:
        self.path, self.bad, self.slow = path, bad, slow

    def map(self, value: int) -> int:
        if self.slow:
            note(self.path.with_name("slow"), "now")
            time.sleep(60)
        if value == self.bad:
            raise ValueError("a bad record")
        return value


class NotingProcess(Noting, KeyedProcessFunction):
    def __init__(self, path: Path) -> None:
        self.path = path

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield value


class NotingSink(Noting, SinkFunction):
    def __init__(self, path: Path) -> None:
        self.path = path

    def invoke(self, value: int, context: Any) -> None:
        """Take it."""


class NotingWriter(Sink, SinkWriter):
    def __init__(self, path: Path) -> None:
        self.path = path

    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        writer = NotingWriter(self.path)
        writer.who = f"Writer-{runtime_context.get_index_of_this_subtask()}"
        note(self.path, f"open {writer.who} {os.getpid()} {id(writer)} True")
        return writer

    def write(self, value: Any, context: Any) -> None:
        """Take it."""

    def close(self) -> None:
        on_main = threading.current_thread() is threading.main_thread()
        note(self.path, f"close {self.who} {os.getpid()} {id(self)} {on_main}")


def program(path: Path, source: Source, **last: Any) -> StreamExecutionEnvironment:
    """Functions on three levels, and two sinks."""
    env = environment(2)
    first = env.from_source(source, NO_WATERMARKS, "numbers").map(NotingMap(path))
    second = first.key_by(lambda number: number % 5).process(NotingProcess(path))
    third = second.rebalance().map(NotingMap(path, **last)).name("last")
    third.add_sink(NotingSink(path))
    third.sink_to(NotingWriter(path))
    return env


def assert_each_opened_function_was_closed_once(path: Path, least: int) -> None:
    opened, closed = (
        Counter(tuple(line.split()[1:4]) for line in notes_in(path) if line.startswith(what))
        for what in ("open", "close")
    )
    assert len(opened) >= least
    assert closed == opened
    assert set(opened.values()) == {1}
    assert all(line.endswith("True") for line in notes_in(path))


def test_success_after_several_epochs(tmp_path: Path) -> None:
    program(tmp_path / "notes", Steps(5)).execute("good")
    assert_each_opened_function_was_closed_once(tmp_path / "notes", 10)


@pytest.mark.parametrize("bad", [0, 38])
def test_failure(tmp_path: Path, bad: int) -> None:
    with pytest.raises(JobExecutionError, match="a bad record"):
        program(tmp_path / "notes", Steps(5), bad=bad).execute("bad")
    assert_each_opened_function_was_closed_once(tmp_path / "notes", 6)


def test_failure_of_an_unbounded_program(tmp_path: Path) -> None:
    source = DataGeneratorSource(lambda index: index, records_per_second=50)
    with pytest.raises(JobExecutionError, match="a bad record"):
        program(tmp_path / "notes", source, bad=20).execute("bad")
    assert_each_opened_function_was_closed_once(tmp_path / "notes", 6)


@pytest.mark.parametrize("rate", [None, 50])
def test_cancelling(tmp_path: Path, rate: int | None) -> None:
    source = Steps(5) if rate is None else DataGeneratorSource(lambda index: index, records_per_second=rate)
    client = program(tmp_path / "notes", source, slow=True).execute_async("slow")
    eventually((tmp_path / "slow").exists, 30)
    began = time.monotonic()
    client.cancel().result()
    assert time.monotonic() - began < 5
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert_each_opened_function_was_closed_once(tmp_path / "notes", 6)


def test_failing_close_does_not_keep_the_others_from_closing(tmp_path: Path) -> None:
    class Fails(NotingMap):
        def close(self) -> None:
            super().close()
            raise OSError("cannot close")

    path = tmp_path / "notes"
    env = environment(2)
    env.from_source(Steps(2), NO_WATERMARKS, "numbers").map(NotingMap(path)).map(Fails(path)).add_sink(NotingSink(path))
    with pytest.raises(JobExecutionError, match="cannot close"):
        env.execute("closing")
    assert_each_opened_function_was_closed_once(path, 6)


def test_two_subtasks_of_one_function_are_two_instances(tmp_path: Path) -> None:
    program(tmp_path / "notes", Steps(1)).execute("good")
    opened = Counter(line.split()[1] for line in notes_in(tmp_path / "notes") if line.startswith("open"))
    assert {"NotingProcess-0", "NotingProcess-1"} <= opened.keys()
