"""Joins on Spark: with a table, in programs that end and in one that does not; and in event time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from millrace.common import WatermarkStrategy
from millrace.common.watermark_strategy import TimestampAssigner
from millrace.datastream import DataStream, ProcessJoinFunction, StreamExecutionEnvironment
from millrace.datastream.connectors import DataGeneratorSource
from tests.spark.jobs import Steps, collected, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


class Number(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


BY_NUMBER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Number())


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def named(env: StreamExecutionEnvironment, numbers: DataStream, spark: SparkSession) -> DataStream:
    """Even numbers below 100 have a name."""
    table = spark.range(0, 100, 2).selectExpr("id", "concat('n', id) AS name")
    return numbers.lookup_join(
        table, lambda number: number, "id", lambda number, row: (number, row and row.name), "left"
    )


def name_of(number: int) -> str | None:
    return f"n{number}" if number < 100 and number % 2 == 0 else None


@pytest.mark.parametrize("batch", [False, True])
def test_every_record_meets_the_whole_table(spark: SparkSession, batch: bool) -> None:
    env = environment(batch=batch)
    numbers = env.from_source(Steps(3, 50), NO_WATERMARKS, "numbers")
    assert sorted(collected(named(env, numbers, spark))) == [(number, name_of(number)) for number in range(150)]


def test_a_stream_without_end_meets_the_whole_table_in_its_first_and_in_later_epochs(spark: SparkSession) -> None:
    env = environment()
    source = DataGeneratorSource(lambda index: index % 110, records_per_second=500)
    numbers = env.from_source(source, NO_WATERMARKS, "numbers")
    found = named(env, numbers, spark).execute_and_collect(limit=600)
    assert [pair for pair in found if pair[1] != name_of(pair[0])] == []


def test_joins_in_event_time() -> None:
    env = environment()
    left, right = (
        env.from_source(Steps(3, 20), BY_NUMBER, name).key_by(lambda number: number % 7) for name in ("left", "right")
    )
    near = left.interval_join(right).between(-7, 0).process(Pair())
    assert sorted(collected(near)) == sorted(
        (number, other) for number in range(60) for other in (number - 7, number) if other >= 0
    )
    as_of = left.temporal_join(right.filter(lambda number: number % 2 == 0).key_by(lambda number: number % 7), "left")
    assert sorted(collected(as_of.process(Pair())), key=repr) == sorted(
        ((n, n if n % 2 == 0 else n - 7 if n >= 7 else None) for n in range(60)), key=repr
    )
