"""A hold on a job that was submitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from .completable_future import CompletableFuture
from .job_execution_result import JobExecutionResult
from .job_id import JobID
from .job_status import JobStatus

__all__ = ["JobClient", "JobRestart"]


@dataclass(frozen=True)
class JobRestart:
    """One restart of a job: the how-manieth, when (milliseconds since 1970), after which pause, and why."""

    number: int
    timestamp: int
    delay_ms: int
    cause: str


class JobClient(ABC):
    """Asks a running job about itself, and stops it. Nothing here waits: every answer is a future."""

    @abstractmethod
    def get_job_id(self) -> JobID: ...

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]: ...

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Stops the job without a savepoint."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Takes a savepoint and stops the job with the same epoch; the future holds the savepoint's path.

        With ``advance_to_end_of_event_time`` the job sees the last watermark first, so that all windows
        fire: for jobs that will not be resumed.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint while the job goes on; the future holds its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]: ...

    @abstractmethod
    def get_restarts(self) -> CompletableFuture[list[JobRestart]]:
        """The restarts so far, oldest first."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result when the job has finished; the error when it failed or was cancelled."""
