"""What a checkpoint promises."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """Both are exactly-once here: an epoch counts as a whole or not at all."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
