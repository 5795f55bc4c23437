"""`millrace info` shows plans and runs nothing."""

import json
from pathlib import Path

import pytest

from millrace.cli.main import main

TWO_JOBS = """
from millrace.datastream import StreamExecutionEnvironment

def never(value):
    raise AssertionError("nothing is executed")

env = StreamExecutionEnvironment.get_execution_environment()
env.from_sequence(1, 10).map(never).key_by(lambda n: n % 2).sum().print()
result = env.execute("first")
print("ran for", result.get_net_runtime())
print("collected", list(env.from_collection([1]).filter(never).execute_and_collect("second")))
"""


@pytest.fixture
def two_jobs(tmp_path: Path) -> str:
    path = tmp_path / "job.py"
    path.write_text(TWO_JOBS)
    return str(path)


def test_each_job_is_drawn_with_its_levels_and_chains(two_jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-p", "2", two_jobs]) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        "Job 'first'\n"
        "\n"
        "level 0\n"
        "  [1] Source: Sequence Source -> Map  x2\n"
        "level 1\n"
        "  [3] Keyed Aggregation -> Sink: Print to Std. Out  x2\n"
        "        <- [1] HASH\n"
        "\n"
        "Job 'second'\n"
        "\n"
        "level 0\n"
        "  [5] Source: Collection Source  x1\n"
        "level 1\n"
        "  [6] Filter -> Sink: Data stream collect sink  x2\n"
        "        <- [5] REBALANCE\n"
        "\n"
    )
    assert printed.err == "ran for 0\ncollected []\n"


def test_json_is_flinks_plan(two_jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json", "-p", "2", two_jobs]) == 0
    first, _ = json.JSONDecoder().raw_decode(capsys.readouterr().out)
    assert [node["type"] for node in first["nodes"]] == [
        "Source: Sequence Source", "Map", "Keyed Aggregation", "Sink: Print to Std. Out",
    ]  # fmt: skip
    assert first["nodes"][2]["predecessors"] == [{"id": 2, "ship_strategy": "HASH", "side": "second"}]


def test_plans_are_shown_when_the_script_misses_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.py"
    path.write_text(TWO_JOBS + "[][0]\n")
    assert main(["info", str(path)]) == 1
    printed = capsys.readouterr()
    assert "Job 'second'" in printed.out
    assert printed.err.endswith("IndexError: list index out of range\n")


def test_a_script_without_a_job_has_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.py"
    path.write_text("")
    assert main(["info", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"[MR-1001] {path} executes no job, so there is no plan.\nAction: Call env.execute() in it.\n"
    )
