"""The file source and its builder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from millrace.common.errors import ConfigurationError, ProgramError
from millrace.common.time import Duration
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.sources.base import Chunk, Offset, Source, Split

from ._formats import BulkFormat, Extent, FileFormat, InputFile, StreamFormat, require_format
from ._listing import FileEnumerator, FilePaths
from ._progress import FilePart, FixedFiles, Progress, WatchedFiles
from ._storage import FoundFile, without_credentials

__all__ = ["FileSource", "FileSourceBuilder"]

# A part for one reader: not so small that opening the file counts, not so large that others wait for it.
_LEAST_PART, _MOST_PART = 1 << 20, 64 << 20

# Files that one epoch reads at most. All that a reader has are open at once, for their records are merged.
_FILES_PER_EPOCH = 500

_MILLI = 1_000_000
_DEFAULT_WINDOW = Duration.of_hours(1)
_DEFAULT_MOST = 5_000


class FileSource(Source):
    """Reads files: those that there are, or whatever comes into directories.

    >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build()
    >>> source.bounded, source.initial_offset()
    (True, {'after': ''})

    A file must be whole when it appears, by a rename say, and stay as it is. Names that begin with a dot or `_` are
    skipped. Files are read in the order of their names; watched ones in that of their modification times.
    """

    def __init__(self, file_format: FileFormat, paths: FilePaths, progress: Progress, interval: float = 0.0) -> None:
        self._format = file_format
        self._paths = paths
        self._progress = progress
        self._interval = interval
        self.bounded = isinstance(progress, FixedFiles)
        self._listed: tuple[float, list[FoundFile]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_listed": None}

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Read lines, CSV and the like: files, all below directories, or what matches a pattern."""
        return FileSourceBuilder(require_format(stream_format, "StreamFormat"), paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Read Parquet, ORC or Avro."""
        return FileSourceBuilder(require_format(bulk_format, "BulkFormat"), paths)

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the records, if the format knows it."""
        return self._format.get_produced_type()

    # --- how far ------------------------------------------------------------------------------------------------

    def initial_offset(self) -> Offset:
        return self._progress.initial()

    def latest_offset(self, start: Offset, now: int) -> Offset:
        listing = self._recent_listing()
        unread = self._progress.unread(start, listing)
        if not unread and self.bounded and "last" not in start:
            raise self._nothing_there()
        return self._progress.after(start, unread[:_FILES_PER_EPOCH], unread, listing, now * _MILLI)

    def _recent_listing(self) -> list[FoundFile]:
        """The files, looked for no more often than was asked for."""
        clock = time.monotonic()
        if self._listed is None or clock - self._listed[0] >= self._interval:
            self._listed = clock, self._paths.list()
        return self._listed[1]

    def _nothing_there(self) -> ProgramError:
        where = ", ".join(map(without_credentials, self._paths.locations))
        return ProgramError(
            f"There is no file at {where!r} to read.",
            action="Give the path of a file, a directory with files in it, or a pattern such as /data/*.txt; "
            "or wait for files with monitor_continuously(...).",
        )

    def at_end(self, offset: Offset) -> bool:
        return self.bounded and FixedFiles.at_end(offset)

    def at_most(self, start: Offset, end: Offset, records: int) -> Offset:
        listing = self._paths.list()
        start = {**start, "last": end["last"]} if "last" in end else start
        unread, latest = self._progress.unread(start, listing), self._latest_time(end)
        whole: list[FoundFile] = []
        for part in self._progress.between(start, end, listing):
            place, share = self._stop(part, records)
            if place is not None:
                before = self._progress.after(start, whole, unread, listing, latest)
                return self._progress.stopped_in(before, part.file.path, place)
            if part.end is not None:
                break
            whole.append(part.file)
            records -= share
            if records <= 0:
                return self._progress.after(start, whole, unread, listing, latest)
        return end

    def _stop(self, part: FilePart, records: int) -> tuple[int | None, int]:
        """Where to stop in a part so that it has about so many records, None for its end; and how many it has."""
        extent = self._extent(part.file)
        stop = extent.units if part.end is None else part.end
        share = extent.records * (stop - part.start) // max(1, extent.units)
        if share <= records:
            return None, share
        place = part.start + max(1, (stop - part.start) * records // share)
        return (place if place < stop else None), share

    def _extent(self, file: FoundFile) -> Extent:
        extent = self._format.extent(self._input(file))
        return extent if self._paths.enumerator.splittable else Extent(1, extent.records)

    def _latest_time(self, end: Offset) -> int:
        """A time that is not behind the one that `end` was made at."""
        return int(end["mark"]) + self._progress.window + 1 if isinstance(self._progress, WatchedFiles) else 0

    # --- reading ------------------------------------------------------------------------------------------------

    def _input(self, file: FoundFile) -> InputFile:
        return InputFile(self._paths.storage, file.path, file.size)

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        parts = self._progress.between(start, end, self._paths.list())
        total = sum(part.file.size for part in parts)
        size = min(max(_LEAST_PART, total // readers), _MOST_PART)
        pieces = [piece for part in parts for piece in self._cut(part, size)]
        shares: list[list[Split]] = [[] for _ in range(readers)]
        packed = -(-len(pieces) // (readers * _FILES_PER_EPOCH)) or 1
        for origin, first in enumerate(range(0, len(pieces), packed)):
            group = pieces[first : first + packed]
            path, begins, *_ = group[0]
            shares[origin % readers].append(Split(f"{path}#{begins}", origin, group, ends=True))
        return shares

    def _cut(self, part: FilePart, size: int) -> Iterator[tuple[str, int, int, int]]:
        """A part in pieces of about so many bytes: path, first unit, end, length of the file."""
        file = part.file
        if part.end is None and (file.size <= size or not self._paths.enumerator.splittable):
            # As many units as there can be at most: that saves a look into the file.
            yield file.path, part.start, max(1, file.size), file.size
            return
        extent = self._extent(file)
        stop = extent.units if part.end is None else part.end
        step = max(1, size * extent.units // max(1, file.size))
        for first in range(part.start, stop, step):
            yield file.path, first, min(first + step, stop), file.size

    def read(self, split: Split) -> Iterator[Chunk]:
        storage = self._paths.storage
        seq = 0
        for path, start, end, size in split.range:
            try:
                for records in self._format.read(InputFile(storage, path, size), start, end):
                    yield Chunk(seq, records)
                    seq += 1
            except FileNotFoundError as error:
                raise ProgramError(
                    f"The file {path} is gone before it was read.",
                    action="Move and delete files only after the checkpoint that follows their reading.",
                ) from error


class FileSourceBuilder:
    """See `FileSource`."""

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...]) -> None:
        self._format = file_format
        self._paths = paths
        self._enumerator = FileEnumerator()
        self._interval: float | None = None
        self._window = _DEFAULT_WINDOW
        self._most = _DEFAULT_MOST
        FilePaths(paths, self._enumerator)

    def monitor_continuously(self, discovery_interval: Duration | timedelta) -> FileSourceBuilder:
        """Go on looking for new files, no more often than in this interval. The source never ends."""
        interval = _nanos(discovery_interval) / 1e9
        if interval <= 0:
            raise ConfigurationError(f"the interval must be positive, not {discovery_interval!r}")
        self._interval = interval
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that there are when the job begins, and end. This is the default."""
        self._interval = None
        return self

    def remember_files(self, window: Duration | timedelta, most: int = _DEFAULT_MOST) -> FileSourceBuilder:
        """While monitoring: how much older than the newest file a file may be that comes after it (one hour), and how
        many files are remembered for that. Both make checkpoints larger. A file that comes later is not read."""
        self._window, self._most = Duration(_nanos(window)), most
        if most < 1 or _nanos(window) < 0:
            raise ConfigurationError("the window must not be negative, and one file at least must be remembered")
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumerator) -> FileSourceBuilder:
        """How files are looked for; see `FileEnumeratorProvider`."""
        self._enumerator = file_enumerator
        return self

    def set_split_assigner(self, split_assigner: Any) -> FileSourceBuilder:
        """Taken for the sake of programs that set it."""
        return self

    def build(self) -> FileSource:
        """The source."""
        paths = FilePaths(self._paths, self._enumerator)
        if self._interval is None:
            return FileSource(self._format, paths, FixedFiles())
        return FileSource(self._format, paths, WatchedFiles(_nanos(self._window), self._most), self._interval)


def _nanos(duration: Duration | timedelta) -> int:
    if isinstance(duration, timedelta):
        return int(duration.total_seconds() * 1_000_000_000)
    if not isinstance(duration, Duration):
        raise ConfigurationError(f"a duration is needed, not {duration!r}", action="Use Duration.of_seconds(...).")
    return duration.nanos
