"""Whether a call written for PyFlink's parameters fits one of Millrace's callables."""

import ast
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class Wanted(NamedTuple):
    """PyFlink's parameters, without self and cls."""

    positional: list[str]
    optional: set[str]
    takes_more: bool  # *args
    takes_names: bool  # **kwargs


def parse(params: str) -> Wanted:
    arguments = ast.parse(f"def f({params}): pass").body[0].args  # type: ignore[attr-defined]
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    optional = set(positional[len(positional) - len(arguments.defaults) :])
    return Wanted(positional, optional, arguments.vararg is not None, arguments.kwarg is not None)


def incompatibility(function: Callable[..., Any], params: str, *, bound: bool) -> str | None:
    """What a PyFlink program could write that this callable refuses; None where there is nothing.

    ``bound`` tells that the first parameter is self or cls, which PyFlink's parameters leave out.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # A builtin that does not tell.
        return None
    ours = list(signature.parameters.values())[1 if bound else 0 :]
    return _compare(parse(params), ours)


def _compare(wanted: Wanted, ours: list[inspect.Parameter]) -> str | None:
    kinds = {parameter.kind for parameter in ours}
    if inspect.Parameter.VAR_POSITIONAL not in kinds and wanted.takes_more:
        return "does not take *args"
    if inspect.Parameter.VAR_KEYWORD not in kinds and wanted.takes_names:
        return "does not take **kwargs"
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
        return None
    return _compare_positional(
        wanted, [p for p in ours if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    ) or (_needs_more(wanted, ours))


def _compare_positional(wanted: Wanted, ours: list[inspect.Parameter]) -> str | None:
    names = [parameter.name for parameter in ours]
    if names[: len(wanted.positional)] != wanted.positional:
        return f"takes ({', '.join(names)}) where PyFlink takes ({', '.join(wanted.positional)})"
    for parameter in ours:
        if parameter.name in wanted.optional and parameter.default is inspect.Parameter.empty:
            return f"needs {parameter.name!r}, which PyFlink gives a default"
    return None


def _needs_more(wanted: Wanted, ours: list[inspect.Parameter]) -> str | None:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in ours:
        known = parameter.name in wanted.positional or parameter.kind in variable
        if not known and parameter.default is inspect.Parameter.empty:
            return f"needs {parameter.name!r}, which PyFlink does not know"
    return None
