"""Streaming or batch."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program is executed. AUTOMATIC is BATCH when every source ends, else STREAMING."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
