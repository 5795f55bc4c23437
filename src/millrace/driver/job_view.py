"""A running job as others may look at it while it goes on: nothing here changes after it was handed out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from millrace.common.job_status import JobStatus
from millrace.driver.job_state import manifest_of
from millrace.queryable_state.wire import Consistency
from millrace.state.files import JobFiles
from millrace.state.handles import StateHandles
from millrace.state.manifest import Manifest, OperatorMeta

if TYPE_CHECKING:
    from millrace.driver.job import JobRun


class JobView:
    """What the server of queryable state sees of a job (`QueryableJob`)."""

    def __init__(self, job: JobRun) -> None:
        self._job = job

    @property
    def job_id(self) -> str:
        return self._job.job_id.to_hex_string()

    @property
    def files(self) -> JobFiles:
        return self._job.home.files

    def status(self) -> JobStatus:
        return self._job.status

    def operators(self) -> Sequence[OperatorMeta]:
        return self._accepted().operators

    def handles(self, consistency: Consistency) -> Mapping[str, Sequence[StateHandles]] | None:
        if consistency == "epoch":
            return self._accepted().subtasks
        checkpointer = self._job.checkpointer
        newest = None if checkpointer is None else checkpointer.newest_taken
        return None if newest is None else newest.subtasks

    def _accepted(self) -> Manifest:
        job = self._job
        # A state is replaced as a whole with each epoch, and never changed.
        return manifest_of(job.coordinator.state, job.plan, self.job_id, int(time.time() * 1000), job.options.backend)
