"""What can be seen of a mistake while the program is built."""

from __future__ import annotations

import inspect
from typing import Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.operators.base import ErrorPolicy
from millrace.runtime.output_tag import OutputTag
from millrace.state.key_groups import UPPER_BOUND_MAX_PARALLELISM

from ._site import call_site
from .functions import Function


def at_site(message: str) -> str:
    """The message with the line of the program that is at fault."""
    site = call_site()
    return f"{message} (at {site})" if site else message


def _kind(function: Any) -> str:
    """How to name what was given."""
    kinds = [base.__name__ for base in type(function).__mro__ if base.__module__.startswith(f"{__package__}.functions")]
    name = type(function).__name__
    return f"the {kinds[0]} {name}" if kinds else short_repr(function)


def _a(base: type[Function]) -> str:
    """The name of a kind of function with its article."""
    return f"{'an' if base.__name__[0] in 'AEIO' else 'a'} {base.__name__}"


def require_instance(function: Any, operator: str) -> None:
    """Refuse the class of a function where an instance is needed."""
    if inspect.isclass(function) and issubclass(function, Function):
        raise ProgramError(
            at_site(f"{operator} was given the class {function.__name__} instead of an instance of it."),
            action=f"Write {function.__name__}().",
        )


def require_callable(function: Any, base: type[Function], method: str, operator: str) -> Any:
    """A function that has the method, or a callable; anything else is refused."""
    require_instance(function, operator)
    if callable(getattr(function, method, None)):
        return function
    if callable(function) and not isinstance(function, Function):
        return function
    raise ProgramError(
        at_site(f"{operator} takes {_a(base)} or a callable, not {_kind(function)}."),
        action=f"Subclass {base.__name__} and implement {method}(), or give a callable.",
    )


def require_methods(function: Any, base: type[Function], operator: str, *methods: str) -> Any:
    """A function object that has all the methods; a plain callable will not do."""
    require_instance(function, operator)
    missing = [method for method in methods if not callable(getattr(function, method, None))]
    if missing:
        raise ProgramError(
            at_site(f"{operator} takes {_a(base)}, not {_kind(function)}."),
            action=f"Subclass {base.__name__} and implement {', '.join(methods)}.",
        )
    return function


def refuse(function: Any, kinds: tuple[type, ...], operator: str, action: str) -> None:
    """Refuse functions of another operator that look the same."""
    if isinstance(function, kinds):
        raise ProgramError(at_site(f"{operator} cannot run {_kind(function)}."), action=action)


def require_type(type_info: Any, what: str) -> TypeInformation | None:
    """A type information, or None."""
    if type_info is None or isinstance(type_info, TypeInformation):
        return type_info
    raise ProgramError(
        at_site(f"{what} is {short_repr(type_info)}, which is no type information."),
        action="Call it: Types.STRING() and not Types.STRING or str.",
    )


def require_parallelism(what: str, number: Any) -> int:
    """A number of subtasks (or of key groups)."""
    if type(number) is not int or not 0 < number <= UPPER_BOUND_MAX_PARALLELISM:
        raise ProgramError(
            at_site(f"{what} must be an int from 1 to {UPPER_BOUND_MAX_PARALLELISM}, got {number!r}."),
        )
    return number


def require_buffer_timeout(timeout_millis: Any) -> int:
    """Milliseconds, 0 for at once, -1 for when a buffer is full."""
    if type(timeout_millis) is not int or timeout_millis < -1:
        raise ProgramError(at_site(f"The buffer timeout is a number of milliseconds, or -1, got {timeout_millis!r}."))
    return timeout_millis


def require_text(what: str, value: Any) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ProgramError(at_site(f"{what} must be a string that is not empty, got {value!r}."))
    return value


def error_policy(policy: Any) -> ErrorPolicy:
    """The policy that `on_error` was given."""
    if isinstance(policy, ErrorPolicy):
        return policy
    if isinstance(policy, OutputTag):
        return ErrorPolicy.side_output(policy)
    if policy == "fail":
        return ErrorPolicy.fail()
    if policy == "skip":
        return ErrorPolicy.skip()
    raise ProgramError(
        at_site(f"on_error takes 'fail', 'skip', an OutputTag or an ErrorPolicy, not {short_repr(policy)}.")
    )
