"""The command as a process of its own, on Spark: what a terminal shows, and what is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.spark

SOURCE = str(Path(__file__).resolve().parents[2] / "src")

FAILING = """
from millrace.datastream import StreamExecutionEnvironment

def inverse(n):
    return 1 / (n - 2)

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(inverse).name("Inverse").print()
env.execute()
"""

ENDLESS = """
from millrace.common import WatermarkStrategy
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors import DataGeneratorSource

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, None, 20)
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda n: n % 3).sum().print()
env.execute()
"""


@pytest.fixture(autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """A suite that was started in the background ignores Ctrl-C, and so would all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def millrace(directory: Path, script: str, *options: str) -> subprocess.Popen[str]:
    """Starts `millrace run` in a process group and with a temporary directory of its own."""
    path = directory / "job.py"
    path.write_text(script)
    temporary = directory / "tmp"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "millrace", "run", *options, str(path)],
        env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def session_of(leader: int) -> list[str]:
    """What still runs of the processes that a process has started."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        try:
            same = os.getsid(process.pid) == leader
        except ProcessLookupError:
            continue
        if same and process.pid != leader and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(" ".join(process.info["cmdline"] or [])[:100])
    return found


def assert_nothing_is_left(leader: int, directory: Path) -> None:
    end = time.monotonic() + 10
    while (left := session_of(leader)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []
    assert [path.name for path in (directory / "tmp").iterdir() if path.name.startswith("millrace")] == []


def test_a_function_that_fails_is_one_short_error(tmp_path: Path) -> None:
    process = millrace(tmp_path, FAILING, "-p", "1")
    out, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert out == ""
    lines = [line for line in error.splitlines() if set(line.strip()) - set("~^")]
    assert lines == [
        "[MR-2001] ZeroDivisionError: division by zero",
        "  operator: Inverse",
        "  function: inverse",
        f"  at: {tmp_path / 'job.py'}:5",
        "  record: 2",
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "job.py"}", line 5, in inverse',
        "    return 1 / (n - 2)",
        "ZeroDivisionError: division by zero",
    ]
    assert_nothing_is_left(process.pid, tmp_path)


def test_ctrl_c_cancels_the_job_and_leaves_nothing(tmp_path: Path) -> None:
    process = millrace(tmp_path, ENDLESS, "-p", "2")
    assert process.stdout is not None
    for _ in range(5):
        assert "> " in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to all processes of the group.
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "Job cancelled.\n"
    assert_nothing_is_left(process.pid, tmp_path)


def test_ctrl_c_while_spark_starts_leaves_nothing(tmp_path: Path) -> None:
    process = millrace(tmp_path, ENDLESS)
    end = time.monotonic() + 60
    while not any("java" in line for line in session_of(process.pid)):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "Job cancelled.\n"
    assert_nothing_is_left(process.pid, tmp_path)


def test_a_reader_that_goes_away_ends_the_job_quietly(tmp_path: Path) -> None:
    process = millrace(tmp_path, ENDLESS, "-p", "2")
    assert process.stdout is not None
    assert process.stderr is not None
    assert "> " in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert_nothing_is_left(process.pid, tmp_path)
