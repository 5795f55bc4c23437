"""Runs a whole job in this process, without Spark: for tests and for looking at things, never for users' data.

The tasks, buffers and order are the same as on Spark; what is left out is Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from millrace.driver.bounded_loop import run_bounded
from millrace.driver.job import JobRun, Loop
from millrace.driver.opening import open_job
from millrace.driver.runner import TaskFailedError
from millrace.driver.settings import job_settings
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph
from millrace.runtime.epoch import EpochInput, JobSettings
from millrace.runtime.failure import describe_closing, describe_failure
from millrace.runtime.host import HostedJob
from millrace.runtime.level_task import LevelTask
from millrace.runtime.rows import Row
from millrace.runtime.shipping import ship

from .faults import Faults, InjectedFault


class InProcessRunner:
    """Runs epochs level by level. `processes` worker processes are imitated: each has its own copy of the job, and
    a slot moves from one to the next with every epoch, so that state has to travel as it does on Spark."""

    def __init__(
        self, job: JobRun, settings: JobSettings, processes: int = 2, faults: Faults | None = None
    ) -> None:
        self._shipped = ship(job.plan)
        self._job = job
        self._hosts = [HostedJob(self._shipped, settings) for _ in range(processes)]
        self._attempts = itertools.count(1)
        self._faults = faults

    def run(self, epoch: EpochInput) -> list[bytes]:
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
        return [row.payload for row in rows]

    def _run_task(self, level: int, slot: int, epoch: EpochInput, share: list[Row]) -> list[Row]:
        process = epoch.number + slot
        try:
            while True:
                try:
                    return self._run_attempt(process, level, slot, epoch, share)
                except InjectedFault:
                    assert self._faults is not None
                    process += self._faults.moves()
        except Exception as error:
            raise TaskFailedError(describe_failure(error, f"level {level}, slot {slot}", (level, slot))) from error

    def _run_attempt(self, process: int, level: int, slot: int, epoch: EpochInput, share: list[Row]) -> list[Row]:
        host = self._hosts[process % len(self._hosts)]
        attempt = next(self._attempts)
        if self._faults is None:
            return _rows(host.task(level, slot, epoch, attempt), share)
        outbox = self._faults.outbox(attempt)
        rows = _rows(host.task(level, slot, epoch, attempt, outbox), outbox.reading(share))
        if outbox.fails:
            outbox.give_up()
        return rows

    def cancel(self) -> None:
        """The epoch in progress ends by itself."""

    def close(self) -> list[str]:
        """Close the functions."""
        return [describe_closing(error) for host in self._hosts for error in host.close()]


def _rows(task: LevelTask, share: Iterable[Row]) -> list[Row]:
    return [row for rows in task.run(share) for row in rows]


class InProcessExecutor:
    """Takes a program's graph and runs it in this process.

    >>> from millrace.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    >>> env.from_collection([1, 2]).map(lambda number: number + 1).execute_and_collect(limit=2)
    [2, 3]

    With `faults`, task attempts fail on purpose and are run again; the result must be the same. With `every_epoch`,
    each epoch of a job with checkpoints is one, whatever the interval. Each job counts as the first of its process:
    what a job that crashed has left is found by the next one of its name.
    """

    def __init__(self, processes: int = 2, faults: Faults | None = None, every_epoch: bool = False) -> None:
        self._processes = processes
        self._faults = faults
        self._every_epoch = every_epoch

    def submit(self, graph: StreamGraph, options: JobOptions) -> JobRun:
        """Start a job."""
        options = replace(options, ordinal=1)
        if self._every_epoch and options.checkpoints is not None:
            options = replace(options, checkpoints=replace(options.checkpoints, interval=0))
        job = open_job(graph, options)

        def attempt(job: JobRun) -> tuple[InProcessRunner, Loop]:
            return InProcessRunner(job, job_settings(job), self._processes, self._faults), run_bounded

        try:
            job.start(attempt)
        except BaseException:
            job.home.abandon()
            raise
        return job

    def close(self) -> None:
        """There is nothing to give back."""
