"""Programs as users run them, in this process and on the one embedded session of the test run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

Run = Callable[..., list[str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs `millrace run ...` and gives the lines that it prints; it must succeed, and print nothing else."""
    from millrace.cli.main import main
    from millrace.compat.pyflink import uninstall
    from millrace.spark.executor import own_session

    own_session({"spark.master": "local[2]"})

    def run_command(*arguments: str) -> list[str]:
        assert main(["run", *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.splitlines()

    yield run_command
    uninstall()
