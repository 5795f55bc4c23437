"""The loop of an unbounded program: a Structured Streaming query whose every batch is an epoch.

Spark decides when there is something to read, logs the offsets before the epoch, and replays them after a crash.
Millrace's own sources are one PySpark data source (`own_source.py`): its rows are never read; what counts is
which range of offsets a batch covers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millrace.driver.job import JobRun
from millrace.driver.runner import CancelledError, JobStopped
from millrace.runtime.sources.base import Offset
from millrace.runtime.sources.spark_read import SparkRead
from millrace.spark.own_source import register
from millrace.spark.planners import PLANNERS
from millrace.spark.runner import SparkRunner
from millrace.spark.session import LOCAL_CHECKPOINT_SETTINGS
from millrace.spark.stream_log import NO_OFFSET, LoggedOffsets, read_offsets
from millrace.spark.stream_position import StreamPosition, unread_tables


class EpochAborted(Exception):
    """Leaves Spark's callback in place of what went wrong, which Spark could only turn into text."""


def _not_told_elsewhere(record: logging.LogRecord) -> bool:
    """py4j logs what leaves a callback; of this one the program hears by the job's own error."""
    return not (record.exc_info and isinstance(record.exc_info[1], EpochAborted))


logging.getLogger("py4j.clientserver").addFilter(_not_told_elsewhere)


class StreamLoop:
    """Runs a job's epochs as the batches of one query, until the job is cancelled or fails."""

    def __init__(self, spark: SparkSession, runner: SparkRunner, frames: dict[int, DataFrame]) -> None:
        self._spark = spark
        self._runner = runner
        self._streams = {vertex: frame for vertex, frame in frames.items() if frame.isStreaming}
        self._tables = {vertex: frame for vertex, frame in frames.items() if not frame.isStreaming}
        self._failure: BaseException | None = None
        self._stopped = False
        self._is_planned = False

    def __call__(self, job: JobRun) -> None:
        """Run the job to its end."""
        self._job = job
        uids = {vertex.id: vertex.nodes[0].state_id for vertex in job.plan.vertices}
        self._position = StreamPosition({uids[vertex]: frame for vertex, frame in self._streams.items()}, job)
        self._tables = unread_tables(job, self._tables)
        PLANNERS.begin()
        with tempfile.TemporaryDirectory(prefix="millrace-log-") as self._checkpoint:
            try:
                self._position.restore(self._checkpoint)
                self._run(job, self._started())
            finally:
                self._planned()

    def _run(self, job: JobRun, query: Any) -> None:
        try:
            while not query.awaitTermination(1):
                if job.cancelled.is_set():
                    raise CancelledError
        except StreamingQueryException as error:
            if not self._stopped:
                raise self._failure or self._query_failure(error) from None
        finally:
            if self._failure is not None or self._stopped:
                with contextlib.suppress(Exception):
                    query.stop()
            elif query.isActive:
                self._runner.cancel()
                query.stop()
        if self._failure is not None:
            raise self._failure

    def _query_failure(self, error: Exception) -> BaseException:
        """Spark has ended the query by itself: what it reads from failed, or the session is gone."""
        if getattr(self._spark.sparkContext, "_jsc", None) is None:
            return CancelledError()
        return self._runner.explained(error, "run the program's query")

    def _started(self) -> Any:
        try:
            return self._query().start()
        except Exception as error:
            raise self._runner.explained(error, "start the program's query") from None

    def _planned(self) -> None:
        """Once: Spark has planned the query, or never will."""
        if not self._is_planned:
            self._is_planned = True
            PLANNERS.end(self._spark)

    def _query(self) -> Any:
        united = self._own()
        for vertex, frame in self._streams.items():
            united = united.unionByName(_tagged(vertex, frame), allowMissingColumns=True)
        writer = united.writeStream.foreachBatch(self._epoch).option("checkpointLocation", self._checkpoint)
        return writer.trigger(processingTime="0 seconds")

    def _own(self) -> DataFrame:
        """Millrace's own sources and the heartbeat, as one stream without rows."""
        for key, value in LOCAL_CHECKPOINT_SETTINGS.items():  # The log is in a directory of the driver's machine.
            self._spark.conf.set(key, value)
        with PLANNERS.lock:  # the sources of another job would be registered under the same name
            coordinator = self._job.coordinator
            name = register(
                self._spark,
                coordinator.own_sources,
                coordinator.state.offsets,
                self._job.options.epoch_records,
                self._runner.python_path,
            )
            return self._spark.readStream.format(name).load()

    def _epoch(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self._planned()
            logged = read_offsets(self._checkpoint, batch_id)
            now, ends = _own_range(logged)
            epoch = self._job.coordinator.epoch_of_range(ends, now)
            self._runner.read(self._entries(batch))
            self._runner.expect(self._splits(logged))
            self._position.follow(self._checkpoint, logged, list(self._tables))
            self._job.run_epoch(epoch, ends)
            self._tables = {}
        except JobStopped:
            self._stopped = True
            raise EpochAborted(self._abort_message(batch)) from None
        except BaseException as error:
            self._failure = error
            raise EpochAborted(self._abort_message(batch)) from None

    def _splits(self, logged: LoggedOffsets) -> dict[int, list[str]]:
        """The splits that the sources know of in this epoch."""
        found: dict[int, list[str]] = {}
        for vertex, read in self._job.options.data_frames.items():
            if isinstance(read, SparkRead):
                lines = self._position.lines(logged, vertex) if vertex in self._streams else []
                found[vertex] = [split for line in lines if line != NO_OFFSET for split in read.split_ids(line)]
                if vertex in self._tables:
                    found[vertex] = read.known_splits()
        return found

    def _abort_message(self, batch: DataFrame) -> str:
        """Words that Spark takes for a cancellation, so that it ends the query without further noise."""
        group = batch.sparkSession.sparkContext.getLocalProperty("spark.jobGroup.id")
        return f"org.apache.spark.SparkException: job group {group} cancelled"

    def _entries(self, batch: DataFrame) -> dict[int, DataFrame]:
        entries = dict(self._tables)
        for vertex, frame in self._streams.items():
            mine = batch.where(F.col("_vertex") == vertex)
            entries[vertex] = mine.select(*[F.col(f"_{vertex}_{name}").alias(name) for name in frame.columns])
        return entries


def _own_range(logged: LoggedOffsets) -> tuple[int, dict[int, Offset]]:
    """The time and the end offsets of a batch, from Spark's log, so that a replay has the same. Millrace's own source
    is the first of the query."""
    offset = json.loads(logged.sources[0])
    return offset["now"], {int(node): end for node, end in offset["sources"].items()}


def _tagged(vertex: int, frame: DataFrame) -> DataFrame:
    """A source's columns under names of its own, with the source's number."""
    columns = [F.col(f"`{name}`").alias(f"_{vertex}_{name}") for name in frame.columns]
    return frame.select(F.lit(vertex).alias("_vertex"), *columns)
