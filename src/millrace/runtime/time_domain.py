"""The two times that a timer can belong to."""

from __future__ import annotations

from enum import Enum


class TimeDomain(Enum):
    """Event time is told by watermarks, processing time by the epoch's clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
