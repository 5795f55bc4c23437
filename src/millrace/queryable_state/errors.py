"""What can come of a query.

MillraceError
└── QueryableStateError              MR-4100  anything about queries; by itself: the server failed, and logged why
    ├── UnknownJobError              MR-4101  no such job at this server, or no longer
    ├── UnknownStateNameError        MR-4102  no state of the job is queried by this name, or several are
    ├── UnknownKeyError              MR-4103  the state has nothing under this key
    ├── JobNotReadyError             MR-4104  the job restarts, or has no checkpoint yet: ask again later
    ├── QueryTokenError              MR-4105  the token is not the server's
    ├── QueryConnectionError         MR-4106  the server was not reached, or fell silent (also a ConnectionError)
    ├── QueryTypeError               MR-4107  a key, namespace or value that does not fit its type, or may not travel
    ├── BadRequestError              MR-4108  bytes that are no request, or too many of them
    ├── TooManyRequestsError         MR-4109  more requests or connections than the server takes
    └── StateUnavailableError        MR-4110  files that this server cannot read
"""

from __future__ import annotations

from millrace.common.errors import MillraceError


class QueryableStateError(MillraceError):
    """A query went wrong."""

    default_code = "MR-4100"


class UnknownJobError(QueryableStateError):
    """The server does not know the job, or the job has ended."""

    default_code = "MR-4101"


class UnknownStateNameError(QueryableStateError):
    """The job has not one state that is queried by the name."""

    default_code = "MR-4102"


class UnknownKeyError(QueryableStateError):
    """The state has nothing under the key, as of the epoch that was asked for."""

    default_code = "MR-4103"


class JobNotReadyError(QueryableStateError):
    """The job has nothing to answer from just now. The same query may succeed in a while."""

    default_code = "MR-4104"


class QueryTokenError(QueryableStateError):
    """The server does not accept the token."""

    default_code = "MR-4105"


class QueryConnectionError(QueryableStateError, ConnectionError):
    """The server could not be reached, or the connection broke."""

    default_code = "MR-4106"


class QueryTypeError(QueryableStateError):
    """A key, a namespace or a value does not fit its type, or has none and is no plain value."""

    default_code = "MR-4107"


class BadRequestError(QueryableStateError):
    """The server did not understand the request."""

    default_code = "MR-4108"


class TooManyRequestsError(QueryableStateError):
    """The server has enough to do."""

    default_code = "MR-4109"


class StateUnavailableError(QueryableStateError):
    """The state is there, and the server cannot read its files."""

    default_code = "MR-4110"


_BY_CODE: dict[str, type[QueryableStateError]] = {
    cls.default_code: cls
    for cls in (
        UnknownJobError,
        UnknownStateNameError,
        UnknownKeyError,
        JobNotReadyError,
        QueryTokenError,
        QueryConnectionError,
        QueryTypeError,
        BadRequestError,
        TooManyRequestsError,
        StateUnavailableError,
    )
}


def error_of(code: str, message: str, action: str | None) -> QueryableStateError:
    """The error that a server named by its code.

    >>> error_of("MR-4103", "no such key", None)
    UnknownKeyError('no such key')
    """
    return _BY_CODE.get(code, QueryableStateError)(message, action=action, code=code)
