"""`millrace run`, in this process, with scripts that run no job."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.cli.main import main

Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes a script and gives its path."""

    def write(text: str) -> str:
        path = tmp_path / "job.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def no_bridge() -> Iterator[None]:
    """Takes PyFlink's names away, before and after; other tests may have left them."""
    from millrace.compat.pyflink import uninstall

    uninstall()
    yield
    uninstall()


SHOW_PARALLELISM = """
from millrace.datastream import StreamExecutionEnvironment as Environment
print(Environment.get_execution_environment().get_parallelism())
"""


def test_a_script_runs_as_main_with_its_arguments(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("import sys; print(__name__, sys.argv, sys.modules['__main__'].__dict__ is globals())")
    assert main(["run", path, "in.txt", "--depth", "3", "-p", "9"]) == 0
    assert capsys.readouterr().out == f"__main__ {[path, 'in.txt', '--depth', '3', '-p', '9']} True\n"


def test_a_script_imports_what_lies_beside_it_and_what_pyfs_names(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside_the_job.py").write_text("here = 1")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "module_of_pyfs.py").write_text("there = 2")
    before = list(sys.path)
    path = script("import beside_the_job, module_of_pyfs; print(beside_the_job.here, module_of_pyfs.there)")
    assert main(["run", "-pyfs", str(tmp_path / "other" / "module_of_pyfs.py"), path]) == 0
    assert capsys.readouterr().out == "1 2\n"
    assert sys.path == before


@pytest.mark.parametrize("options", [["-p", "3"], ["-p3"], ["--parallelism", "3"], ["-D", "parallelism.default=3"]])
def test_the_default_parallelism_reaches_the_environment(
    options: list[str], script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *options, script(SHOW_PARALLELISM)]) == 0
    assert capsys.readouterr().out == "3\n"


def test_the_command_line_speaks_for_one_run_only(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(SHOW_PARALLELISM)
    main(["run", "-p", "77", path])
    main(["run", path])
    assert capsys.readouterr().out.splitlines()[1] != "77"


def test_what_the_script_sets_overrules_the_command_line(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(
        "from millrace.common import Configuration\n"
        "from millrace.datastream import StreamExecutionEnvironment as Environment\n"
        "conf = Configuration().set_integer('parallelism.default', 5)\n"
        "print(Environment.get_execution_environment(conf).get_parallelism())\n"
    )
    assert main(["run", "-p", "3", path]) == 0
    assert capsys.readouterr().out == "5\n"


def test_master_and_settings_reach_the_session(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(
        "from millrace.datastream import StreamExecutionEnvironment as Environment\n"
        "print(sorted(Environment.get_execution_environment()._configuration.to_dict().items()))\n"
    )
    assert main(["run", "--master", "local[3]", "-D", "a=b=c", "-Dspark.ui.enabled=true", path]) == 0
    expected = [("a", "b=c"), ("spark.master", "local[3]"), ("spark.ui.enabled", "true")]
    assert capsys.readouterr().out == f"{expected}\n"


def test_an_error_of_the_script_shows_its_own_frames_only(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script("def half(n):\n    return n / 0\n\nhalf(1)\n")
    assert main(["run", path]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if set(line.strip()) - set("~^")]
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 4, in <module>',
        "    half(1)",
        f'  File "{path}", line 2, in half',
        "    return n / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_a_script_that_is_no_python_shows_no_frame(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("def half(:\n")
    assert main(["run", path]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f'  File "{path}", line 1\n')
    assert "SyntaxError: invalid syntax" in error


def test_an_error_of_millrace_is_a_message_without_a_traceback(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(
        "from millrace.datastream import StreamExecutionEnvironment as Environment\n"
        "Environment.get_execution_environment().set_parallelism(-1)\n"
    )
    assert main(["run", path]) == 1
    error = capsys.readouterr().err
    assert error.startswith("[MR-1001] The parallelism must be an int from 1 to ")
    assert f"{path}:2" in error
    assert "Traceback" not in error


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "/nowhere/job.py"]) == 1
    expected = "[MR-1001] There is no script '/nowhere/job.py'.\nAction: Look for it in /nowhere.\n"
    assert capsys.readouterr().err == expected


def test_an_interrupt_is_one_line(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", script("raise KeyboardInterrupt")]) == 130
    assert capsys.readouterr().err == "Job cancelled.\n"


def test_the_scripts_own_exit_code_counts(script: Script) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["run", script("import sys; sys.exit(7)")])
    assert exited.value.code == 7


@pytest.mark.usefixtures("no_bridge")
def test_pyflink_names_are_answered_when_asked_for(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("from pyflink.common import Types; print(Types.__module__.split('.')[0])")
    assert main(["run", path]) == 1
    assert "No module named 'pyflink'" in capsys.readouterr().err
    assert main(["run", "--pyflink", path]) == 0
    assert capsys.readouterr().out == "millrace\n"


@pytest.mark.usefixtures("no_bridge")
def test_a_name_that_needs_a_jvm_says_so(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("from pyflink.datastream.connectors.pulsar import PulsarSource")
    assert main(["run", "--pyflink", path]) == 1
    error = capsys.readouterr().err
    assert error.splitlines()[-1].endswith("needs the JVM, Millrace has none: it wraps a connector's jar.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-p", "0"], "the parallelism is a number from 1 on, not '0'"),
        (["-p", "many"], "the parallelism is a number from 1 on, not 'many'"),
        (["-D", "alone"], "a setting is written key=value, not 'alone'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    options: list[str], message: str, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["run", *options, script("")])
    assert exited.value.code == 2
    assert message in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--version"])
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("millrace ")
