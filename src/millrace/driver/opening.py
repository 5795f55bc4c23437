"""A program becomes a job: its directory, where it begins, and its plan."""

from __future__ import annotations

import logging
import sys

from millrace.driver.checkpointer import Checkpointer
from millrace.driver.home import JobHome, JobIdentity, durable_home, temporary_home
from millrace.driver.job import JobRun
from millrace.driver.restoring import Origin, RestoreRefusedError, adopt_max_parallelism, find_origin, job_state_of
from millrace.graph.job_graph import plan_job
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph

_LOG = logging.getLogger("millrace.job")


def open_job(graph: StreamGraph, options: JobOptions) -> JobRun:
    """The job of a program. It begins from its own checkpoint where a killed driver has left one, else from the
    savepoint that it was given, else anew."""
    home = _home(options)
    try:
        checkpointer = None
        if options.checkpoints is not None and not options.batch_mode:
            checkpointer = Checkpointer(home, options.checkpoints)
        origin = _origin(home, checkpointer, options)
        if origin is not None:
            adopt_max_parallelism(graph, origin.manifest)
        plan = plan_job(graph)
        state = None if origin is None else job_state_of(plan, origin, home.files, options.backend)
        began_from = origin.manifest if origin is not None and origin.own else None
        return JobRun(plan, options, home, checkpointer, state, began_from)
    except BaseException:
        home.abandon()
        raise


def _home(options: JobOptions) -> JobHome:
    checkpoints = options.checkpoints
    if checkpoints is None or checkpoints.directory is None or options.batch_mode:
        return temporary_home()
    identity = JobIdentity(options.job_name, options.script, options.ordinal)
    python_path = [*options.python_path, *(entry for entry in sys.path if entry)]
    return durable_home(checkpoints.directory.rstrip("/"), identity, options.arguments, python_path)


def _origin(home: JobHome, checkpointer: Checkpointer | None, options: JobOptions) -> Origin | None:
    if home.continues and checkpointer is not None:
        manifest = checkpointer.newest()
        if checkpointer.all_damaged():
            raise RestoreRefusedError(
                f"All checkpoints of job {options.job_name!r} in {home.directory} are damaged; the log names them.",
                action="Delete that directory to begin anew, or from a savepoint.",
            )
        if manifest is not None:
            _LOG.warning(
                "Job %r goes on from checkpoint %d in %s, where a run of it was cut off. (To begin anew, delete that "
                "directory.)",
                options.job_name,
                manifest.epoch,
                home.directory,
            )
            return Origin(manifest, home.directory, own=True)
    wanted = options.restore
    return None if wanted is None else find_origin(wanted.path, wanted.allow_non_restored, wanted.allow_pickle)
