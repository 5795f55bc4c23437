"""`millrace doctor` says what is there, and what to do about what is not."""

import socket
import tempfile
from pathlib import Path

import pytest

from millrace.cli import doctor
from millrace.cli.main import main


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)


def fake_java(directory: Path, version: str) -> Path:
    """A JAVA_HOME whose java only knows its version."""
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return directory


def test_a_line_for_each_check(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.CHECKS)
    assert all(line.startswith(("ok    ", "FAIL  ")) for line in lines)
    assert code == int(any(line.startswith("FAIL") for line in lines))


def test_a_check_that_failed_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (lambda: doctor.Finding("Java", "none", "Install it."),))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out == "FAIL  Java: none. Action: Install it.\n"


def test_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "11.0.2")))
    found = doctor.check_java()
    assert found.seen == f"11 (JAVA_HOME={tmp_path})"
    assert found.action is not None
    assert "Install Java 17 or newer" in found.action


def test_java_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "21")))
    assert doctor.check_java() == doctor.Finding("Java", f"21 (JAVA_HOME={tmp_path})")


def test_java_home_that_holds_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor.check_java().action == "Point JAVA_HOME to Java 17 or newer, or unset it."


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.check_java().seen == "none"


@pytest.mark.parametrize(
    ("package", "version", "check"),
    [("pyspark", "4.0.1", doctor.check_pyspark), ("pandas", "3.0.0", doctor.check_pandas)],
)
def test_a_package_in_the_wrong_version(
    package: str, version: str, check: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "installed", {package: version}.get)
    assert callable(check)
    found = check()
    assert found.seen == version
    assert found.action.startswith(f"pip install '{package}")


def test_another_spark_in_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert doctor.check_spark_home().action == "Unset it, so that pyspark starts the Spark that belongs to it."


def test_another_python_for_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 3.8\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    found = doctor.check_workers_python()
    assert found.seen == f"3.8 (PYSPARK_PYTHON={python})"
    assert found.action is not None


def test_no_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(socket, "create_server", refuse)
    assert doctor.check_loopback().seen == "not permitted"


def test_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_memory", lambda: 2**30)
    assert doctor.check_memory() == doctor.Finding(
        "Memory", "1.0 GiB available", "Free some: Spark and the workers want 2 GiB."
    )


def test_a_temporary_directory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert doctor.check_temporary_directory().action == "Point TMPDIR to a directory that can be written."
