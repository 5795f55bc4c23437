"""Every exception that Millrace raises.

    MillraceError                        MR-1000
    ├── ProgramError                     MR-1001  a mistake in how the program is written
    │   ├── ConfigurationError           MR-1007  an option whose value makes no sense (also a ValueError)
    │   ├── ShippingError                MR-1004  something that cannot be pickled to a worker
    │   ├── JvmOnlyError                 MR-1005  a name that needs a JVM behind it
    │   └── NotSupportedError            MR-1006  a part of Flink that Millrace does not have
    ├── TypeMismatchError                MR-1002  a value that does not fit its type (also a TypeError)
    ├── KeyHashError                     MR-1003  a key without a stable hash
    ├── DecodingError                    MR-1008  bytes that are not what their type says
    ├── JobExecutionError                MR-2001  a job that failed
    ├── JobCancelledError                MR-2002  a job that was cancelled
    ├── ExternalSystemError              MR-2011  a broker, database or the like that did not do what a job needs
    └── TableException                   MR-3001  the table room's errors, named as PyFlink names them
        └── CatalogException             MR-3002  (and its kin, MR-3003 to MR-3015)

A code never changes its meaning and is never used again once it is retired.
"""

from __future__ import annotations

import reprlib
from typing import Any, ClassVar

__all__ = [
    "CatalogException",
    "ConfigurationError",
    "DatabaseAlreadyExistException",
    "DatabaseNotEmptyException",
    "DatabaseNotExistException",
    "DecodingError",
    "ExternalSystemError",
    "FunctionAlreadyExistException",
    "FunctionNotExistException",
    "JobCancelledError",
    "JobExecutionError",
    "JvmOnlyError",
    "KeyHashError",
    "MillraceError",
    "ModelAlreadyExistException",
    "ModelNotExistException",
    "NotSupportedError",
    "PartitionAlreadyExistsException",
    "PartitionNotExistException",
    "PartitionSpecInvalidException",
    "ProgramError",
    "ShippingError",
    "TableAlreadyExistException",
    "TableException",
    "TableNotExistException",
    "TableNotPartitionedException",
    "TypeMismatchError",
    "short_repr",
]

# Long enough for a typical record, short enough for one line of a log.
_MAX_REPR = 120


def short_repr(value: Any) -> str:
    """A repr of at most 120 characters that never raises.

    >>> short_repr(list(range(1000)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    return _SHORT.repr(value)


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _MAX_REPR

    def repr(self, x: Any) -> str:
        try:
            text = super().repr(x)
        except Exception as error:
            return f"<{type(x).__name__} whose repr raised {type(error).__name__}>"
        return text if len(text) <= _MAX_REPR else text[: _MAX_REPR - 3] + "..."


_SHORT = _ShortRepr()


def _rebuild(cls: type[MillraceError], args: tuple[Any, ...], state: dict[str, Any]) -> MillraceError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class MillraceError(Exception):
    """The root: a stable ``code``, a message, and optionally what to do about it.

    >>> print(MillraceError("the sink is gone", action="Create the directory."))
    [MR-1000] the sink is gone
    Action: Create the directory.
    """

    default_code: ClassVar[str] = "MR-1000"

    def __init__(self, message: str = "", *, action: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.action = action
        self.code = code or self.default_code

    def _body(self) -> str:
        return self.message

    def __str__(self) -> str:
        text = f"[{self.code}] {self._body()}"
        return f"{text}\nAction: {self.action}" if self.action else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class ProgramError(MillraceError):
    """A mistake that shows while the program is built, before any record moves."""

    default_code = "MR-1001"


class ConfigurationError(ProgramError, ValueError):
    """An option whose value cannot be read as what the option is."""

    default_code = "MR-1007"


class ShippingError(ProgramError):
    """A function or value that cannot be pickled, and so cannot reach a worker."""

    default_code = "MR-1004"


class JvmOnlyError(ProgramError):
    """A PyFlink name that only makes sense with a JVM behind it.

    >>> print(JvmOnlyError.of("ExecutionConfig.enable_force_kryo"))
    [MR-1005] ExecutionConfig.enable_force_kryo needs a JVM, which Millrace does not have
    Action: Remove the call; Millrace works without it.
    """

    default_code = "MR-1005"

    @classmethod
    def of(cls, name: str, action: str = "Remove the call; Millrace works without it.") -> JvmOnlyError:
        return cls(f"{name} needs a JVM, which Millrace does not have", action=action)


class NotSupportedError(ProgramError):
    """A part of Flink that Millrace does not have."""

    default_code = "MR-1006"


class TypeMismatchError(MillraceError, TypeError):
    """A value that does not fit the type that was declared for it.

    ``path`` leads from the record to the value (``f1.name[3]``, empty for the record itself), ``index`` is
    the record's place in its batch when a batch was checked.

    >>> print(TypeMismatchError("FLOAT", "abc").inside("temperature"))
    [MR-1002] field 'temperature': expected FLOAT, got str 'abc'
    """

    default_code = "MR-1002"

    def __init__(self, expected: str, value: Any, reason: str = "", *, action: str | None = None) -> None:
        super().__init__("", action=action)
        self.expected = expected
        self.value_repr = short_repr(value)
        self.python_type = type(value).__qualname__
        self.reason = reason
        self.path = ""
        self.index: int | None = None
        self.args = (self._body(),)

    def inside(self, step: str) -> TypeMismatchError:
        """Puts ``step`` (a field name, or ``[index]``) before the path, and returns the same error."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{step}{joint}{self.path}"
        self.message = self._body()
        self.args = (self.message,)
        return self

    def _body(self) -> str:
        got = "None" if self.python_type == "NoneType" else f"{self.python_type} {self.value_repr}"
        where = f"field '{self.path}': " if self.path else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"{where}expected {self.expected}, got {got}{why}"


