"""What every task of a job needs to know, out of what the program asked for."""

from __future__ import annotations

import sys

from millrace.common.job_id import JobID
from millrace.graph.job_options import JobOptions
from millrace.runtime.epoch import JobSettings


def job_settings(job_id: JobID, directory: str, options: JobOptions) -> JobSettings:
    """The settings of a job. Workers find modules where the program found them."""
    return JobSettings(
        job_id=job_id.to_hex_string(),
        job_name=options.job_name,
        directory=directory,
        batch_mode=options.batch_mode,
        parameters=dict(options.parameters),
        cached_files=dict(options.cached_files),
        broadcast_variables=dict(options.broadcast_variables),
        python_path=(*options.python_path, *(entry for entry in sys.path if entry)),
    )
