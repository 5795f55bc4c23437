"""Where the files of a job live: a local directory, or anything that `pyarrow.fs` reaches.

Paths are relative to the job's directory. A file appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from uuid import uuid4

from millrace.state.errors import StateCorruptedError, StateError

_TEMPORARY = ".tmp"


class JobFiles(Protocol):
    """The few things that state needs of a file system."""

    def read(self, path: str) -> bytes:
        """The bytes of a file; `StateCorruptedError` where it is missing."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file so that readers see all of it or none."""

    def list(self, directory: str) -> list[str]:
        """All files below a directory, sorted; none where it does not exist. Temporary ones are included."""

    def delete(self, path: str) -> None:
        """Remove a file; nothing where it does not exist."""


Intercept = Callable[[JobFiles], JobFiles]

_intercept: Intercept | None = None


@contextlib.contextmanager
def intercept_files(intercept: Intercept) -> Iterator[None]:
    """Inside the block, whatever this process opens goes through `intercept`: for faults on purpose."""
    global _intercept
    before, _intercept = _intercept, intercept
    try:
        yield
    finally:
        _intercept = before


def open_files(location: str | os.PathLike[str], *, sync: bool = False) -> JobFiles:
    """The files below a path or URI.

    `sync` makes each local write durable (fsync) before it counts: against a loss of power, not of a process.
    """
    files = _open_files(location, sync)
    return files if _intercept is None else _intercept(files)


def _open_files(location: str | os.PathLike[str], sync: bool) -> JobFiles:
    text = os.fspath(location)
    local = local_path(text)
    if local is not None:
        return LocalFiles(local, sync=sync)
    from pyarrow.fs import FileSystem

    filesystem, root = FileSystem.from_uri(text)
    return ArrowFiles(filesystem, root)


def local_path(location: str) -> Path | None:
    """Where a path or URI lies in the file system of this machine; None for one that lies elsewhere.

    >>> local_path("file:///data/job"), local_path("s3://bucket/job")
    (PosixPath('/data/job'), None)
    """
    if location.startswith("file://"):
        return Path(location.removeprefix("file://"))
    return None if "://" in location else Path(location)


def checked(path: str) -> str:
    """The path, if it stays within the job's directory: a name from a file must not lead elsewhere.

    >>> checked("state/v1/0/7-a.delta")
    'state/v1/0/7-a.delta'
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/") or "\\" in path or "\0" in path or ":" in parts[0]:
        raise StateError(
            f"the path {path!r} leads out of the job's directory",
            action="Do not use this checkpoint: it was forged.",
        )
    return path


class LocalFiles:
    """A directory of this machine, or one that is mounted here."""

    def __init__(self, root: Path, *, sync: bool = False) -> None:
        self.root = root
        self._sync = sync

    def read(self, path: str) -> bytes:
        try:
            return (self.root / checked(path)).read_bytes()
        except FileNotFoundError as error:
            raise StateCorruptedError("the file is missing", path=path) from error

    def write(self, path: str, data: bytes) -> None:
        target = self.root / checked(path)
        temporary = target.with_name(f"{target.name}.{uuid4().hex}{_TEMPORARY}")
        try:
            file = temporary.open("wb")
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = temporary.open("wb")
        try:
            with file:
                file.write(data)
                if self._sync:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if self._sync:
            _sync_directory(target.parent)

    def list(self, directory: str) -> list[str]:
        top = self.root / checked(directory)
        return sorted(
            (Path(folder) / name).relative_to(self.root).as_posix()
            for folder, _, names in os.walk(top)
            for name in names
        )

    def delete(self, path: str) -> None:
        (self.root / checked(path)).unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ArrowFiles:
    """A `pyarrow.fs` file system: HDFS, S3, GCS, ... Object stores show a file once it is closed."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def _full(self, path: str) -> str:
        return f"{self._root}/{checked(path)}"

    def read(self, path: str) -> bytes:
        try:
            with self._filesystem.open_input_stream(self._full(path), compression=None) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError as error:
            raise StateCorruptedError("the file is missing", path=path) from error

    def write(self, path: str, data: bytes) -> None:
        target = self._full(path)
        temporary = f"{target}.{uuid4().hex}{_TEMPORARY}"
        self._filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        try:
            with self._filesystem.open_output_stream(temporary, compression=None) as stream:
                stream.write(data)
            self._filesystem.move(temporary, target)
        except BaseException:
            self._quietly_delete(temporary)
            raise

    def list(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._full(directory), allow_not_found=True, recursive=True)
        infos = self._filesystem.get_file_info(selector)
        start = len(self._root) + 1
        return sorted(info.path[start:] for info in infos if info.type == FileType.File)

    def delete(self, path: str) -> None:
        self._quietly_delete(self._full(path))

    def _quietly_delete(self, full_path: str) -> None:
        from pyarrow.fs import FileType

        if self._filesystem.get_file_info(full_path).type == FileType.File:
            self._filesystem.delete_file(full_path)
