"""What the documents show is true: their programs run, and print what they say."""

import doctest
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import millrace
from millrace.datastream import StreamExecutionEnvironment

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


def test_the_options_in_the_document_about_checkpoints_are_those_that_are_read() -> None:
    """A misspelt one would be set in vain, and without a word."""
    source = Path(millrace.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    document = (DOCS / "checkpoints.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:execution|state|restart-strategy)\.[a-z.-]+)`", document))
    named |= set(re.findall(r"`((?:fixed-delay|failure-rate|exponential-delay)\.[a-z-]+)`", document))
    assert len(named) > 15
    assert {name for name in named if f'"{name.removeprefix("restart-strategy.")}"' not in code} == set()


@pytest.mark.parametrize(("document", "count"), [("testing.md", 3), ("windows.md", 1)])
def test_the_tests_in_a_document_pass(document: str, count: int) -> None:
    names: dict[str, object] = {"__name__": __name__}
    for block in blocks(document, "python"):
        exec(block, names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == count
    for test in tests:
        assert callable(test)
        test()


def test_the_programs_in_the_document_about_joins_give_what_they_say(millrace_env: StreamExecutionEnvironment) -> None:
    names: dict[str, object] = {"env": millrace_env}
    for block in blocks("joins.md", "python"):
        exec(block, names)


def test_the_replay_that_is_shown_is_what_the_program_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run in this process, which gives the same as Spark. What differs from run to run is left out."""
    from millrace.cli.main import main
    from millrace.cli.script import run_script
    from millrace.common.configuration import Configuration
    from millrace.common.errors import JobExecutionError
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults
    from millrace.testing.in_process import InProcessExecutor

    monkeypatch.chdir(tmp_path)
    [program] = blocks("replay.md", "python")
    Path("shop.py").write_text(program)
    Path("mended.py").write_text(program.replace("total / count", "total / count if count else 0.0"))
    configuration = Configuration().set_integer("millrace.epoch.max-records", 10).set_integer("parallelism.default", 3)
    defaults = EnvironmentDefaults(configuration, lambda: InProcessExecutor(every_epoch=True))
    with use_environment_defaults(defaults), pytest.raises(JobExecutionError):
        run_script("shop.py", [], [], pyflink=False)
    capsys.readouterr()
    for options in ((), ("--list",), ("--job", "mended.py")):
        main(["replay", "checkpoints", *options])
        said = output_of("replay.md", " ".join(["millrace replay checkpoints", *options]))
        if said[0] == "...":
            said = said[1:]
        given = capsys.readouterr().out.splitlines()[-len(said) :]
        assert lasting("\n".join(given), str(tmp_path)) == lasting("\n".join(said), "/tmp/shop")


def lasting(text: str, directory: str) -> str:
    """Without the job's id, times and the directory."""
    text = re.sub(r"[0-9a-f]{32}", "<job id>", text.replace(directory, "<directory>"))
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>", text)


def test_the_patterns_in_the_document_about_patterns_find_what_it_says() -> None:
    session = "\n".join(blocks("patterns.md", "pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, "patterns.md", "patterns.md", 0)
    assert len(test.examples) > 20
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_program_and_the_test_in_the_document_about_asynchronous_calls_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults
    from millrace.testing import InProcessExecutor

    names: dict[str, object] = {"__name__": __name__}
    with use_environment_defaults(EnvironmentDefaults(make_executor=InProcessExecutor)):
        for block in blocks("async-io.md", "python"):
            exec(block, names)
    printed = capsys.readouterr().out
    assert "2: grace" in printed
    assert "1: ada" in printed


def test_the_program_in_the_document_about_formats_reads_what_it_can_and_shows_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import ModuleType

    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults
    from millrace.testing import InProcessExecutor

    module = ModuleType("formats_program")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    [program] = blocks("formats.md", "python")
    with use_environment_defaults(EnvironmentDefaults(make_executor=InProcessExecutor)):
        exec(program, module.__dict__)
    printed = capsys.readouterr().out
    assert '{"sensor":"a","value":21.5,"unit":"°C"}' in printed
    assert "not the JSON of its type" in printed


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
