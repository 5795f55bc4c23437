"""The jobs that live in this Python worker process. One lives from its first task here to the job's end."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from millrace.runtime.epoch import JobSettings
from millrace.runtime.failure import describe_closing
from millrace.runtime.host import HostedJob, find_modules_in
from millrace.runtime.shipping import ShippedJob
from millrace.spark.link import LinkAddress
from millrace.spark.worker import ClosingFailed, WorkerLink


class Hosted:
    """A job and its line to the driver. The line comes first: it also tells when the job cannot be loaded."""

    def __init__(self, reference: JobReference) -> None:
        self._reference = reference
        self._loaded: HostedJob | None = None
        self.link = WorkerLink.connect(reference.address, self._close, reference.workers_exit)

    @cached_property
    def job(self) -> HostedJob:
        """The job, loaded when it is needed first."""
        python_path, payload = pickle.loads(self._reference.job.value)
        find_modules_in(python_path)
        shipped, settings = pickle.loads(payload)
        assert isinstance(shipped, ShippedJob)
        assert isinstance(settings, JobSettings)
        self._loaded = HostedJob(shipped, settings)
        return self._loaded

    def _close(self) -> None:
        _HOSTED.pop(self._reference.run, None)
        errors = self._loaded.close() if self._loaded is not None else []
        if errors:
            raise ClosingFailed("\n".join(map(describe_closing, errors)))


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
            found = _HOSTED[self.run] = Hosted(self)
        return found