class KeyHashError(MillraceError):
    """A key that has no hash that is the same in every process and release."""

    default_code = "MR-1003"


class DecodingError(MillraceError):
    """Bytes that do not hold what their type information says."""

    default_code = "MR-1008"


class JobExecutionError(MillraceError):
    """A job failed: which operator and function, where, at which record, and the traceback from the worker.

    >>> error = JobExecutionError("ValueError: no number", operator_name="parse", location="job.py:12", record="x")
    >>> print(error)
    [MR-2001] ValueError: no number
      operator: parse
      at: job.py:12
      record: 'x'
    """

    default_code = "MR-2001"

    def __init__(
        self,
        message: str,
        *,
        operator_name: str | None = None,
        function_name: str | None = None,
        location: str | None = None,
        record: Any = None,
        record_repr: str | None = None,
        traceback_text: str | None = None,
        action: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, action=action, code=code)
        self.operator_name = operator_name
        self.function_name = function_name
        self.location = location
        self.record_repr = record_repr if record is None else short_repr(record)
        self.traceback_text = traceback_text

    def _body(self) -> str:
        facts = {
            "operator": self.operator_name,
            "function": self.function_name,
            "at": self.location,
            "record": self.record_repr,
        }
        lines = [self.message, *(f"  {name}: {fact}" for name, fact in facts.items() if fact is not None)]
        if self.traceback_text:
            lines.append(self.traceback_text.rstrip())
        return "\n".join(lines)


class JobCancelledError(MillraceError):
    """A job that was cancelled before it finished."""

    default_code = "MR-2002"


class ExternalSystemError(MillraceError):
    """Another system could not be reached, or refused: which one, at which address, and the last cause."""

    default_code = "MR-2011"


class TableException(MillraceError):
    """A mistake in a table program."""

    default_code = "MR-3001"


class CatalogException(TableException):
    """A catalog that could not do what it was asked."""

    default_code = "MR-3002"


class DatabaseAlreadyExistException(CatalogException):
    default_code = "MR-3003"


class DatabaseNotEmptyException(CatalogException):
    default_code = "MR-3004"


class DatabaseNotExistException(CatalogException):
    default_code = "MR-3005"


class FunctionAlreadyExistException(CatalogException):
    default_code = "MR-3006"


class FunctionNotExistException(CatalogException):
    default_code = "MR-3007"


class PartitionAlreadyExistsException(CatalogException):
    default_code = "MR-3008"


class PartitionNotExistException(CatalogException):
    default_code = "MR-3009"


class PartitionSpecInvalidException(CatalogException):
    default_code = "MR-3010"


class TableAlreadyExistException(CatalogException):
    default_code = "MR-3011"


class TableNotExistException(CatalogException):
    default_code = "MR-3012"


class ModelAlreadyExistException(CatalogException):
    default_code = "MR-3013"


class ModelNotExistException(CatalogException):
    default_code = "MR-3014"


class TableNotPartitionedException(CatalogException):
    default_code = "MR-3015"
