"""Which operator runs a program's windows."""

from __future__ import annotations

from .operator import WindowOperator
from .spec import WindowSpec


def window_operator(spec: WindowSpec) -> WindowOperator:
    """The operator for these windows."""
    return WindowOperator(spec)
