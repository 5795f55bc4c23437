"""What a program says about its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.common.typeinfo import TypeInformation
from millrace.runtime.output_tag import OutputTag

from .assigners import WindowAssigner
from .contents import Incremental
from .evictors import Evictor
from .functions import WindowCall
from .triggers import Trigger


@dataclass(frozen=True)
class WindowSpec:
    """Everything that a window operator is made from. There is an incremental function, a window function, or both."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    evictor: Evictor | None = None
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None
    element_type: TypeInformation | None = None
    incremental: Incremental | None = None
    call: WindowCall | None = None

    def functions(self) -> list[Any]:
        """The user's functions, the one that makes the results first."""
        found = [] if self.call is None else [self.call.function]
        return found if self.incremental is None else [*found, self.incremental.function]
