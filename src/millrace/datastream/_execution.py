"""Whoever runs a job for an environment, and how to wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from millrace.common.completable_future import CompletableFuture
from millrace.common.errors import JobCancelledError, MillraceError
from millrace.common.job_client import JobClient
from millrace.common.job_execution_result import JobExecutionResult
from millrace.common.job_id import JobID
from millrace.common.job_status import JobStatus
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph


class SubmittedJob(Protocol):
    """A `JobClient` that also hands out what the job's collecting sinks received."""

    def get_job_id(self) -> JobID: ...

    def get_job_status(self) -> CompletableFuture[JobStatus]: ...

    def cancel(self) -> CompletableFuture[None]: ...

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]: ...

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]: ...

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]: ...

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]: ...

    def results(self, node_id: int) -> Iterator[Any]:
        """The records of a collecting sink, until the job ends; its error is raised at the end."""


class Executor(Protocol):
    """Runs jobs: on Spark, or in one process for tests."""

    def submit(self, graph: StreamGraph, options: JobOptions) -> SubmittedJob:
        """Start a job. A method `close`, where there is one, is called by `env.close()`."""


class JobInterrupted(SystemExit, KeyboardInterrupt):
    """Ctrl-C while a job ran: the job is gone. A script ends with code 130 and without a traceback; code that
    expects a KeyboardInterrupt catches this as one."""

    # What a shell expects of a program that SIGINT has ended: 128 + 2.
    def __init__(self) -> None:
        super().__init__(130)


def wait_for(job: SubmittedJob | JobClient) -> JobExecutionResult:
    """Wait for a job's end. Ctrl-C cancels it, and waits until nothing of it is left."""
    try:
        return job.get_job_execution_result().result()
    except KeyboardInterrupt:
        cancel(job)
        raise JobInterrupted from None
    except (MillraceError, BrokenPipeError) as error:
        # Where it was raised is a thread of ours; what went wrong is in its text. (A pipe breaks where nobody reads
        # what `print` writes.)
        raise error.with_traceback(None) from None


def cancel(job: SubmittedJob | JobClient) -> None:
    """End a job and wait for it to be gone; nothing happens when it has ended already."""
    if job.get_job_execution_result().done():
        return
    with suppress(JobCancelledError):
        job.cancel().result()
