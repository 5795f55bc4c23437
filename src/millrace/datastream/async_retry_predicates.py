"""Ready answers to whether a call is worth another attempt."""

from __future__ import annotations

from typing import Any


def empty_result_predicate(result: list[Any]) -> bool:
    """Nothing was found.

    >>> empty_result_predicate([])
    True
    """
    return not result


def has_exception_predicate(error: Exception | None) -> bool:
    """There was an exception, whichever.

    >>> has_exception_predicate(ValueError())
    True
    """
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """There was an exception of this class. Give the class with `functools.partial` or in a lambda.

    >>> exception_type_predicate(ConnectionResetError(), OSError)
    True
    """
    return isinstance(error, expected_error_type)
