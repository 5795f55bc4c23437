"""A sink that takes everything and keeps nothing."""

from __future__ import annotations

from typing import Any

from millrace.runtime.context import RuntimeContext

from .base import Sink, SinkWriter

__all__ = ["DiscardingSink"]


class DiscardingSink(Sink):
    """Drops its records: for benchmarks, and for programs that only count.

    >>> DiscardingSink().create_writer(None).prepare_commit()
    []
    """

    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        return _Discarder()


class _Discarder(SinkWriter):
    def write(self, value: Any, context: Any) -> None:
        """Nothing."""

    def write_all(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Nothing, for a whole list."""
