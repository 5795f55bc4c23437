"""What is left of a job that is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The id, the run time and the accumulators of a finished job.

    >>> JobExecutionResult(JobID(), 1200, {"lines": 3}).get_accumulator_result("lines")
    3
    """

    def __init__(
        self,
        job_id: JobID,
        net_runtime: int | None = None,
        accumulators: Mapping[str, Any] | None = None,
    ) -> None:
        self._job_id = job_id
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        return self._job_id

    def is_job_execution_result(self) -> bool:
        """Whether the job was executed, and not only submitted: only then is its run time known."""
        return self._net_runtime is not None

    def get_net_runtime(self) -> int:
        """Milliseconds from start to end; -1 when the job was only submitted."""
        return -1 if self._net_runtime is None else self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The accumulator's final value; None when there is no such accumulator."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        return dict(self._accumulators)

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id}, {self.get_net_runtime()} ms)"
