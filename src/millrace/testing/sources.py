"""Sources whose epochs a test decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millrace.runtime.sources.base import Chunk, Offset, Source, Split


class EpochSource(Source):
    """Gives one list of records in each epoch, and ends after the last: for what happens between epochs.

    >>> source = EpochSource([["a", "b"], [], ["c"]])
    >>> source.latest_offset(source.initial_offset(), now=0)
    {'next': 1}

    It is read by one subtask, in chunks of at most `chunk_records`. Read it with
    `env.from_source(EpochSource(...), WatermarkStrategy..., "name")`.
    """

    max_parallelism = 1

    def __init__(self, epochs: Sequence[Sequence[Any]], chunk_records: int = 1000) -> None:
        self._epochs = [list(epoch) for epoch in epochs]
        self._chunk_records = chunk_records

    def initial_offset(self) -> Offset:
        return {"next": 0}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {"next": min(start["next"] + 1, len(self._epochs))}

    def at_end(self, offset: Offset) -> bool:
        return bool(offset["next"] >= len(self._epochs))

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        split = Split("0", 0, (start["next"], end["next"]), ends=self.at_end(end))
        return [[split], *([] for _ in range(readers - 1))]

    def read(self, split: Split) -> Iterator[Chunk]:
        records = [record for epoch in self._epochs[slice(*split.range)] for record in epoch]
        for seq, first in enumerate(range(0, len(records), self._chunk_records)):
            yield Chunk(seq, records[first : first + self._chunk_records])
