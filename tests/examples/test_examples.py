"""Each example runs, and prints what stands at its top."""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

Run = Callable[..., list[str]]


def expected_of(name: str) -> list[str]:
    """The indented lines in the docstring of an example: its output."""
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text(encoding="utf-8")))
    assert text is not None
    return [line.strip() for line in text.splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("name", ["word_count.py", "state_and_timers.py", "iterate.py"])
def test_an_example_prints_what_it_says(name: str, run: Run) -> None:
    assert run(str(EXAMPLES / name)) == expected_of(name)


@pytest.mark.parametrize("name", ["connect_and_broadcast.py", "login_failures.py", "side_outputs.py"])
def test_an_example_prints_what_it_says_in_some_order(name: str, run: Run) -> None:
    assert sorted(run(str(EXAMPLES / name))) == sorted(expected_of(name))


@pytest.mark.parametrize("name", ["word_count.py", "connect_and_broadcast.py", "login_failures.py"])
@pytest.mark.parametrize("parallelism", ["1", "3"])
def test_the_parallelism_does_not_show_in_the_result(name: str, parallelism: str, run: Run) -> None:
    assert sorted(run("-p", parallelism, str(EXAMPLES / name))) == sorted(expected_of(name))


def test_word_count_reads_a_file(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("one two two\nthree three three\n")
    assert run(str(EXAMPLES / "word_count.py"), str(text)) == ["three   3", "two     2", "one     1"]


@pytest.mark.usefixtures("run")
def test_sensors(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    sensors = importlib.import_module("sensors")
    # Five times as fast as `make demo`.
    monkeypatch.setattr(sensors, "READINGS_PER_SECOND", 2000)
    sensors.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines if "averages from" in line] == [f"00:{n}0" for n in range(1, 6)] + ["01:00"]
    alarms = sorted(line[7:] for line in lines if "ALARM" in line)
    assert [re.split(r", ", line)[0] for line in alarms] == [
        f"ALARM: sensor {sensor} has been rising for ten seconds" for sensor in (11, 17, 4)
    ]
    assert lines[-1] == expected_of("sensors.py")[-1]


def test_an_example_is_a_plain_python_program() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "word_count.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == expected_of("word_count.py")


def test_the_readmes_program_does_what_the_readme_says(run: Run, tmp_path: Path) -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    (tmp_path / "job.py").write_text(program[1])
    assert run("-p", "1", str(tmp_path / "job.py")) == [
        "a: 19.5 is a new record",
        "b: 21.0 is a new record",
        "a: 23.1 is a new record",
    ]
