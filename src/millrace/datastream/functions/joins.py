"""Functions over pairs of records that were joined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from millrace.runtime.operators.joins.timed import JoinContext
from millrace.runtime.output_tag import OutputTag

from .base import Function


class ProcessJoinFunction(Function):
    """Sees each pair of an interval join or of a temporal join.

    What `process_element` yields (or returns in a list) goes downstream; `yield tag, value` sends a record to a side
    output. Where a join is an outer one, a record without a partner comes with None in its place.

    >>> class Delay(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(ABC):
        """`ctx`. One object serves all pairs: do not keep it."""

        @abstractmethod
        def get_left_timestamp(self) -> int | None:
            """The left record's timestamp; None where an outer join found none."""

        @abstractmethod
        def get_right_timestamp(self) -> int | None:
            """The right record's timestamp; None where an outer join found none."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The result's timestamp: in an interval join the later of the two, in a temporal join the left one."""

        @abstractmethod
        def output(self, tag: OutputTag, value: Any) -> None:
            """Send a record to a side output."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: Context) -> Iterable[Any] | None: ...


ProcessJoinFunction.Context.register(JoinContext)
