"""What crosses an exchange: rows, each carrying one buffer.

A row is `(slot, level, seq, rank, payload)`. `slot` and `level` say which task reads it, `(seq, rank)` where it
stands in the order in which that task reads. The payload is a pickled buffer or report. Rows travel between
workers of one job run and are never kept, so that pickle is safe here and fast.

The order is the order of the sources: `seq` is the ordinal of the source's chunk that a buffer's records come
from, and `rank` packs the ordinal of the source split, the sender's channel and the buffer's number. Records
that reach a task by different ways are read in the order in which the source gave them, chunk by chunk. So a task
that is run again reads the same, and behind a source that is dealt out once (by key, or evenly and then by key) the
order of a key's records is the source's at every parallelism. Behind a second exchange that deals records out anew,
the order holds from chunk to chunk, and not within one.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

from millrace.common import pickling

# The level of rows that are meant for the driver.
REPORT_LEVEL = 1 << 30

# The place of what comes after every record of the epoch (timers and watermarks of its end).
SEQ_END = 1 << 62

# The place of what comes before every record, and before what timers emit when an epoch begins: in BATCH mode all of
# a broadcast stream, in both modes a table that a stream is joined with.
SEQ_FIRST = -2

_BITS = 20
_MASK = (1 << _BITS) - 1


class Row(NamedTuple):
    """One row of an exchange."""

    slot: int
    level: int
    seq: int
    rank: int
    payload: bytes


def rank(origin: int, channel: int, part: int) -> int:
    """Pack the three parts of a row's rank, most significant first."""
    return (origin & _MASK) << (2 * _BITS) | (channel & _MASK) << _BITS | (part & _MASK)


def origin_of(rank: int) -> int:
    """The ordinal of the source split that a row's records come from."""
    return rank >> (2 * _BITS)


class Buffer(NamedTuple):
    """Records on their way from one subtask to another, ending in at most one watermark.

    Which subtask of the vertex it is for is told by the row's slot, so that a broadcast encodes its buffer once.
    `idle` tells that the sender has nothing to say about event time for now; `attempt` is the task attempt that
    made the buffer.
    """

    vertex: int
    channel: int
    attempt: int
    values: list[Any]
    timestamps: list[int] | None
    watermark: int | None
    idle: bool


@dataclass
class SinkRecords:
    """Records that a collecting sink (print, execute_and_collect) hands to the driver."""

    node: int
    subtask: int
    values: list[Any]


def encode(payload: Any) -> bytes:
    """A buffer's fields (as a bare tuple: smaller and faster), or anything meant for the driver."""
    return pickling.dumps(payload)


def decode_buffer(payload: Any) -> Buffer:
    """The buffer in a row of this task's level."""
    return Buffer._make(pickle.loads(payload))


def decode_report(payload: Any) -> tuple[int, int, Any]:
    """The report in a row of REPORT_LEVEL, behind its place: `(seq, rank, report)`."""
    seq, place, report = pickle.loads(payload)
    return seq, place, report
