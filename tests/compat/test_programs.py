"""Programs that were written for PyFlink run as they are."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAMS = Path(__file__).parent / "programs"

Run = Callable[..., list[str]]


def test_word_count_in_batch_mode(run: Run) -> None:
    lines = run("--pyflink", str(PROGRAMS / "word_count.py"))
    assert lines[:3] == [
        "Executing word_count example with default input data set.",
        "Use --input to specify file input.",
        "Printing result to stdout. Use --output to specify output path.",
    ]
    counts = dict(map(eval, lines[3:]))
    assert len(counts) == len(lines[3:])
    assert counts["to"] == 2
    assert counts["nobler"] == 1


def test_word_count_from_file_to_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("b a b\n")
    output = tmp_path / "out"
    run("--pyflink", str(PROGRAMS / "word_count.py"), "--input", str(tmp_path / "in.txt"), "--output", str(output))
    written = [line for part in output.glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(written) == ["('a', 1)", "('b', 2)"]


def test_event_time_timers(run: Run) -> None:
    lines = run("--pyflink", str(PROGRAMS / "event_time_timers.py"))
    assert lines == [
        "+I[Alice, 110.0999984741211]",
        "+I[Bob, 30.200000762939453]",
        "+I[Alice, 130.0999984741211]",
        "+I[Bob, 83.29999923706055]",
        "+I[timer of Alice at 3000, 130.0999984741211]",
        "+I[timer of Bob at 4000, 83.29999923706055]",
        "+I[timer of Alice at 5000, 130.0999984741211]",
        "+I[timer of Bob at 6000, 83.29999923706055]",
    ]


def test_windows(run: Run) -> None:
    lines = run("--pyflink", str(PROGRAMS / "windows.py"))
    assert sorted(lines) == sorted([
        "('hi', 1, 14, 5)",
        "('hi', 15, 20, 1)",
        *("total> 6", "total> 23", "total> 17", "total> 15", "total> 15"),
        *("pair> ('hi', 3)", "pair> ('hi', 11)", "pair> ('hi', 24)"),
    ])
