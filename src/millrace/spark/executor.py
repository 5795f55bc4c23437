"""Takes a program's graph and runs it on Spark."""

from __future__ import annotations

import atexit
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from millrace.driver.bounded_loop import run_bounded
from millrace.driver.job import JobRun, Loop
from millrace.driver.opening import open_job
from millrace.driver.settings import job_settings
from millrace.graph.job_graph import JobPlan
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph
from millrace.spark.runner import SparkRunner
from millrace.spark.session import LOCAL_CHECKPOINT_SETTINGS, adopt, derive_session, open_session
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
        spark = self._spark()
        job = open_job(graph, options)
        try:
            job.start(lambda job: self._attempt(spark, job))
        except BaseException:
            job.home.abandon()
            raise
        return job

    def _attempt(self, spark: SparkSession, job: JobRun) -> tuple[SparkRunner, Loop]:
        frames = self._frames(spark, job.plan, job.options)
        runner = SparkRunner(spark, job, job_settings(job), owned=self._given is None)
        if all(node.bounded for node in job.plan.stream_graph.nodes.values()):
            runner.read(unread_tables(job, frames))
            uids = [vertex.nodes[0].state_id for vertex in job.plan.vertices if vertex.id in frames]
            job.spark_position = lambda: {"tables": uids}
            return runner, run_bounded
        return runner, StreamLoop(spark, runner, frames)

    def close(self) -> None:
        """Let go of the session: one that was handed in stays, ours serves other environments too."""
        self._session = None

    def _frames(self, spark: SparkSession, plan: JobPlan, options: JobOptions) -> dict[int, DataFrame]:
        sources = {vertex.id for vertex in plan.vertices}
        return {
            node_id: frame(spark) if callable(frame) else adopt(spark, frame)
            for node_id, frame in options.data_frames.items()
            if node_id in sources
        }

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._session = self._given_session() or own_session(self._configuration)
        return self._session

    def _given_session(self) -> SparkSession | None:
        if self._given is None:
            return None
        return derive_session(self._given, LOCAL_CHECKPOINT_SETTINGS)


# One JVM serves a Python process; its session is shared by the environments and ends with the process.
_OWN: list[SparkSession] = []


def own_session(configuration: Mapping[str, str]) -> SparkSession:
    """The embedded session; the configuration counts for whoever asks first."""
    if not _OWN:
        _OWN.append(open_session(configuration))
        atexit.register(close_own_session)
    return _OWN[0]


def close_own_session() -> None:
    """End the embedded session, if there is one."""
    while _OWN:
        _OWN.pop().stop()
