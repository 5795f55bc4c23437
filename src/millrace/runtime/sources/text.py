"""Lines of text files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from millrace.common.errors import ProgramError
from millrace.runtime.sources.base import CHUNK_RECORDS, Chunk, Offset, Source, Split


class TextFileSource(Source):
    """The lines of a file, of all files of a directory, or of all files that match a pattern.

    Files are read in the order of their names, each by one reader; a file's lines keep their order.
    """

    def __init__(self, path: str, encoding: str = "utf-8") -> None:
        self._path = path.removeprefix("file://")
        self._encoding = encoding

    def initial_offset(self) -> Offset:
        return {"files": []}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {"files": self._files()}

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        # How many lines a file has is not known before it is read: one file after the other.
        return {"files": end["files"][: len(start["files"]) + 1], "of": len(end["files"])}

    def at_end(self, offset: Offset) -> bool:
        return bool(offset["files"]) and len(offset["files"]) >= offset.get("of", 0)

    def _files(self) -> list[str]:
        path = Path(self._path)
        found = path.iterdir() if path.is_dir() else Path(path.anchor).glob(str(path.relative_to(path.anchor)))
        files = sorted(str(file) for file in found if file.is_file() and not file.name.startswith((".", "_")))
        if not files:
            raise ProgramError(
                f"There is no file at {self._path!r} to read.",
                action="Give the path of a file, a directory with files in it, or a pattern such as /data/*.txt.",
            )
        return files

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        fresh = [file for file in end["files"] if file not in start["files"]]
        shares: list[list[Split]] = [[] for _ in range(readers)]
        for origin, file in enumerate(fresh):
            shares[origin % readers].append(Split(file, origin, file, ends=True))
        return shares

    def read(self, split: Split) -> Iterator[Chunk]:
        with Path(split.range).open(encoding=self._encoding) as lines:
            seq = 0
            while chunk := [line.rstrip("\n") for line in islice(lines, CHUNK_RECORDS)]:
                yield Chunk(seq, chunk)
                seq += 1
