"""Stands in for Spark: remembers what it was given, and answers with what it was told to."""

from collections.abc import Iterator
from typing import Any

from millrace.common import CompletableFuture, JobExecutionResult, JobID, JobStatus
from millrace.common.errors import JobCancelledError
from millrace.datastream import StreamExecutionEnvironment
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph


class FakeJob:
    """A job that is over at once, or (``endless``) runs until it is cancelled."""

    def __init__(self, results: list[Any], endless: bool) -> None:
        self._results = results
        self._done: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self.cancelled = 0
        if not endless:
            self._done.set_result(JobExecutionResult(JobID(), 1))

    def get_job_id(self) -> JobID:
        return JobID()

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(JobStatus.FINISHED if self._done.done() else JobStatus.RUNNING)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed({})

    def cancel(self) -> CompletableFuture[None]:
        self.cancelled += 1
        self._done.set_exception(JobCancelledError("cancelled"))
        return CompletableFuture.completed(None)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._done

    def results(self, node_id: int) -> Iterator[Any]:
        return iter(self._results)


class FakeExecutor:
    def __init__(self, results: list[Any] | None = None, endless: bool = False) -> None:
        self.submitted: list[tuple[StreamGraph, JobOptions]] = []
        self.jobs: list[FakeJob] = []
        self.closed = 0
        self._results = results or []
        self._endless = endless

    def submit(self, graph: StreamGraph, options: JobOptions) -> FakeJob:
        self.submitted.append((graph, options))
        self.jobs.append(FakeJob(self._results, self._endless))
        return self.jobs[-1]

    def close(self) -> None:
        self.closed += 1

    @property
    def graph(self) -> StreamGraph:
        return self.submitted[-1][0]

    @property
    def options(self) -> JobOptions:
        return self.submitted[-1][1]


class InterruptedJob(FakeJob):
    """Ctrl-C comes while it is waited for."""

    def get_job_execution_result(self) -> Any:
        future = super().get_job_execution_result()
        return future if self.cancelled else _Interrupted()


class _Interrupted:
    def done(self) -> bool:
        return False

    def result(self) -> None:
        raise KeyboardInterrupt


def environment(parallelism: int = 2, executor: FakeExecutor | None = None) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.create_with_executor(executor or FakeExecutor())
    return env.set_parallelism(parallelism)
