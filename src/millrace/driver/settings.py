"""What every task of a job needs to know, out of what the program asked for."""

from __future__ import annotations

import sys
import tempfile
from uuid import uuid4

from millrace.driver.job import JobRun
from millrace.runtime.epoch import JobSettings


def job_settings(job: JobRun) -> JobSettings:
    """The settings of a job's next attempt. Workers find modules where the program found them."""
    options = job.options
    return JobSettings(
        job_id=job.job_id.to_hex_string(),
        job_name=options.job_name,
        directory=job.directory,
        attempt=job.attempt,
        run=uuid4().hex[:8],
        backend=options.backend,
        local_directory=options.backend_directory or tempfile.gettempdir(),
        batch_mode=options.batch_mode,
        parameters=dict(options.parameters),
        cached_files=dict(options.cached_files),
        broadcast_variables=dict(options.broadcast_variables),
        python_path=(*options.python_path, *(entry for entry in sys.path if entry)),
    )
