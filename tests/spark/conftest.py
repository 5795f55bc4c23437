"""Fixtures for tests that run on a real Spark: one embedded session per module, in one JVM per run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """An embedded session of two cores, as users get it."""
    from millrace.spark.session import open_session

    session = open_session({"spark.master": "local[2]"})
    yield session
    session.stop()
