"""The jobs that live in this Python worker process. One lives from its first task here to the job's end."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from millrace.runtime.epoch import JobSettings
from millrace.runtime.host import HostedJob
from millrace.runtime.shipping import ShippedJob
from millrace.spark.link import LinkAddress
from millrace.spark.worker import WorkerLink


@dataclass
class Hosted:
    """A job and its line to the driver."""

    job: HostedJob
    link: WorkerLink


_HOSTED: dict[str, Hosted] = {}


@dataclass(frozen=True)
class JobReference:
    """What a task carries of its job: enough to find it in this process, or to receive it.

    `run` names this run of the job in this session; the job itself is a broadcast, fetched once by a process.
    """

    run: str
    job: Any  # Broadcast[bytes]
    address: LinkAddress
    workers_exit: bool

    def hosted(self) -> Hosted:
        """The job in this process."""
        found = _HOSTED.get(self.run)
        if found is None:
            shipped, settings = pickle.loads(self.job.value)
            assert isinstance(shipped, ShippedJob)
            assert isinstance(settings, JobSettings)
            job = HostedJob(shipped, settings)
            found = Hosted(job, WorkerLink.connect(self.address, lambda: self._close(job), self.workers_exit))
            _HOSTED[self.run] = found
        return found

    def _close(self, job: HostedJob) -> None:
        _HOSTED.pop(self.run, None)
        errors = job.close()
        if errors:
            raise ExceptionGroup("closing the job's functions failed", errors)  # type: ignore[type-var]
