"""What the documents show is true: their programs run, and print what they say."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"

Run = Callable[..., list[str]]


def blocks(document: str, language: str) -> list[str]:
    """The code blocks of a document in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / document).read_text(encoding="utf-8"), re.DOTALL)


def output_of(document: str, command: str) -> list[str]:
    """What a document shows behind a command."""
    for block in blocks(document, "console"):
        if block.startswith(f"$ .venv/bin/{command}\n"):
            return block.rstrip().splitlines()[1:]
    raise AssertionError(f"{document} does not show {command!r}")


@pytest.fixture
def quickstart(tmp_path: Path) -> str:
    [program] = blocks("quickstart.md", "python")
    path = tmp_path / "job.py"
    path.write_text(program)
    return str(path)


@pytest.mark.spark
def test_the_quick_start_prints_what_it_says(quickstart: str, run: Run) -> None:
    assert run("-p", "1", quickstart) == output_of("quickstart.md", "millrace run -p 1 job.py")


def test_the_quick_starts_plan_is_what_it_says(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    from millrace.cli.main import main

    assert main(["info", "-p", "2", quickstart]) == 0
    assert capsys.readouterr().out.rstrip().splitlines() == output_of("quickstart.md", "millrace info -p 2 job.py")


def test_the_program_in_the_document_about_checkpoints_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults
    from millrace.testing import InProcessExecutor

    program = next(block for block in blocks("checkpoints.md", "python") if block.startswith("from pathlib"))
    monkeypatch.chdir(tmp_path)
    with use_environment_defaults(EnvironmentDefaults(make_executor=InProcessExecutor)):
        exec(program, {"__name__": __name__})
    printed = capsys.readouterr().out.strip()
    assert f"It prints `{printed}`" in (DOCS / "checkpoints.md").read_text(encoding="utf-8")


def test_the_tests_in_the_document_about_testing_pass() -> None:
    names: dict[str, object] = {"__name__": __name__}
    for block in blocks("testing.md", "python"):
        exec(block, names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        assert callable(test)
        test()


CONNECTORS = blocks("connectors.md", "python")


@pytest.mark.parametrize("number", range(len(CONNECTORS)))
def test_the_programs_in_the_document_about_connectors_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults
    from millrace.testing import InProcessExecutor

    monkeypatch.chdir(tmp_path)
    with use_environment_defaults(EnvironmentDefaults(make_executor=InProcessExecutor)):
        exec(CONNECTORS[number], {"__name__": __name__})
    document = (DOCS / "connectors.md").read_text(encoding="utf-8")
    behind = document.split(CONNECTORS[number])[1]
    assert f"It prints `{capsys.readouterr().out.strip()}`" in behind[:200]
