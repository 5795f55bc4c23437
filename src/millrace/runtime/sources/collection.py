"""A list of the program's own, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace.runtime.sources.base import CHUNK_RECORDS, Chunk, Offset, Source, Split


class CollectionSource(Source):
    """The elements of a list, in order, read by one subtask."""

    max_parallelism = 1

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def initial_offset(self) -> Offset:
        return {"next": 0}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {"next": len(self._values)}

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        return {"next": min(end["next"], start["next"] + records)}

    def at_end(self, offset: Offset) -> bool:
        return bool(offset["next"] >= len(self._values))

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        return [[Split("0", 0, (start["next"], end["next"]), ends=self.at_end(end))], *([] for _ in range(readers - 1))]

    def read(self, split: Split) -> Iterator[Chunk]:
        start, stop = split.range
        for seq, first in enumerate(range(start, stop, CHUNK_RECORDS)):
            yield Chunk(seq, self._values[first : min(first + CHUNK_RECORDS, stop)])
