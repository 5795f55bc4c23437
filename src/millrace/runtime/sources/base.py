"""Where records come from: a source tells what there is as offsets, and reads a range of them when asked.

    driver:  initial_offset ─► latest_offset ─► plan(start, end) ─► splits      one range for each epoch
    worker:  read(split) ─► chunks of records

An epoch's input is a range of offsets, so that an epoch which is run again reads the same records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Offset = dict[str, Any]

# Records in a chunk: enough that the work for each chunk does not count, few enough that watermarks come often.
CHUNK_RECORDS = 4096


@dataclass(frozen=True)
class Split:
    """A part of a source's range that one reader reads in one epoch.

    `id` stays the same from epoch to epoch for what belongs together (a file, a topic's partition): watermarks are
    made for each. `origin` is its place among the splits of the epoch. `ends` tells that nothing follows it.
    """

    id: str
    origin: int
    range: Any
    ends: bool = False


class Chunk(NamedTuple):
    """Consecutive records of a split; `seq` is the chunk's ordinal in the split, from 0 on in each epoch."""

    seq: int
    values: list[Any]
    timestamps: list[int] | None = None


class Source(ABC):
    """A replayable source. Offsets are JSON: they are part of checkpoints.

    A source is pickled to the driver's epoch loop and to the workers; it must not hold open resources.
    """

    #: Whether the source ends. A program whose sources all end runs to its end and stops.
    bounded: bool = True

    #: The most subtasks that can read at once, or None when there is no limit.
    max_parallelism: int | None = None

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where the source begins."""

    @abstractmethod
    def latest_offset(self, start: Offset, now: int) -> Offset:
        """How far an epoch may read that begins at `start`; `now` is the wall clock in milliseconds."""

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        """An offset at most about so many records behind `start`, and not behind `end`: for shorter epochs. A source
        that cannot tell gives `end`."""
        return end

    def at_end(self, offset: Offset) -> bool:
        """Whether a bounded source has nothing left after `offset`."""
        return self.bounded

    @abstractmethod
    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        """The splits between two offsets, for each of the readers."""

    @abstractmethod
    def read(self, split: Split) -> Iterator[Chunk]:
        """Read a split, always the same records in the same order."""
