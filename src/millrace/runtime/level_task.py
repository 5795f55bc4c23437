"""One task of Spark: a slot of a level, in one epoch.

    rows in, sorted ─► the subtasks of this slot ─► rows out: for later levels, and reports for the driver

The task streams: it hands rows on as soon as there is a good load of them, and holds what its operators hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from millrace.runtime.batch import Batch
from millrace.runtime.epoch import EpochInput
from millrace.runtime.router import Outbox
from millrace.runtime.rows import SEQ_END, Row, decode_buffer, origin_of
from millrace.runtime.subtask import Subtask

# Rows are handed on when they hold this many bytes together.
LOAD_BYTES = 1 << 20

# Entry rows carry records that Spark has read; they are addressed to level 0 by this channel.
ENTRY_CHANNEL = -1


class LevelTask:
    """Runs the subtasks of one slot through one epoch."""

    def __init__(self, level: int, slot: int, subtasks: list[Subtask], epoch: EpochInput, outbox: Outbox) -> None:
        self._level = level
        self._slot = slot
        self._subtasks = {subtask.vertex.id: subtask for subtask in subtasks}
        self._epoch = epoch
        self._outbox = outbox

    def run(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        """Read the rows that are for this slot, in order, and yield the rows that come of them."""
        try:
            yield from self._run(rows)
        finally:
            for subtask in self._subtasks.values():
                subtask.release()

    def _run(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        outbox = self._outbox
        outbox.move_to(-1, 0)
        for subtask in self._subtasks.values():
            subtask.begin(self._epoch, outbox)
        for row in rows:
            if row.level != self._level:
                outbox.rows.append(row)
                outbox.size += len(row.payload)
            else:
                self._receive(row)
            if outbox.size >= LOAD_BYTES:
                yield outbox.take()
        yield from self._read_sources()
        self._move_to(SEQ_END, 0)
        self._end()
        yield outbox.take()

    def _receive(self, row: Row) -> None:
        self._move_to(row.seq, origin_of(row.rank))
        buffer = decode_buffer(row.payload)
        subtask = self._subtasks[buffer.vertex]
        if buffer.channel == ENTRY_CHANNEL:
            split_id = str(origin_of(row.rank)) if buffer.split is None else buffer.split
            subtask.receive_entry(split_id, Batch(buffer.values, buffer.timestamps))
        else:
            subtask.receive(buffer)

    def _move_to(self, seq: int, origin: int) -> None:
        """Send what stands in the routers when the place in the sources' order changes."""
        outbox = self._outbox
        if seq != outbox.seq or origin != outbox.origin:
            for subtask in self._subtasks.values():
                subtask.flush()
                if seq != outbox.seq:
                    subtask.end_of_group()
            outbox.move_to(seq, origin)

    def _read_sources(self) -> Iterator[list[Row]]:
        for subtask in self._subtasks.values():
            for seq, origin in subtask.read_sources():
                self._move_to(seq, origin)
                if self._outbox.size >= LOAD_BYTES:
                    yield self._outbox.take()

    def _end(self) -> None:
        for subtask in self._subtasks.values():
            report = subtask.end()
            self._outbox.report(self._slot, 0, report)


