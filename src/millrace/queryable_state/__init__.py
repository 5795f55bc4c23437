"""Queryable state from outside of the job: a client, and the errors that it raises."""

from millrace.queryable_state.client import QueryableStateClient
from millrace.queryable_state.errors import (
    BadRequestError,
    JobNotReadyError,
    QueryableStateError,
    QueryConnectionError,
    QueryTokenError,
    QueryTypeError,
    StateUnavailableError,
    TooManyRequestsError,
    UnknownJobError,
    UnknownKeyError,
    UnknownStateNameError,
)

__all__ = [
    "BadRequestError",
    "JobNotReadyError",
    "QueryConnectionError",
    "QueryTokenError",
    "QueryTypeError",
    "QueryableStateClient",
    "QueryableStateError",
    "StateUnavailableError",
    "TooManyRequestsError",
    "UnknownJobError",
    "UnknownKeyError",
    "UnknownStateNameError",
]
