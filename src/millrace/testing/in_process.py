"""Runs a whole job in this process, without Spark: for tests and for looking at things, never for users' data.

The tasks, buffers and order are the same as on Spark; what is left out is Spark.
"""

from __future__ import annotations

import itertools
import tempfile

from millrace.common.job_id import JobID
from millrace.driver.job import JobRun, TaskFailedError, run_bounded
from millrace.driver.settings import job_settings
from millrace.graph.job_graph import plan_job
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph
from millrace.runtime.epoch import EpochInput, JobSettings
from millrace.runtime.failure import describe_failure
from millrace.runtime.host import HostedJob
from millrace.runtime.rows import Row
from millrace.runtime.shipping import ship


class InProcessRunner:
    """Runs epochs level by level. `processes` worker processes are imitated: each has its own copy of the job, and
    a slot moves from one to the next with every epoch, so that state has to travel as it does on Spark."""

    def __init__(self, job: JobRun, settings: JobSettings, processes: int = 2) -> None:
        self._shipped = ship(job.plan)
        self._job = job
        self._hosts = [HostedJob(self._shipped, settings) for _ in range(processes)]
        self._attempts = itertools.count(1)

    def run(self, epoch: EpochInput) -> list[Row]:
        """Run an epoch."""
        rows: list[Row] = []
        for level, slots in enumerate(self._shipped.slots):
            shares: list[list[Row]] = [[] for _ in range(slots)]
            for row in rows:
                shares[row.slot % slots].append(row)
            rows = []
            for slot, share in enumerate(shares):
                share.sort(key=lambda row: (row.seq, row.rank))
                rows += self._run_task(level, slot, epoch, share)
        return rows

    def _run_task(self, level: int, slot: int, epoch: EpochInput, share: list[Row]) -> list[Row]:
        host = self._hosts[(epoch.number + slot) % len(self._hosts)]
        try:
            task = host.task(level, slot, epoch, next(self._attempts))
            return [row for rows in task.run(share) for row in rows]
        except Exception as error:
            raise TaskFailedError(describe_failure(error, f"level {level}, slot {slot}")) from error

    def cancel(self) -> None:
        """The epoch in progress ends by itself."""

    def close(self) -> list[str]:
        """Close the functions."""
        return [str(error) for host in self._hosts for error in host.close()]


class InProcessExecutor:
    """Takes a program's graph and runs it in this process."""

    def __init__(self, processes: int = 2) -> None:
        self._processes = processes

    def submit(self, graph: StreamGraph, options: JobOptions) -> JobRun:
        """Start a job."""
        job_id = JobID()
        directory = tempfile.mkdtemp(prefix="millrace-test-")
        job = JobRun(plan_job(graph), options, job_id, directory)
        settings = job_settings(job_id, directory, options)
        runner = InProcessRunner(job, settings, self._processes)
        job.start(lambda _: runner, run_bounded)
        return job


