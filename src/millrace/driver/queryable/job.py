"""What a server of queryable state must know of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from millrace.common.job_status import JobStatus
from millrace.queryable_state.wire import Consistency
from millrace.state.files import JobFiles
from millrace.state.handles import StateHandles
from millrace.state.manifest import OperatorMeta


class QueryableJob(Protocol):
    """A job as its server sees it. The server's threads ask; what they get must not change afterwards."""

    @property
    def job_id(self) -> str:
        """The job's id in hexadecimal."""

    @property
    def files(self) -> JobFiles:
        """Where the handles' files are."""

    def status(self) -> JobStatus:
        """Where the job is in its life; queries are answered while it is RUNNING."""

    def operators(self) -> Sequence[OperatorMeta]:
        """The operators with their states, as of the last accepted epoch; empty before the first."""

    def handles(self, consistency: Consistency) -> Mapping[str, Sequence[StateHandles]] | None:
        """The state of each vertex by subtask, as of the last complete checkpoint or the last accepted epoch.

        None (or nothing) before there is one. The files may be deleted as soon as there are newer handles.
        """
