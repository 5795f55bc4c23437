"""File systems as sinks and sources need them: local directories, and whatever `pyarrow.fs` reaches."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class FoundFile(NamedTuple):
    """A file, its length in bytes, and when it was last changed (in nanoseconds since 1970)."""

    path: str
    size: int
    mtime: int


class Storage(Protocol):
    """What is needed of a file system. Paths are full, with slashes."""

    def create(self, path: str) -> Any:
        """A stream into a new file; its directories are made."""

    def finish(self, stream: Any) -> None:
        """Close a stream; what was written is safe."""

    def open(self, path: str) -> Any:
        """A stream out of a file, with `read`, `seek` and `size`."""

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, at once; directories are made. `FileNotFoundError` where there is none."""

    def delete(self, path: str) -> None:
        """Remove a file; nothing where there is none."""

    def info(self, path: str) -> FoundFile | None:
        """What there is of a file."""

    def is_directory(self, path: str) -> bool:
        """Whether there is such a directory."""

    def files(self, directory: str, recursive: bool) -> list[FoundFile]:
        """The files of a directory, in no order; none where there is no directory."""

    def remove_if_empty(self, directory: str) -> None:
        """Remove a directory that nothing is in."""


Intercept = Callable[[Storage], Storage]

_intercept: Intercept | None = None


@contextlib.contextmanager
def intercept_storage(intercept: Intercept) -> Iterator[None]:
    """Inside the block, every file system goes through `intercept`: for faults on purpose."""
    global _intercept
    before, _intercept = _intercept, intercept
    try:
        yield
    finally:
        _intercept = before


def storage_of(location: str) -> tuple[Storage, str]:
    """The file system of a path or URI, and the path in it.

    >>> storage_of("file:///data/in")[1]
    '/data/in'
    """
    storage, path = _storage_of(location)
    return (storage if _intercept is None else _intercept(storage)), path


def _storage_of(location: str) -> tuple[Storage, str]:
    if "://" not in location or location.startswith("file://"):
        return LocalStorage(), absolute(location).removeprefix("file://")
    from pyarrow.fs import FileSystem

    filesystem, path = FileSystem.from_uri(location)
    return ArrowStorage(filesystem), path.rstrip("/")


def absolute(location: str) -> str:
    """A location as every process finds it."""
    if "://" in location and not location.startswith("file://"):
        return location
    return Path(location.removeprefix("file://")).absolute().as_posix()


def without_credentials(location: str) -> str:
    """A location as it may stand in a message.

    >>> without_credentials("s3://key:secret@bucket/data?endpoint_override=x")
    's3://bucket/data'
    """
    return re.sub(r"://[^/@]*@", "://", location).partition("?")[0] if "://" in location else location


class LocalStorage:
    """This machine, and what is mounted here."""

    def create(self, path: str) -> Any:
        try:
            return Path(path).open("xb")
        except FileNotFoundError:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return Path(path).open("xb")

    def finish(self, stream: Any) -> None:
        with stream:
            stream.flush()
            os.fsync(stream.fileno())

    def open(self, path: str) -> Any:
        from pyarrow import OSFile

        return OSFile(path)

    def rename(self, source: str, target: str) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(source).replace(target)

    def delete(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def info(self, path: str) -> FoundFile | None:
        try:
            found = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FoundFile(path, found.st_size, found.st_mtime_ns) if Path(path).is_file() else None

    def is_directory(self, path: str) -> bool:
        return Path(path).is_dir()

    def files(self, directory: str, recursive: bool) -> list[FoundFile]:
        found: list[FoundFile] = []
        for folder, folders, names in os.walk(directory):
            found += [info for name in names if (info := self.info(f"{folder}/{name}")) is not None]
            if not recursive:
                folders.clear()
        return found

    def remove_if_empty(self, directory: str) -> None:
        with contextlib.suppress(OSError):
            Path(directory).rmdir()


class ArrowStorage:
    """A `pyarrow.fs` file system. Object stores have no rename: it is a copy, which appears whole, and a deletion."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def create(self, path: str) -> Any:
        self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        return self._filesystem.open_output_stream(path, compression=None)

    def finish(self, stream: Any) -> None:
        stream.close()

    def open(self, path: str) -> Any:
        return self._filesystem.open_input_file(path)

    def rename(self, source: str, target: str) -> None:
        if self.info(source) is None:
            raise FileNotFoundError(source)
        self._filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        self._filesystem.move(source, target)

    def delete(self, path: str) -> None:
        if self.info(path) is not None:
            self._filesystem.delete_file(path)

    def info(self, path: str) -> FoundFile | None:
        from pyarrow.fs import FileType

        info = self._filesystem.get_file_info(path)
        return _found(info) if info.type == FileType.File else None

    def is_directory(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._filesystem.get_file_info(path).type == FileType.Directory)

    def files(self, directory: str, recursive: bool) -> list[FoundFile]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(directory, allow_not_found=True, recursive=recursive)
        return [_found(info) for info in self._filesystem.get_file_info(selector) if info.type == FileType.File]

    def remove_if_empty(self, directory: str) -> None:
        if self.is_directory(directory) and not self.files(directory, recursive=True):
            self._filesystem.delete_dir(directory)


def _found(info: Any) -> FoundFile:
    return FoundFile(info.path, info.size, info.mtime_ns or 0)
