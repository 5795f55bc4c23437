"""The name and type of a side output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from millrace.common.typeinfo import TypeInformation


class OutputTag:
    """Names a side output. A process function yields `(tag, value)` to send a record there.

    >>> late = OutputTag("late")
    >>> late
    OutputTag('late')
    """

    # Whether this process has seen any tag: without one, no record can be meant for a side output, and
    # operators need not look.
    in_use: ClassVar[bool] = False

    tag_id: str
    type_info: TypeInformation | None

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        OutputTag.in_use = True
        return super().__new__(cls)

    def __init__(self, tag_id: str, type_info: TypeInformation | None = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise ValueError("OutputTag needs a name: a string that is not empty.")
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"
