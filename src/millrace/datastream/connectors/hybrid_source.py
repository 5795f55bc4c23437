"""Sources in a row: what has been, and then what comes."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.common.errors import ProgramError
from millrace.runtime.sources.base import Chunk, Offset, Source, Split

__all__ = ["HybridSource", "HybridSourceBuilder"]


class HybridSource(Source):
    """Reads sources one after the other: each to its end before the next begins. All but the last must end.

    >>> from millrace.datastream.connectors import NumberSequenceSource
    >>> source = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(NumberSequenceSource(7, 8)).build()
    >>> end = source.latest_offset(source.initial_offset(), now=0)
    >>> source.latest_offset(end, now=0)["at"]
    1

    An epoch reads one of them, except in BATCH mode. The first source that has nothing to read is waited for.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self.bounded = sources[-1].bounded
        limits = [source.max_parallelism for source in sources if source.max_parallelism is not None]
        self.max_parallelism = min(limits, default=None)

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Begin with a source that ends."""
        return HybridSourceBuilder().add_source(first_source)

    # `at` is the source that is being read, `offset` its offset, `ended` where the ones before it have ended.

    def initial_offset(self) -> Offset:
        return {"at": 0, "offset": self._sources[0].initial_offset(), "ended": []}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        at, offset, ended = start["at"], start["offset"], list(start["ended"])
        latest = self._sources[at].latest_offset(offset, now)
        while at < len(self._sources) - 1 and latest == offset and self._sources[at].at_end(latest):
            ended.append(latest)
            at += 1
            offset = self._sources[at].initial_offset()
            latest = self._sources[at].latest_offset(offset, now)
        return {"at": at, "offset": latest, "ended": ended}

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        source = self._sources[end["at"]]
        offset = start["offset"] if start["at"] == end["at"] else source.initial_offset()
        return {**end, "offset": source.at_most(offset, end["offset"], records)}

    def at_end(self, offset: Offset) -> bool:
        last = len(self._sources) - 1
        return bool(offset["at"] == last and self._sources[last].at_end(offset["offset"]))

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        shares: list[list[Split]] = [[] for _ in range(readers)]
        origins = 0
        for at in range(start["at"], end["at"] + 1):
            source = self._sources[at]
            begins = start["offset"] if at == start["at"] else source.initial_offset()
            ends = end["offset"] if at == end["at"] else end["ended"][at]
            if begins == ends and at < end["at"]:
                continue
            over = source.bounded and source.at_end(ends)
            planned = source.plan(begins, ends, readers)
            for share, splits in zip(shares, planned, strict=True):
                share += [self._tagged(at, split, origins, over) for split in splits]
            origins += 1 + max((split.origin for splits in planned for split in splits), default=0)
        return shares

    @staticmethod
    def _tagged(at: int, split: Split, origins: int, over: bool) -> Split:
        """A split of one of the sources. When that has ended, it holds event time back no longer."""
        return Split(f"{at}:{split.id}", origins + split.origin, (at, split), ends=split.ends or over)

    def read(self, split: Split) -> Iterator[Chunk]:
        at, inner = split.range
        yield from self._sources[at].read(inner)


class HybridSourceBuilder:
    """See `HybridSource`."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """The source that follows. Where it begins is what it was told itself."""
        if not isinstance(source, Source):
            raise ProgramError(f"A hybrid source is made of sources, not of {source!r}.")
        if self._sources and not self._sources[-1].bounded:
            raise ProgramError(
                "A hybrid source has a source behind one that never ends.",
                action="Put the unbounded source last.",
            )
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        """The source."""
        return HybridSource(list(self._sources))
