"""Whoever runs a job's epochs, and how it ends."""

from __future__ import annotations

from typing import Protocol

from millrace.runtime.epoch import EpochInput
from millrace.runtime.failure import TaskFailure


class TaskFailedError(Exception):
    """A runner's epoch ended because a task failed."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class CancelledError(Exception):
    """A runner's epoch ended because the job was cancelled."""


class JobStopped(Exception):
    """Ends a loop: the job has its savepoint, and was asked to stop with it."""


class Runner(Protocol):
    """Runs epochs: on Spark, or in one process for tests."""

    def run(self, epoch: EpochInput) -> list[bytes]:
        """Run an epoch and give back what its tasks report. Raises TaskFailedError or CancelledError."""

    def cancel(self) -> None:
        """End the epoch that is running, from another thread."""

    def close(self) -> list[str]:
        """Close the functions and leave nothing behind; the errors that closing brought are given back."""
