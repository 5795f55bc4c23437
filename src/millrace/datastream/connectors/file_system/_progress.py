"""How far a file source is. An offset does not grow with the number of files that were read.

    a fixed set   {"after": the last file that was read whole, "last": the last one of the set}
                  files are read in the order of their names
    a watched one {"mark": a time, "recent": those that were read and are younger than that}
                  files are read in the order of their times; what is not younger than the mark is never looked at

A file that an epoch stopped in the middle of stands under "open", with the place in it.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from millrace.runtime.sources.base import Offset

from ._storage import FoundFile


class FilePart(NamedTuple):
    """A part of a file, in the units of its format; `end` None for the rest."""

    file: FoundFile
    start: int
    end: int | None


class Progress(ABC):
    """Makes offsets, and tells what lies between two of them."""

    @abstractmethod
    def initial(self) -> Offset:
        """Nothing was read."""

    @abstractmethod
    def unread(self, start: Offset, listing: list[FoundFile]) -> list[FoundFile]:
        """What there is to read after an offset, in order. The file that is open comes first."""

    @abstractmethod
    def after(
        self, start: Offset, read: list[FoundFile], unread: list[FoundFile], listing: list[FoundFile], now: int
    ) -> Offset:
        """The offset after further files were read whole, of all that were unread. `now` is a file time."""

    @abstractmethod
    def was_read(self, end: Offset, file: FoundFile) -> bool:
        """Whether an unread file of an earlier offset was read whole at `end`."""

    def between(self, start: Offset, end: Offset, listing: list[FoundFile]) -> list[FilePart]:
        """The parts of files that an epoch reads, in order."""
        begun, stopped = _open_of(start), _open_of(end)
        parts = []
        for file in self.unread(start, listing):
            first = begun.get(file.path, 0)
            if file.path in stopped:
                parts.append(FilePart(file, first, stopped[file.path]))
            elif self.was_read(end, file):
                parts.append(FilePart(file, first, None))
        return parts

    @staticmethod
    def stopped_in(offset: Offset, path: str, place: int) -> Offset:
        """The offset with a file that is not read to its end."""
        return {**offset, "open": [path, place]}


def _open_of(offset: Offset) -> dict[str, int]:
    opened = offset.get("open")
    return {} if opened is None else {opened[0]: opened[1]}


@dataclass(frozen=True)
class FixedFiles(Progress):
    """The files that there are when the job begins."""

    def initial(self) -> Offset:
        return {"after": ""}

    def unread(self, start: Offset, listing: list[FoundFile]) -> list[FoundFile]:
        last = start.get("last")
        wanted = [file for file in listing if file.path > start["after"] and (last is None or file.path <= last)]
        return sorted(wanted, key=lambda file: file.path)

    def after(
        self, start: Offset, read: list[FoundFile], unread: list[FoundFile], listing: list[FoundFile], now: int
    ) -> Offset:
        last = start.get("last", unread[-1].path if unread else start["after"])
        offset = {"after": read[-1].path if read else start["after"], "last": last}
        return {**offset, "open": start["open"]} if "open" in start and not read else offset

    def was_read(self, end: Offset, file: FoundFile) -> bool:
        return bool(file.path <= end["after"])

    @staticmethod
    def at_end(offset: Offset) -> bool:
        """Whether the set was read."""
        return "last" in offset and bool(offset["after"] >= offset["last"])


@dataclass(frozen=True)
class WatchedFiles(Progress):
    """Files that go on coming.

    Those that were read and are younger than `window` (in nanoseconds, before the newest one) are remembered by name,
    `most` at most: a file that comes later than others which are younger is found as long as it is not older than
    that.
    """

    window: int
    most: int

    def initial(self) -> Offset:
        return {"mark": -1, "recent": []}

    def unread(self, start: Offset, listing: list[FoundFile]) -> list[FoundFile]:
        recent, opened = set(start["recent"]), _open_of(start)
        wanted = [file for file in listing if file.mtime > start["mark"] and name_of(file.path) not in recent]
        return sorted(wanted, key=lambda file: (file.path not in opened, file.mtime, file.path))

    def after(
        self, start: Offset, read: list[FoundFile], unread: list[FoundFile], listing: list[FoundFile], now: int
    ) -> Offset:
        if not read:
            return start
        recent = set(start["recent"])
        known = [file for file in listing if name_of(file.path) in recent] + read
        known.sort(key=lambda file: file.mtime)
        # A file from the future must not make the present old.
        newest = min(known[-1].mtime, now)
        mark = max(start["mark"], newest - self.window - 1)
        if len(known) > self.most:
            mark = max(mark, known[-self.most - 1].mtime)
        read_paths = {file.path for file in read}
        left = [file.mtime for file in unread if file.path not in read_paths]
        mark = min([mark, *(mtime - 1 for mtime in left)])
        return {"mark": mark, "recent": sorted(name_of(file.path) for file in known if file.mtime > mark)}

    def was_read(self, end: Offset, file: FoundFile) -> bool:
        return file.mtime <= end["mark"] or name_of(file.path) in set(end["recent"])


def name_of(path: str) -> str:
    """A short name of a file: two files of a million have the same once in ten billion directories."""
    return base64.b85encode(hashlib.sha256(path.encode()).digest()[:10]).decode()
