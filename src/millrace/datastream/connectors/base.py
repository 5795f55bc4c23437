"""The interfaces of sources and sinks."""

from __future__ import annotations

from enum import Enum

from millrace.runtime.sinks import Committer, CommitterContext, Sink, SinkWriter
from millrace.runtime.sources.base import Chunk, Offset, Source, Split

__all__ = [
    "Chunk",
    "Committer",
    "CommitterContext",
    "DeliveryGuarantee",
    "Offset",
    "Sink",
    "SinkWriter",
    "Source",
    "Split",
]


class DeliveryGuarantee(Enum):
    """How often a record arrives when tasks are run again."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
