"""Fixtures for tests that run on a real Spark: the embedded session, one for the whole run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The embedded session that environments without one of their own use: two cores."""
    from millrace.spark.executor import close_own_session, own_session

    yield own_session({"spark.master": "local[2]"})
    close_own_session()


@pytest.fixture
def job_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the jobs of a test keep their files."""
    directory = tmp_path / "jobs"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def nothing_is_left(spark: SparkSession, job_directories: Path) -> Iterator[None]:
    """After the test no thread, process or file of its jobs is left."""
    from tests.spark.jobs import assert_nothing_is_left

    yield
    assert_nothing_is_left(job_directories)
