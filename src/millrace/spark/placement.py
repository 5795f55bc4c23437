"""Keeps a subtask on the executor that has its state.

Spark places a task where a cached input of it lies. So the rows of an exchange are joined with an **anchor**: a cached
DataFrame of one row for each slot. It moves nothing (both sides are partitioned by slot number), adds no exchange, and
leaves the rows as they are, but partition *i* then wants to run where partition *i* of the anchor is cached. It is a
hint: a task that runs elsewhere rebuilds its state from files.

In a single executor there is nothing to place, and the join is left out: it costs some milliseconds.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.spark.session import is_local

_COLUMNS = ("slot", "level", "seq", "rank", "payload")


class Placement:
    """The anchors of a job, one for each number of slots."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._placed = not is_local(str(spark.sparkContext.master))
        self._anchors: dict[int, DataFrame] = {}

    def first(self, slots: int) -> DataFrame:
        """Input for a first level that reads nothing of Spark's: one partition for each slot."""
        return self._anchor(slots) if self._placed else self._spark.range(0, slots, 1, slots)

    def exchange(self, frame: DataFrame, slots: int) -> DataFrame:
        """Rows to their slots, in the sources' order. A row for a later level passes through any slot."""
        target = (F.col("slot") % F.lit(slots)).cast("int")
        routed = frame.withColumn("_target", target).repartitionById(slots, F.col("_target"))
        if self._placed:
            anchor = self._anchor(slots).hint("shuffle_hash")
            routed = routed.join(anchor, F.col("_target") == F.col("_slot"), "left")
        return routed.select(*_COLUMNS).sortWithinPartitions("seq", "rank")

    def _anchor(self, slots: int) -> DataFrame:
        anchor = self._anchors.get(slots)
        if anchor is None:
            numbers = self._spark.range(0, slots, 1, slots).select(F.col("id").cast("int").alias("_slot"))
            anchor = self._anchors[slots] = numbers.repartitionById(slots, "_slot").cache()
            anchor.count()
        return anchor

    def close(self) -> None:
        """Give the cache back."""
        while self._anchors:
            self._anchors.popitem()[1].unpersist()
