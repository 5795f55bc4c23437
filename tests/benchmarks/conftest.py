"""What the benchmarks' programs are tested with."""

from tests.spark.conftest import spark

__all__ = ["spark"]
