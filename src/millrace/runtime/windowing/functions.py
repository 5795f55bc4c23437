"""How a window's function is called: with a key or without, with a context or with the bare window, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millrace.runtime.failure import resolve

from .contexts import WindowContext
from .namespaces import Namespace

if TYPE_CHECKING:
    from .operator import WindowOperator

# (window, namespace, contents) → results
Call = Callable[[Any, Namespace, list[Any]], Iterable[Any] | None]


@dataclass(frozen=True)
class WindowCall:
    """A window function, and which of its methods is called."""

    function: Any
    method: str  # "apply" or "process"
    with_key: bool = True

    def bind(self, operator: WindowOperator) -> Call:
        """The function as a callable, in the process that runs it."""
        call = resolve(self.function, self.method)
        keys = operator.keys
        if self.method == "apply":
            if self.with_key:
                return lambda window, _namespace, contents: call(keys.key, window, contents)
            return lambda window, _namespace, contents: call(window, contents)
        context = WindowContext(operator)
        if self.with_key:
            return lambda window, namespace, contents: call(keys.key, context.of(window, namespace), contents)
        return lambda window, namespace, contents: call(context.of(window, namespace), contents)

    def bind_clear(self, operator: WindowOperator) -> Callable[[Any, Namespace], None] | None:
        """The function's `clear`, if it has one."""
        clear = getattr(self.function, "clear", None)
        if self.method != "process" or not callable(clear):
            return None
        context = WindowContext(operator)
        return lambda window, namespace: clear(context.of(window, namespace))


def contents_themselves(_window: Any, _namespace: Namespace, contents: list[Any]) -> list[Any]:
    """Without a window function, the contents are the result."""
    return contents
