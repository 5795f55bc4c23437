"""What went wrong in a task, told in the terms of the program: operator, function, line, record."""

from __future__ import annotations

import inspect
import os
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millrace.common.errors import MillraceError, short_repr

# Exceptions that end a Python program. Raised by a user's function they are errors of the job, like all others.
PROGRAM_ENDS = (SystemExit, KeyboardInterrupt)

_OWN_CODE = f"{Path(__file__).resolve().parents[1]}{os.sep}"


def describe_function(function: Any) -> tuple[str, str]:
    """The name of a user's function and where it is defined, as `file:line`."""
    if function is None:  # an operator of ours, such as a source
        return "", ""
    target = function
    if not inspect.isroutine(function) and not inspect.isclass(function):
        target = type(function)
    name = getattr(target, "__qualname__", type(function).__name__)
    try:
        code = inspect.unwrap(target).__code__ if inspect.isroutine(target) else None
        if code is not None:
            return name, f"{code.co_filename}:{code.co_firstlineno}"
        return name, f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (TypeError, OSError, AttributeError):
        return name, ""


class UserCodeError(Exception):
    """Raised by an operator when a user's function (or a record's type) fails; `operator` is filled in on the way."""

    def __init__(self, cause: BaseException, function: Any, record: str | None, what: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.function = function
        self.record = record
        self.what = what
        self.operator = ""

    @classmethod
    def wrap(cls, cause: BaseException, function: Any, record: Any, what: str = "") -> UserCodeError:
        """The error for a function that failed on a record. An error that is wrapped already stays as it is."""
        if isinstance(cause, UserCodeError):
            return cause
        return cls(cause, function, short_repr(record), what)

    @classmethod
    def inside(cls, cause: BaseException, operator: str, function: Any, what: str = "") -> UserCodeError:
        """The error for what went wrong in an operator. An error that is wrapped already only learns its name."""
        error = cause if isinstance(cause, UserCodeError) else cls(cause, function, None, what)
        error.operator = error.operator or operator
        return error


@dataclass(frozen=True)
class TaskFailure:
    """The failure of a task, as it travels to the driver: text only, so that it can always be read there."""

    kind: str
    message: str
    operator: str
    function: str
    location: str
    record: str | None
    traceback: str
    subtask: str
    user_code: bool
    # (level, slot) of the task.
    place: tuple[int, int] | None = None

    def encode(self) -> bytes:
        """As the control line carries it."""
        return pickle.dumps(self, 5)

    @staticmethod
    def decode(payload: bytes) -> TaskFailure:
        """From one of the job's own workers, over the authenticated line."""
        failure = pickle.loads(payload)
        assert isinstance(failure, TaskFailure)
        return failure


def describe_failure(error: BaseException, subtask: str, place: tuple[int, int] | None = None) -> TaskFailure:
    """What the driver needs to tell the user about an exception that ended a task. `place` is its level and slot."""
    return replace(_described(error, subtask), place=place)


def _described(error: BaseException, subtask: str) -> TaskFailure:
    if not isinstance(error, UserCodeError):
        text = "".join(traceback.format_exception(error))
        return TaskFailure(type(error).__name__, str(error), "", "", "", None, text, subtask, user_code=False)
    cause = error.cause
    name, defined = describe_function(error.function)
    lines = _user_frames(cause)
    location = f"{lines[-1].filename}:{lines[-1].lineno}" if lines else defined
    text = _traceback(lines, cause)
    function = f"{error.what} {name}".strip()
    return TaskFailure(
        type(cause).__name__, str(cause), error.operator, function, location, error.record, text, subtask, True
    )


def describe_closing(error: BaseException) -> str:
    """The same for an exception that came when a function was closed, as text."""
    failure = _described(error, "")
    return f"{failure.operator}: {failure.function} failed at {failure.location}\n{failure.traceback}".rstrip()


def _traceback(lines: list[traceback.FrameSummary], cause: BaseException) -> str:
    if lines:
        shown = [*traceback.format_list(lines), *traceback.format_exception_only(cause)]
        return "".join(["Traceback (most recent call last):\n", *shown])
    # Without a line of the user's, what we say ourselves is all there is to say; anything else needs our lines.
    return "" if isinstance(cause, MillraceError) else "".join(traceback.format_exception(cause))


def _user_frames(cause: BaseException) -> list[traceback.FrameSummary]:
    """The frames from the user's first one on: what is above them is ours. Of an error that we raise ourselves, only
    the user's count: where we noticed it helps nobody."""
    frames = traceback.extract_tb(cause.__traceback__)
    users = [position for position, frame in enumerate(frames) if not frame.filename.startswith(_OWN_CODE)]
    if not users:
        return []
    end = users[-1] + 1 if isinstance(cause, MillraceError) else len(frames)
    return list(frames[users[0] : end])


def resolve(function: Any, method: str) -> Callable[..., Any]:
    """The thing to call: a function object's method, or the callable itself."""
    found = getattr(function, method, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if callable(function):
        return function  # type: ignore[no-any-return]
    raise TypeError(f"{function!r} is neither callable nor has a method {method}()")
