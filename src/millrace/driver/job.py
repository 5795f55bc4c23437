"""A job from its submission to its end, whoever runs its epochs."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from millrace.common.completable_future import CompletableFuture
from millrace.common.errors import JobCancelledError, JobExecutionError, MillraceError, NotSupportedError
from millrace.common.job_client import JobClient
from millrace.common.job_execution_result import JobExecutionResult
from millrace.common.job_id import JobID
from millrace.common.job_status import JobStatus
from millrace.driver.coordinator import Coordinator, EpochRejectedError, EpochResult
from millrace.driver.printing import print_records
from millrace.graph.job_graph import JobPlan
from millrace.graph.job_options import JobOptions
from millrace.runtime.epoch import EpochInput
from millrace.runtime.failure import TaskFailure
from millrace.runtime.operators.sinks import CollectOperator
from millrace.runtime.sources.base import Offset
from millrace.state.files import open_files

# How often an epoch whose reports do not fit together is run again before the job fails.
_REJECTIONS = 3

# With nothing to read, an epoch is run this often (in seconds) for processing-time timers and idle sources.
HEARTBEAT = 0.2

# How long the loop sleeps when there is nothing to read: below what anyone notices in an epoch's latency.
_POLL = 0.005


class TaskFailedError(Exception):
    """A runner's epoch ended because a task failed."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class CancelledError(Exception):
    """A runner's epoch ended because the job was cancelled."""


class Runner(Protocol):
    """Runs epochs: on Spark, or in one process for tests."""

    def run(self, epoch: EpochInput) -> list[bytes]:
        """Run an epoch and give back what its tasks report. Raises TaskFailedError or CancelledError."""

    def cancel(self) -> None:
        """End the epoch that is running, from another thread."""

    def close(self) -> list[str]:
        """Close the functions and leave nothing behind; the errors that closing brought are given back."""


# Drives a job's epochs until it ends.
Loop = Callable[["JobRun"], None]


