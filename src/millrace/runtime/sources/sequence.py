"""Numbers and made-up records: sources whose splits describe a range, so that no record crosses from the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any

from millrace.runtime.failure import UserCodeError
from millrace.runtime.sources.base import CHUNK_RECORDS, Chunk, Offset, Source, Split

# A short range is cut into this many chunks at least, so that every reader has something to do.
_LEAST_CHUNKS = 64


class NumberSequenceSource(Source):
    """The integers from `start` to `end`, both included.

    The readers take the chunks in turn, and every chunk knows its place in the whole: what reads them in order
    sees the numbers in order, at every parallelism.

    >>> source = NumberSequenceSource(1, 3)
    >>> [split] = source.plan(source.initial_offset(), source.latest_offset({}, 0), readers=1)[0]
    >>> [chunk.values for chunk in source.read(split)]
    [[1], [2], [3]]
    """

    def __init__(self, start: int, end: int) -> None:
        if type(start) is not int or type(end) is not int:
            raise ValueError(f"NumberSequenceSource takes two ints, not {start!r} and {end!r}.")
        if start > end + 1:
            raise ValueError(f"NumberSequenceSource: start {start} lies behind end {end}.")
        self._start = start
        self._end = end

    def initial_offset(self) -> Offset:
        return {"next": self._start}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {"next": self._end + 1}

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        return {**end, "next": min(end["next"], start["next"] + records)}

    def at_end(self, offset: Offset) -> bool:
        return bool(offset["next"] > self._end)

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        return plan_range(start["next"], end["next"], readers)

    def read(self, split: Split) -> Iterator[Chunk]:
        for seq, first, last in chunks_of(split):
            yield Chunk(seq, list(range(first, last)))


def plan_range(start: int, stop: int, readers: int, began: int | None = None) -> list[list[Split]]:
    """One split for each reader: every `readers`-th chunk of the range."""
    size = max(1, min(CHUNK_RECORDS, (stop - start) // _LEAST_CHUNKS))
    return [[Split(str(reader), 0, (start, stop, size, reader, readers, began))] for reader in range(readers)]


def chunks_of(split: Split) -> Iterator[tuple[int, int, int]]:
    """The chunks of a split made by `plan_range`: ordinal in the whole range, first, one past the last."""
    start, stop, size, reader, readers, _ = split.range
    count = -(-(stop - start) // size)
    for seq in range(reader, count, readers):
        first = start + seq * size
        yield seq, first, min(first + size, stop)


class DataGeneratorSource(Source):
    """Records made by a function of their index, `count` of them or without end, at a given rate or at once.

    With a rate, a record's timestamp is the moment in which it is due.

    >>> source = DataGeneratorSource(lambda index: f"record {index}", count=2)
    >>> [split] = source.plan({"next": 0}, {"next": 2}, readers=1)[0]
    >>> [chunk.values for chunk in source.read(split)]
    [['record 0'], ['record 1']]
    """

    # Without a rate, an endless source still ends its epochs.
    _RECORDS_PER_EPOCH = 1_000_000

    def __init__(
        self,
        generator: Callable[[int], Any],
        count: int | None = None,
        records_per_second: float | None = None,
    ) -> None:
        if records_per_second is not None and records_per_second <= 0:
            raise ValueError(f"records_per_second must be positive, not {records_per_second!r}.")
        if count is not None and count < 0:
            raise ValueError(f"count must not be negative: {count!r}.")
        self._generator = generator
        self._count = count
        self._rate = records_per_second
        self.bounded = count is not None

    def initial_offset(self) -> Offset:
        return {"next": 0}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        if self._rate is None:
            stop = start["next"] + self._RECORDS_PER_EPOCH if self._count is None else self._count
            return {"next": stop}
        began = start.get("began", now)
        due = int((now - began) * self._rate / 1000)
        stop = max(start["next"], due if self._count is None else min(due, self._count))
        return {"next": stop, "began": began}

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        return {**end, "next": min(end["next"], start["next"] + records)}

    def at_end(self, offset: Offset) -> bool:
        return self._count is not None and bool(offset["next"] >= self._count)

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        return plan_range(start["next"], end["next"], readers, end.get("began"))

    def read(self, split: Split) -> Iterator[Chunk]:
        began = split.range[-1]
        for seq, first, last in chunks_of(split):
            rest = iter(range(first, last))
            try:
                values = list(map(self._generator, rest))
                if len(values) < last - first:
                    raise RuntimeError("the function raised StopIteration")
            except Exception as error:
                index = last - length_hint(rest) - 1
                raise UserCodeError.wrap(error, self._generator, index, "the generator function") from error
            yield Chunk(seq, values, None if began is None else self._due(began, first, last))

    def _due(self, began: int, first: int, last: int) -> list[int]:
        assert self._rate is not None
        return [began + int(index * 1000 / self._rate) for index in range(first, last)]
