"""Takes a program's graph and runs it on Spark."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from millrace.common.errors import ExternalSystemError
from millrace.driver.bounded_loop import run_bounded
from millrace.driver.job import JobRun, Loop
from millrace.driver.opening import open_job
from millrace.driver.settings import job_settings
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph
from millrace.runtime.sources.spark_read import SparkRead
from millrace.spark.connectors import Connector, not_fetched, require_connectors, with_connectors
from millrace.spark.runner import SparkRunner
from millrace.spark.session import LOCAL_CHECKPOINT_SETTINGS, adopt, derive_session, open_session
from millrace.spark.stream_log import NO_OFFSET
from millrace.spark.stream_loop import StreamLoop
from millrace.spark.stream_position import unread_tables


class SparkExecutor:
    """Runs jobs in a session: the one given, or one of our own that is started with the first job."""

    def __init__(self, spark: SparkSession | None, configuration: Mapping[str, str]) -> None:
        self._given = spark
        self._configuration = configuration
        self._session: SparkSession | None = None

    def submit(self, graph: StreamGraph, options: JobOptions) -> JobRun:
        """Start a job."""
        options = _options_of_one_job(options)
        spark = self._spark([read.connector for read in _reads(options).values() if read.connector is not None])
        job = open_job(graph, options)
        try:
            job.start(lambda job: self._attempt(spark, job))
        except BaseException:
            job.home.abandon()
            raise
        return job

    def _attempt(self, spark: SparkSession, job: JobRun) -> tuple[SparkRunner, Loop]:
        runner = SparkRunner(spark, job, job_settings(job), owned=self._given is None)
        try:
            frames = self._frames(spark, job)
        except ExternalSystemError as error:
            return runner, _failing_with(error)  # It may be back for the next attempt.
        if all(node.bounded for node in job.plan.stream_graph.nodes.values()):
            runner.read(unread_tables(job, frames))
            runner.expect({vertex: read.known_splits() for vertex, read in _reads(job.options).items()})
            uids = [vertex.nodes[0].state_id for vertex in job.plan.vertices if vertex.id in frames]
            job.spark_position = lambda: {"tables": uids}
            return runner, run_bounded
        job.checkpointed = lambda position: _tell_sources(job, position)
        return runner, StreamLoop(spark, runner, frames)

    def close(self) -> None:
        """Let go of the session: one that was handed in stays, ours serves other environments too."""
        self._session = None

    def _frames(self, spark: SparkSession, job: JobRun) -> dict[int, DataFrame]:
        uids = {vertex.id: vertex.nodes[0].state_id for vertex in job.plan.vertices}
        known = job.coordinator.state.spark.get("sources", {})
        frames = {}
        for node_id, frame in job.options.data_frames.items():
            if node_id not in uids:
                continue
            if isinstance(frame, SparkRead):
                frames[node_id] = frame.data_frame(spark, job.options.epoch_records, uids[node_id] in known)
            else:
                frames[node_id] = frame(spark) if callable(frame) else adopt(spark, frame)
        return frames

    def _spark(self, connectors: list[Connector]) -> SparkSession:
        if self._session is None:
            self._session = self._given_session() or own_session(self._configuration, connectors)
        require_connectors(self._session, connectors)
        return self._session

    def _given_session(self) -> SparkSession | None:
        if self._given is None:
            return None
        return derive_session(self._given, LOCAL_CHECKPOINT_SETTINGS)


# One JVM serves a Python process; its session is shared by the environments and ends with the process.
_OWN: list[SparkSession] = []


def own_session(configuration: Mapping[str, str], connectors: Sequence[Connector] = ()) -> SparkSession:
    """The embedded session; the configuration and the connectors count for whoever asks first."""
    if not _OWN:
        options = with_connectors(configuration, connectors)
        try:
            _OWN.append(open_session(options))
        except RuntimeError as error:
            if options == dict(configuration):
                raise
            raise not_fetched(connectors, str(error)) from None
        atexit.register(close_own_session)
    return _OWN[0]


def _reads(options: JobOptions) -> dict[int, SparkRead]:
    return {node_id: read for node_id, read in options.data_frames.items() if isinstance(read, SparkRead)}


def _options_of_one_job(options: JobOptions) -> JobOptions:
    """With sources that may remember where this job has begun."""
    own = {node_id: read.for_job() for node_id, read in _reads(options).items()}
    return replace(options, data_frames={**options.data_frames, **own})


def _tell_sources(job: JobRun, position: dict[str, Any]) -> None:
    """A checkpoint has been taken: sources may tell their systems how far the job is."""
    uids = {vertex.id: vertex.nodes[0].state_id for vertex in job.plan.vertices}
    for node_id, read in _reads(job.options).items():
        for line in position.get("sources", {}).get(uids.get(node_id), []):
            if line != NO_OFFSET:
                read.checkpointed(line)


def _failing_with(error: Exception) -> Loop:
    def loop(_job: JobRun) -> None:
        raise error

    return loop


def close_own_session() -> None:
    """End the embedded session, if there is one."""
    while _OWN:
        _OWN.pop().stop()
