"""The loop of a program whose sources all end."""

from __future__ import annotations

import time

from millrace.driver.job import JobRun
from millrace.driver.pacing import Pacer
from millrace.driver.runner import CancelledError, JobStopped

# With nothing to read, an epoch is run this often (in seconds) for processing-time timers and idle sources.
HEARTBEAT = 0.2

# How long the loop sleeps when there is nothing to read: below what anyone notices in an epoch's latency.
_POLL = 0.005


def run_bounded(job: JobRun) -> None:
    """Run epoch after epoch until the sources have ended, or the job is stopped."""
    last = time.monotonic()
    pacer = None
    if job.checkpointer is not None and job.options.checkpoints is not None and job.options.epoch_records is None:
        pacer = Pacer(job.options.checkpoints.interval / 1000)
        job.coordinator.limit(pacer.records)
    while True:
        now = int(time.time() * 1000)
        heartbeat = job.savepoints.waiting() or time.monotonic() - last >= HEARTBEAT
        planned = job.coordinator.next_epoch(now, heartbeat)
        if planned is None:
            if job.cancelled.wait(_POLL):
                raise CancelledError
            continue
        epoch, ends = planned
        began = time.monotonic()
        try:
            job.run_epoch(epoch, ends)
        except JobStopped:
            return
        last = time.monotonic()
        if pacer is not None:
            job.coordinator.limit(pacer.after(last - began))
        if epoch.final:
            return
