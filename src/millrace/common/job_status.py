"""The states of a job."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """Where a job is in its life.

    >>> JobStatus.FINISHED.is_globally_terminal_state(), JobStatus.SUSPENDED.is_globally_terminal_state()
    (True, False)
    >>> JobStatus.SUSPENDED.is_terminal_state()
    True
    """

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9
    INITIALIZING = 10

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over for good, wherever it might be taken up."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether the job is over here: for good, or suspended to be taken up elsewhere."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()
