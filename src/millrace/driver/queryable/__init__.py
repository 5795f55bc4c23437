"""Queryable state in the driver: a server that answers from the job's checkpoints."""

from millrace.driver.queryable.job import QueryableJob
from millrace.driver.queryable.options import QueryableStateOptions, queryable_options_from
from millrace.driver.queryable.server import QueryableStateServer

__all__ = ["QueryableJob", "QueryableStateOptions", "QueryableStateServer", "queryable_options_from"]
