"""Runs epochs on Spark: one job for each, a straight line of `mapInArrow` stages."""

from __future__ import annotations

import pickle
import shutil
from functools import cached_property
from uuid import uuid4

import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from millrace.common.errors import MillraceError
from millrace.driver.job import JobRun
from millrace.driver.runner import CancelledError, TaskFailedError
from millrace.runtime.epoch import EpochInput, JobSettings, SubtaskId
from millrace.runtime.failure import TaskFailure
from millrace.runtime.shipping import ShippedJob, ship
from millrace.spark.hosting import JobReference
from millrace.spark.link import JobLink
from millrace.spark.placement import Placement
from millrace.spark.prepared import PreparedLine
from millrace.spark.session import link_host
from millrace.spark.stage import SCHEMA, EntryTask, StageTask, encode_epoch


class SparkRunner:
    """Runs a job's epochs in a session. `owned` tells that the session is ours, and so are its workers."""

    def __init__(self, spark: SparkSession, job: JobRun, settings: JobSettings, owned: bool) -> None:
        self._spark = spark
        self._run = f"{settings.job_id}-{settings.attempt}-{uuid4().hex[:8]}"
        self._job = job
        self._local_state = settings.local_state
        self.python_path = settings.python_path
        self._shipped: ShippedJob = ship(job.plan)
        self._link = JobLink(link_host(spark), workers_exit=owned, on_failure=self._failed)
        payload = cloudpickle.dumps((self._shipped, settings))
        self._broadcast = spark.sparkContext.broadcast(pickle.dumps((settings.python_path, payload)))
        self._reference = JobReference(self._run, self._broadcast, self._link.address, owned)
        self._placement = Placement(spark)
        self._entries: dict[int, DataFrame] = {}
        self._entries_epoch: int | None = None
        self._closed = False

    def read(self, entries: dict[int, DataFrame]) -> None:
        """The DataFrames that the next epoch reads, by source vertex; they are read once."""
        self._entries, self._entries_epoch = entries, None

    def run(self, epoch: EpochInput) -> list[bytes]:
        """Run an epoch; what its tasks report is what leaves the last stage."""
        try:
            self._announce(epoch)
            entries = self._entries_of(epoch)
            if not entries:
                return self._line.run()
            return [bytes(row.payload) for row in self._stages(entries).select("payload").collect()]
        except Exception as error:
            raise self.explained(error) from None

    def _entries_of(self, epoch: EpochInput) -> dict[int, DataFrame]:
        """What Spark reads in this epoch: the same when it is run again."""
        if self._entries_epoch is None:
            self._entries_epoch = epoch.number
        return self._entries if self._entries_epoch == epoch.number else {}

    def _announce(self, epoch: EpochInput) -> None:
        """Give the epoch's input to the tasks of the Spark job that this thread starts next."""
        context = self._spark.sparkContext
        context.setJobGroup(self._run, f"{self._job.options.job_name}, epoch {epoch.number}", True)
        for task, wanted in self._tasks:
            context.setLocalProperty(task.property_name, encode_epoch(epoch.for_subtasks(wanted)))

    @cached_property
    def _tasks(self) -> list[tuple[StageTask, set[SubtaskId]]]:
        """The tasks of the levels, with their subtasks."""
        return [
            (StageTask(self._reference, level), {subtask for slot in placed for subtask in slot})
            for level, placed in enumerate(self._shipped.placement)
        ]

    @cached_property
    def _line(self) -> PreparedLine:
        return PreparedLine(self._stages({}))

    def _stages(self, entries: dict[int, DataFrame]) -> DataFrame:
        """The line of stages: level after level, with an exchange between."""
        frame = self._first(entries)
        for task, _ in self._tasks:
            if task.level or entries:
                frame = self._placement.exchange(frame, self._shipped.slots[task.level])
            frame = frame.mapInArrow(task, SCHEMA)
        return frame

    def _first(self, entries: dict[int, DataFrame]) -> DataFrame:
        """Level 0's input: what Spark reads, or nothing but one partition for each slot."""
        if not entries:
            return self._placement.first(self._shipped.slots[0])
        frames = [self._entry(vertex, frame) for vertex, frame in entries.items()]
        united = frames[0]
        for frame in frames[1:]:
            united = united.union(frame)
        return united

    def _entry(self, vertex_id: int, frame: DataFrame) -> DataFrame:
        vertex = self._job.plan.vertex(vertex_id)
        task = EntryTask(self._reference, vertex.id, vertex.slot, vertex.parallelism, tuple(frame.columns))
        # mapInArrow looks columns up by name, and would take a dot in one for a field of a struct.
        plain = frame.toDF(*(f"_{index}" for index in range(len(frame.columns))))
        return plain.mapInArrow(task, SCHEMA)

    def explained(self, error: BaseException, what: str = "run the epoch") -> BaseException:
        """What ended a Spark job: a task's failure that the line told of, a cancellation, or Spark itself."""
        if self._link.failures:
            return TaskFailedError(TaskFailure.decode(self._link.failures[0]))
        if self._job.cancelled.is_set():
            return CancelledError()
        return _spark_error(error, what)

    def _failed(self, payload: bytes) -> None:
        """A task has failed for good: Spark need not try it again."""
        self._cancel_spark_job()

    def _cancel_spark_job(self) -> None:
        self._spark.sparkContext.cancelJobGroup(self._run)

    def cancel(self) -> None:
        """Interrupt the tasks, and have Spark start no further ones."""
        if not self._closed:
            self._link.cancel()
            self._cancel_spark_job()

    def close(self) -> list[str]:
        """Close the functions in all workers, and drop what the session holds for this job."""
        self._closed = True
        errors = self._link.close()
        # The workers have done this, if they live; those of other machines must.
        shutil.rmtree(self._local_state, ignore_errors=True)
        self._broadcast.destroy()
        self._placement.close()
        return errors


def _spark_error(error: BaseException, what: str) -> MillraceError:
    """What Spark says, without the traces of its own code."""
    said = str(getattr(error, "java_exception", None) or error)
    if "Python worker exited unexpectedly" in said:
        return MillraceError(
            "A Python worker process ended, again and again, while it ran a task.",
            action="Look for os._exit() or a crash in native code, or give the machine more memory.",
            code="MR-2004",
        )
    lines = [line for line in said.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    return MillraceError(f"Spark could not {what}: " + "\n".join(lines[:4]), code="MR-2004")
