"""The pytest plugin, in a run of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

TESTS = """
import pytest
from millrace.datastream import MapFunction
from millrace.testing import OneInputHarness

CLOSED = []

class Function(MapFunction):
    def __init__(self, name, fails=False):
        self.name, self.fails = name, fails
    def map(self, value):
        return value * 2
    def close(self):
        CLOSED.append(self.name)
        if self.fails:
            raise OSError("in close")

def test_two_harnesses(millrace_harness):
    one = millrace_harness(OneInputHarness, Function("one"))
    two = millrace_harness(OneInputHarness, Function("two"), processing_time=5)
    one.push(2)
    assert one.output == [4]
    assert two.processing_time == 5

def test_they_were_closed():
    assert CLOSED == ["two", "one"]

def test_closing_fails(millrace_harness):
    millrace_harness(OneInputHarness, Function("three", fails=True))

def test_a_program(millrace_env):
    numbers = millrace_env.from_collection([1, 2, 3])
    assert numbers.map(lambda number: number + 1).execute_and_collect(limit=10) == [2, 3, 4]
"""


def test_fixtures_open_and_close(tmp_path: Path) -> None:
    (tmp_path / "test_fixtures.py").write_text(TESTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "millrace.testing.plugin", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "OSError: in close" in done.stdout


def test_the_plugin_is_an_entry_point() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nmillrace = "millrace.testing.plugin"' in text
    installed = [entry.value for entry in entry_points(group="pytest11") if entry.name == "millrace"]
    if not installed:
        pytest.skip("Millrace is not installed here")
    assert installed == ["millrace.testing.plugin"]


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = "import millrace.testing.plugin, sys; print([m for m in sys.modules if m.startswith('millrace.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['millrace.testing', 'millrace.testing.plugin']"
