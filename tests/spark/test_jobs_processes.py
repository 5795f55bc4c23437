"""Scripts as users run them: what they print, how they end, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import millrace
from tests.spark.jobs import eventually

pytestmark = pytest.mark.spark
SOURCE = str(Path(millrace.__file__).parents[1])

PRELUDE = """
import sys, time
from pathlib import Path
from millrace.common import WatermarkStrategy
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors import DataGeneratorSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
here = Path(__file__).parent

def endless(make=lambda index: index, rate=50):
    source = DataGeneratorSource(make, records_per_second=rate)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "endless")

"""


class Script:
    """A program in a directory of its own, run in a process group of its own, as a terminal does it."""

    def __init__(self, directory: Path, body: str, *arguments: str) -> None:
        self.directory = directory
        (directory / "tmp").mkdir(exist_ok=True)
        (directory / "job.py").write_text(PRELUDE + textwrap.dedent(body))
        with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(directory / "job.py"), *arguments],
                cwd="/",
                env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(directory / "tmp")},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait_for(self, name: str) -> None:
        eventually((self.directory / name).exists, 60)

    def end(self, seconds: float = 60) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        code = self.process.wait(seconds)
        return code, (self.directory / "out").read_text(), (self.directory / "err").read_text()

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def left_in_tmp(self) -> list[str]:
        return [path.name for path in (self.directory / "tmp").iterdir() if path.name.startswith("millrace")]


Run = Callable[..., Script]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started: list[Script] = []

    def start(body: str, *arguments: str) -> Script:
        started.append(Script(tmp_path, body, *arguments))
        return started[-1]

    yield start
    for script in started:
        if script.process.poll() is None:
            for process in [*script.descendants(), script.process]:
                process.kill()
            script.process.wait()


def test_script_whose_function_fails_prints_one_short_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def divide(number):\n    return 10 // (number - 7)\n")
    body = """
    import helpers
    env.from_sequence(1, 10).map(lambda number: helpers.divide(number)).name("divider").print()
    env.execute("failing")
    """
    code, out, err = run(body).end()
    assert code == 1
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "[MR-2001] ZeroDivisionError: integer division or modulo by zero" in err
    assert "  operator: divider" in lines
    assert f"  at: {tmp_path}/helpers.py:2" in lines
    assert "  record: 7" in lines
    assert lines[-1] == "ZeroDivisionError: integer division or modulo by zero"
    assert not [line for line in lines if "spark" in line.lower() or "py4j" in line]


def test_modules_beside_the_script_are_found_wherever_they_are_needed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(
        textwrap.dedent("""
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Point:
            x: int

        def make(index):
            return Point(index)
        """)
    )
    body = """
    import shapes
    from millrace.datastream import MapFunction

    class Move(MapFunction):
        def open(self, runtime_context):
            self.by = runtime_context.get_broadcast_variable("by").x

        def map(self, point):
            return shapes.Point(point.x + self.by)

    env.register_broadcast_variable("by", shapes.Point(100))
    bounded = env.from_collection([shapes.Point(number) for number in range(4)])
    print(sorted(point.x for point in bounded.key_by(lambda point: point).map(Move()).execute_and_collect()))
    with endless(shapes.make).key_by(lambda point: point).map(Move()).execute_and_collect() as results:
        print(sorted(next(results).x // 100 for _ in range(4)))
    """
    assert run(body).end() == (0, "[100, 101, 102, 103]\n[1, 1, 1, 1]\n", "")


PROGRAMS = {
    "bounded": """
        def slow(number):
            (here / "running").touch()
            time.sleep(1)
            return number
        env.from_sequence(1, 1000).map(slow).key_by(lambda number: number).map(lambda number: number).print()
        env.execute("bounded")
    """,
    "unbounded": """
        def mark(number):
            (here / "running").touch()
            return number
        endless().key_by(lambda number: number).map(mark).filter(lambda number: False).print()
        env.execute("unbounded")
    """,
    "collecting": """
        def mark(number):
            (here / "running").touch()
            return number
        for record in endless().map(mark).execute_and_collect():
            pass
    """,
}


@pytest.mark.parametrize(("kind", "whole_group"), [("bounded", True), ("unbounded", True), ("collecting", False)])
def test_ctrl_c_ends_everything_without_a_word(run: Run, kind: str, whole_group: bool) -> None:
    """A terminal sends the signal to the whole group, `kill -INT` to one process."""
    script = run(PROGRAMS[kind])
    script.wait_for("running")
    time.sleep(0.5)
    processes = script.descendants()
    assert len(processes) >= 2
    (os.killpg if whole_group else os.kill)(script.process.pid, signal.SIGINT)
    assert script.end(15) == (130, "", "")
    eventually(lambda: not [process for process in processes if process.is_running()], 5)
    assert script.left_in_tmp() == []


def test_driver_that_is_killed_leaves_no_process(run: Run) -> None:
    script = run(PROGRAMS["unbounded"])
    script.wait_for("running")
    processes = script.descendants()
    script.process.kill()
    script.process.wait()
    eventually(lambda: not [process for process in processes if process.is_running()], 40)