class JobRun(JobClient):
    """A running job, and the client that asks about it. The epochs run in a thread of its own."""

    def __init__(self, plan: JobPlan, options: JobOptions, job_id: JobID, directory: str) -> None:
        self.plan = plan
        self.options = options
        self.job_id = job_id
        self.directory = directory
        self._files = open_files(directory)
        self.coordinator = Coordinator(plan, options.batch_mode)
        self.cancelled = threading.Event()
        self.status = JobStatus.CREATED
        self.runner: Runner
        self._started = time.time()
        self._results: dict[int, queue.Queue[Any]] = {node_id: queue.Queue() for node_id in _collecting(plan, options)}
        self._future: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._committers = _committers(plan)
        self._thread: threading.Thread | None = None

    # --- running ----------------------------------------------------------------------------------------

    def start(self, make_runner: Callable[[JobRun], Runner], loop: Loop) -> None:
        """Run the job in a thread."""
        self.runner = make_runner(self)
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name=f"millrace-{self.options.job_name}", daemon=True
        )
        self._thread.start()

    def _run(self, loop: Loop) -> None:
        error: BaseException | None = None
        self.status = JobStatus.RUNNING
        try:
            loop(self)
        except BaseException as raised:
            error = self._final_error(raised)
        error = self._clean_up(error)
        self._finish(error)

    def _final_error(self, raised: BaseException) -> BaseException:
        if self.cancelled.is_set() or isinstance(raised, CancelledError):
            self.status = JobStatus.CANCELLING
            return JobCancelledError(f"Job {self.options.job_name!r} was cancelled.")
        self.status = JobStatus.FAILING
        if isinstance(raised, TaskFailedError):
            return _execution_error(raised.failure)
        return raised

    def _clean_up(self, error: BaseException | None) -> BaseException | None:
        try:
            closing = self.runner.close()
            if closing and error is None:
                error = JobExecutionError("Closing the job's functions failed.", traceback_text="\n".join(closing))
        except Exception as raised:
            error = error or raised
        shutil.rmtree(self.directory, ignore_errors=True)
        return error

    def _finish(self, error: BaseException | None) -> None:
        if error is None:
            self.status = JobStatus.FINISHED
            runtime = int((time.time() - self._started) * 1000)
            accumulators = self.coordinator.accumulator_results()
            self._future.set_result(JobExecutionResult(self.job_id, runtime, accumulators))
        else:
            self.status = JobStatus.CANCELED if isinstance(error, JobCancelledError) else JobStatus.FAILED
            self._future.set_exception(error)
        for results in self._results.values():
            results.put(_End(error))

    def run_epoch(self, epoch: EpochInput, ends: dict[int, Offset]) -> EpochResult:
        """Run an epoch until it counts, then commit and deliver what it made. Files that it made useless go."""
        for _ in range(_REJECTIONS):
            if self.cancelled.is_set():
                raise CancelledError
            reports = self.runner.run(epoch)
            needed = self.coordinator.state.files()
            try:
                result = self.coordinator.complete(epoch, ends, reports)
                break
            except EpochRejectedError as error:
                rejected = error
        else:
            raise rejected
        for path in needed - self.coordinator.state.files():
            self._files.delete(path)
        self._deliver(result)
        return result

    def _deliver(self, result: EpochResult) -> None:
        for node_id, committables in result.committables.items():
            committer = self._committers.get(node_id)
            if committer is not None:
                committer.commit(committables)
        for records in result.records:
            if records.node in self.options.print_sinks:
                print_records(records, self.options.print_sinks[records.node], self._parallelism(records.node))
            else:
                results = self._results[records.node]
                for value in records.values:
                    results.put(value)

    def _parallelism(self, node_id: int) -> int:
        return self.plan.stream_graph.nodes[node_id].parallelism

    # --- asking -----------------------------------------------------------------------------------------

    def results(self, node_id: int) -> Iterator[Any]:
        """What a collecting sink received, epoch by epoch, until the job ends; its error is raised at the end."""
        results = self._results[node_id]
        while True:
            value = results.get()
            if isinstance(value, _End):
                results.put(value)
                if value.error is not None:
                    raise value.error
                return
            yield value

    def wait(self) -> JobExecutionResult:
        """Wait for the end. An interrupt (Ctrl-C) cancels the job, waits for it to be gone, and goes on."""
        try:
            return self._future.result()
        except KeyboardInterrupt:
            self.cancel().exception()
            raise

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self.status)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed(self.coordinator.accumulator_results())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._future

    def cancel(self) -> CompletableFuture[None]:
        """Stop the job; the future is done when nothing of it is left."""
        done: CompletableFuture[None] = CompletableFuture()
        self.cancelled.set()
        self.runner.cancel()
        self._future.add_done_callback(lambda _: done.set_result(None))
        return done

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        raise NotSupportedError("Savepoints are not there yet.", action="Use cancel().")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        raise NotSupportedError("Savepoints are not there yet.")


class _End:
    """Stands in a result queue behind the last record."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def run_bounded(job: JobRun) -> None:
    """The loop of a program whose sources all end."""
    last = time.monotonic()
    while True:
        now = int(time.time() * 1000)
        planned = job.coordinator.next_epoch(now, heartbeat=time.monotonic() - last >= HEARTBEAT)
        if planned is None:
            if job.cancelled.wait(_POLL):
                raise CancelledError
            continue
        epoch, ends = planned
        job.run_epoch(epoch, ends)
        last = time.monotonic()
        if epoch.final:
            return


def _collecting(plan: JobPlan, options: JobOptions) -> list[int]:
    """The sinks whose records are the job's results."""
    nodes = [node for vertex in plan.vertices for node in vertex.nodes]
    collecting = [node.id for node in nodes if isinstance(node.operator, CollectOperator)]
    return [node_id for node_id in collecting if node_id not in options.print_sinks]


def _committers(plan: JobPlan) -> dict[int, Any]:
    found = {}
    for vertex in plan.vertices:
        for node in vertex.nodes:
            create = getattr(node.operator.function, "create_committer", None)
            if create is not None:
                found[node.id] = create()
    return found


def _execution_error(failure: TaskFailure) -> MillraceError:
    what = f"{failure.kind}: {failure.message}"
    return JobExecutionError(
        what if failure.user_code else f"Task {failure.subtask} failed: {what}",
        operator_name=failure.operator or failure.subtask,
        function_name=failure.function or None,
        location=failure.location or None,
        record_repr=failure.record,
        traceback_text=failure.traceback,
    )
