"""What is decided outside of a program for every environment that it makes: `millrace run` and `millrace info`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from millrace.common.configuration import Configuration

from ._execution import Executor


@dataclass(frozen=True)
class EnvironmentDefaults:
    """A configuration that a program may overrule, and who runs its jobs in place of Spark (None: Spark does)."""

    configuration: Configuration = field(default_factory=Configuration)
    make_executor: Callable[[], Executor] | None = None


_current = EnvironmentDefaults()


def environment_defaults() -> EnvironmentDefaults:
    """What holds now."""
    return _current


@contextlib.contextmanager
def use_environment_defaults(defaults: EnvironmentDefaults) -> Iterator[None]:
    """Have `get_execution_environment` begin with these, inside the block."""
    global _current
    before, _current = _current, defaults
    try:
        yield
    finally:
        _current = before
