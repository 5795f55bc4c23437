"""A job from its submission to its end, whoever runs its epochs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from msgspec import structs

from millrace.common.completable_future import CompletableFuture
from millrace.common.errors import JobCancelledError, JobExecutionError, MillraceError, ProgramError
from millrace.common.job_client import JobClient, JobRestart
from millrace.common.job_execution_result import JobExecutionResult
from millrace.common.job_id import JobID
from millrace.common.job_status import JobStatus
from millrace.driver.checkpointer import Checkpointer
from millrace.driver.committing import Committers
from millrace.driver.coordinator import Coordinator, EpochRejectedError, EpochResult
from millrace.driver.delivery import Delivery
from millrace.driver.epoch_records import BegunEpoch, EpochRecord, failure_record, record_of
from millrace.driver.home import JobHome, OwnerChangedError
from millrace.driver.job_state import JobState, manifest_of
from millrace.driver.job_view import JobView
from millrace.driver.queryable import QueryableStateServer, queryable_options_from
from millrace.driver.restarts import restart_strategy_of
from millrace.driver.restoring import Origin, RestoreRefusedError, job_state_of
from millrace.driver.runner import CancelledError, JobStopped, Runner, TaskFailedError
from millrace.driver.savepoints import SavepointError, SavepointRequest, SavepointRequests, complete_savepoint
from millrace.graph.job_graph import JobPlan
from millrace.graph.job_options import JobOptions
from millrace.runtime.epoch import EpochInput
from millrace.runtime.failure import TaskFailure
from millrace.runtime.operators.own_state import is_listener
from millrace.runtime.sources.base import Offset
from millrace.state.errors import StateCorruptedError, StatePickleError, StateTypeError
from millrace.state.manifest import Manifest

_LOG = logging.getLogger("millrace.job")

# How often an epoch whose reports do not fit together is run again before the job fails.
_REJECTIONS = 3


# Drives a job's epochs until it ends.
Loop = Callable[["JobRun"], None]


class JobRun(JobClient):
    """A running job, and the client that asks about it. The epochs run in a thread of its own.

    An **attempt** is a runner and a loop; when one fails, the restart strategy says whether another begins, from the
    newest checkpoint.
    """

    def __init__(
        self,
        plan: JobPlan,
        options: JobOptions,
        home: JobHome,
        checkpointer: Checkpointer | None = None,
        state: JobState | None = None,
        began_from: Manifest | None = None,
    ) -> None:
        self.plan = plan
        self.options = options
        self.home = home
        self.job_id = home.job_id
        self.directory = home.directory
        self.attempt = 0
        self.cancelled = threading.Event()
        self.status = JobStatus.CREATED
        self.runner: Runner
        # Tells what Spark's own sources go on from; set by the loop that knows.
        self.spark_position: Callable[[], dict[str, Any]] = dict
        # Is told the position of each checkpoint that has been taken.
        self.checkpointed: Callable[[dict[str, Any]], None] = lambda position: None
        self.savepoints = SavepointRequests(self.job_id, options.savepoint_directory)
        self._origin = state
        self.coordinator = self._new_coordinator(state)
        self.checkpointer = checkpointer
        self._strategy = restart_strategy_of(options.restart_strategy, checkpointing=checkpointer is not None)
        self._restarts: list[JobRestart] = []
        committers = Committers(
            plan, self.job_id.to_hex_string(), home.directory, options.configuration, self.cancelled.wait
        )
        self._delivery = Delivery(plan, options, committers)
        self._began_from = began_from
        queryable = queryable_options_from(options.configuration)
        self.queryable_state = None if queryable is None else QueryableStateServer(queryable)
        self._begun: BegunEpoch | None = None
        self._has_listeners = any(is_listener(node.operator.function) for v in plan.vertices for node in v.nodes)
        self._told = 0, 0
        self._started = time.time()
        self._future: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._make_attempt: Callable[[JobRun], tuple[Runner, Loop]]
        self._thread: threading.Thread | None = None

    def _new_coordinator(self, state: JobState | None) -> Coordinator:
        return Coordinator(self.plan, self.options.batch_mode, state, self.options.epoch_records)

    # --- attempts ---------------------------------------------------------------------------------------

    def start(self, make_attempt: Callable[[JobRun], tuple[Runner, Loop]]) -> None:
        """Run the job in a thread. What goes wrong in making the first attempt is raised here."""
        self._make_attempt = make_attempt
        if self.queryable_state is not None:
            self.queryable_state.start().register(JobView(self))
        try:
            self.runner, loop = make_attempt(self)
        except BaseException:
            self._close_queryable_state()
            raise
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name=f"millrace-{self.options.job_name}", daemon=True
        )
        self._thread.start()

    def _run(self, loop: Loop) -> None:
        error = self._run_attempt(loop)
        while error is not None and self._goes_on_after(error):
            error = self._run_again()
        self._finish(error)

    def _run_attempt(self, loop: Loop) -> BaseException | None:
        error: BaseException | None = None
        self.status = JobStatus.RUNNING
        try:
            self._commit()  # what a crash between manifest and commit has left
            self._clean_up()
            if not self.coordinator.state.final:
                loop(self)
        except BaseException as raised:
            error = raised
            self.status = JobStatus.CANCELLING if self.cancelled.is_set() else JobStatus.FAILING
        try:
            closing = self.runner.close()
            if closing and error is None:
                error = JobExecutionError("Closing the job's functions failed.", traceback_text="\n".join(closing))
        except BaseException as raised:
            error = error or raised
        return error

    def _goes_on_after(self, error: BaseException) -> bool:
        """Whether another attempt follows, and the pause before it."""
        if self.cancelled.is_set() or _is_final(error) or not isinstance(error, Exception):
            return False
        began_from = self._damaged_beginning(error)
        if began_from is not None and self.checkpointer is not None:
            return self.checkpointer.distrust(began_from, str(error))
        delay = self._strategy.failed(int(time.monotonic() * 1000))
        if delay is None:
            return False
        self.status = JobStatus.RESTARTING
        cause = _explained(error)
        self._restarts.append(JobRestart(self.attempt + 1, int(time.time() * 1000), delay, str(cause)))
        name, number = self.options.job_name, self.attempt + 1
        _LOG.warning("Job %r restarts in %g s (restart %d) after: %s", name, delay / 1000, number, cause)
        return not self.cancelled.wait(delay / 1000)

    def _damaged_beginning(self, error: BaseException) -> Manifest | None:
        """The checkpoint that this attempt began from, if the error says that a file of it is damaged."""
        began_from = self._began_from
        if began_from is None or self.coordinator.state.epoch != began_from.epoch:
            return None
        damaged = isinstance(error, TaskFailedError) and error.failure.kind == StateCorruptedError.__name__
        return began_from if damaged else None

    def _run_again(self) -> BaseException | None:
        try:
            self._go_back()
            self.runner, loop = self._make_attempt(self)
        except Exception as raised:
            return raised
        return self._run_attempt(loop)

    def _go_back(self) -> None:
        """To the newest checkpoint, or else to where the job began."""
        self.attempt += 1
        self._delivery.take_back()
        manifest = None if self.checkpointer is None else self.checkpointer.newest()
        if manifest is None:
            state = self._origin
            kept = set() if self.checkpointer is None else self.checkpointer.keeps()
            for path in self.home.files.list("state"):
                if path not in kept:
                    self.home.files.delete(path)
        else:
            assert self.checkpointer is not None
            self.checkpointer.begin(manifest)
            origin = Origin(manifest, self.directory, own=True)
            state = job_state_of(self.plan, origin, self.home.files, self.options.backend)
        self._began_from = manifest
        self.coordinator = self._new_coordinator(state)

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            error = self._final_error(error)
        self.savepoints.close(error)
        cancelled = isinstance(error, JobCancelledError)
        status = JobStatus.FINISHED if error is None else JobStatus.CANCELED if cancelled else JobStatus.FAILED
        keep = self._keeps_files(status)
        with ExitStack() as closing:  # whatever goes wrong, to the end
            closing.callback(self._tell_the_end, status, error)
            closing.callback(self.home.close, status.name, keep)
            self._close_sinks(keep)

    def _close_sinks(self, keep: bool) -> None:
        # What could not be committed may stand in a savepoint.
        if not keep and not self.coordinator.state.committables:
            self._clean_up()
        self._delivery.close()

    def _tell_the_end(self, status: JobStatus, error: BaseException | None) -> None:
        self.status = status
        self._close_queryable_state()
        if error is None:
            runtime = int((time.time() - self._started) * 1000)
            accumulators = self.coordinator.accumulator_results()
            self._future.set_result(JobExecutionResult(self.job_id, runtime, accumulators))
        else:
            self._future.set_exception(error)
        self._delivery.end(error)

    def _close_queryable_state(self) -> None:
        if self.queryable_state is not None:
            self.queryable_state.close()

    def _keeps_files(self, status: JobStatus) -> bool:
        retention = "never" if self.options.checkpoints is None else self.options.checkpoints.retention
        if status is JobStatus.CANCELED:
            return retention == "on-cancellation"
        return status is JobStatus.FAILED and retention != "never"

    def _final_error(self, raised: BaseException) -> BaseException:
        if self.cancelled.is_set() or isinstance(raised, CancelledError):
            return JobCancelledError(f"Job {self.options.job_name!r} was cancelled.")
        return _explained(raised)

    # --- epochs -----------------------------------------------------------------------------------------

    def run_epoch(self, epoch: EpochInput, ends: dict[int, Offset]) -> EpochResult:
        """Run an epoch until it counts, then commit and deliver what it made, if it is a checkpoint.

        Raises `JobStopped` when the job is to end with this epoch's savepoint.
        """
        request = self.savepoints.next()
        before = self.coordinator.state
        try:
            self._begun = BegunEpoch(self._prepared(epoch, request), ends, before, self.attempt)
            result = self._run_until_it_counts(self._begun.epoch, ends)
            self._settle(result, request)
            self._delete_what_only(before)
        except BaseException as error:
            if request is not None:
                request.future.set_exception(SavepointError(f"The epoch of the savepoint failed: {error}"))
            raise
        if request is not None:
            request.future.set_result(request.path)
            if request.stop:
                raise JobStopped
        return result

    def _prepared(self, epoch: EpochInput, request: SavepointRequest | None) -> EpochInput:
        """The epoch with what it has to do beside reading."""
        if self.checkpointer is not None and self._has_listeners:
            told, self._told = self._told, (self.checkpointer.completed, self.checkpointer.aborted)
            completed, aborted = (new if new != old else 0 for new, old in zip(self._told, told, strict=True))
            epoch = replace(epoch, completed=completed, aborted=aborted, keep_state=True)
        if request is not None:
            epoch = replace(epoch, savepoint=request.path, keep_state=True)
            if request.drain:
                epoch = replace(epoch, final=True, finishing=self.coordinator.source_vertices)
        return epoch

    def _run_until_it_counts(self, epoch: EpochInput, ends: dict[int, Offset]) -> EpochResult:
        for _ in range(_REJECTIONS):
            if self.cancelled.is_set():
                raise CancelledError
            try:
                reports = self.runner.run(epoch)
            except Exception as error:
                self._record_failed(error)
                raise
            try:
                result = self.coordinator.complete(epoch, ends, reports)
                break
            except EpochRejectedError as error:
                rejected = error
        else:
            raise rejected
        return result

    def _delete_what_only(self, before: JobState) -> None:
        """The files of an earlier state that neither the job nor anything kept needs any more."""
        gone = before.files() - self.coordinator.state.files()
        if not gone:
            return
        # A restart goes back to a checkpoint or, while there is none, to where the job began.
        kept = set() if self.checkpointer is None else self.checkpointer.keeps()
        kept |= set() if self._origin is None else self._origin.files()
        for path in gone - kept:
            self.home.files.delete(path)

    def _record_failed(self, error: Exception) -> None:
        """Have the epoch that failed be replayed later, if it can be."""
        record = self._epoch_record()
        if record is None or self.checkpointer is None or isinstance(error, CancelledError) or self.cancelled.is_set():
            return
        failure = failure_record(error, error.failure if isinstance(error, TaskFailedError) else None, self.plan)
        try:
            self.checkpointer.keep_failed(structs.replace(record, failure=failure))
        except (OSError, MillraceError) as also:
            _LOG.warning("The epoch that failed cannot be replayed: %s", also)

    def _epoch_record(self) -> EpochRecord | None:
        if self._begun is None or not self.home.is_durable:
            return None
        job_id, backend = self.job_id.to_hex_string(), self.options.backend
        return record_of(self._begun, self.plan, job_id, self.directory, backend)

    def _settle(self, result: EpochResult, request: SavepointRequest | None) -> None:
        """The epoch counts. If it is a checkpoint, write that down first, and then let out what it made."""
        self._delivery.hold(result.records)
        checkpointer = self.checkpointer
        if checkpointer is None:
            if request is not None:
                complete_savepoint(request, self._manifest(), result, self.home.files)
            self._let_out()
        elif request is not None or result.final or checkpointer.is_due():
            manifest = self._manifest()
            taken = checkpointer.take(manifest, self._epoch_record())
            if request is not None:
                if not taken:
                    raise SavepointError("The checkpoint of the savepoint's epoch failed.")
                complete_savepoint(request, manifest, result, self.home.files)
            if taken:
                self._let_out()
                self.checkpointed(self.coordinator.state.spark)
            if result.final and self._has_listeners:
                self._tell_of_the_last_checkpoint()

    def _manifest(self) -> Manifest:
        state = self.coordinator.state = replace(self.coordinator.state, spark=self.spark_position())
        now = int(time.time() * 1000)
        return manifest_of(state, self.plan, self.job_id.to_hex_string(), now, self.options.backend)

    def _let_out(self) -> None:
        self._commit()
        self._delivery.release()

    def _commit(self) -> None:
        self._delivery.commit(self.coordinator.state.committables)
        self.coordinator.state = replace(self.coordinator.state, committables={})

    def _clean_up(self) -> None:
        """What earlier attempts have staged goes, unless another driver's attempt may have staged it."""
        try:
            self.home.check_owner()
        except OwnerChangedError:
            return
        self._delivery.clean_up()

    def _tell_of_the_last_checkpoint(self) -> None:
        """An epoch that reads nothing, for the sake of the functions that listen."""
        state = self.coordinator.state
        now = int(time.time() * 1000)
        last = EpochInput(state.epoch + 1, now, keep_state=False, state=state.subtasks)
        self.runner.run(replace(self._prepared(last, None), keep_state=False))

    # --- asking -----------------------------------------------------------------------------------------

    def results(self, node_id: int) -> Iterator[Any]:
        """What a collecting sink received; see `Delivery.results`."""
        return self._delivery.results(node_id)

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

    def get_restarts(self) -> CompletableFuture[list[JobRestart]]:
        return CompletableFuture.completed(list(self._restarts))

    def get_queryable_state_address(self) -> tuple[str, int, str]:
        """Where to query the job's state, if `queryable-state.enable` is on: host, port and token."""
        if self.queryable_state is None:
            raise ProgramError(
                "The state of this job cannot be queried.", action="Set queryable-state.enable to true."
            )
        return (*self.queryable_state.address, self.queryable_state.token)

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
        return self.savepoints.ask(savepoint_directory, stop=True, drain=advance_to_end_of_event_time)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return self.savepoints.ask(savepoint_directory)


# Errors after which another attempt could not do better.
_FINAL = (CancelledError, OwnerChangedError, RestoreRefusedError)
_FINAL_IN_TASKS = {StatePickleError.__name__, StateTypeError.__name__}


def _is_final(error: BaseException) -> bool:
    in_task = isinstance(error, TaskFailedError) and error.failure.kind in _FINAL_IN_TASKS
    return in_task or isinstance(error, _FINAL)


def _explained(error: BaseException) -> BaseException:
    return _execution_error(error.failure) if isinstance(error, TaskFailedError) else error


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
