"""Crashes of a whole process, at every step of the checkpoint protocol in turn.

    with Crashes() as steps:                     # nothing happens; count the steps of an undisturbed run
        run_job()
    for number in range(1, steps.taken + 1):
        with Crashes(at=number) as crash:        # the process dies at this step ...
            run_job()                            # raises Crash
        run_job()                                # ... and is started again

A step is what others can see: a file of the job that is written (and, before that, half of it) or deleted, one of a
file sink that is begun, finished, renamed or deleted, a commit of another sink that a test announces by `step`. From
the crash on the dead process changes nothing any more, whatever its threads still do.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from millrace.datastream.connectors.file_system._storage import FoundFile, Storage, intercept_storage
from millrace.state.files import JobFiles, intercept_files


class Crash(BaseException):
    """The process has died. Nothing that handles errors catches it."""


class Crashes:
    """Counts the steps of what runs inside the block, and lets the process die at one of them.

    With `full_for`, the disk is full for so many steps from that one on: writing fails, and the process lives.

    >>> from millrace.testing.memory_files import MemoryFiles
    >>> with Crashes(at=2) as crashes:
    ...     files = crashes.watched(MemoryFiles())
    ...     try:
    ...         files.write("state/a", b"1234")
    ...     except Crash:
    ...         print(files.list("state"), crashes.last)
    ['state/a.torn.tmp'] half of state/a
    """

    def __init__(self, at: int | None = None, full_for: int | None = None) -> None:
        self._at = at
        self._full_for = full_for
        self.taken = 0
        self.last = ""
        self.dead = False
        self._lock = threading.Lock()
        self._interception = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._interception.enter_context(intercept_files(self.watched))
        self._interception.enter_context(intercept_storage(lambda storage: _WatchedStorage(storage, self)))
        self._interception.enter_context(_deaths_unreported())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interception.close()

    def watched(self, files: JobFiles) -> JobFiles:
        """Files whose changes are steps."""
        return _WatchedFiles(files, self)

    def step(self, what: str) -> None:
        """Something is about to change that others can see."""
        with self._lock:
            if self.dead:
                raise Crash(f"the process died at {self.last}")
            self.taken += 1
            if self._at is None or not self._at <= self.taken < self._at + (self._full_for or 1):
                return
            self.last = what
            self.dead = self._full_for is None
        if self.dead:
            raise Crash(f"step {self.taken}: {what}")
        raise OSError(errno.ENOSPC, "No space left on device", what)


@contextlib.contextmanager
def _deaths_unreported() -> Iterator[None]:
    """A thread of the dead process ends without a word."""
    before = threading.excepthook

    def report(arguments: threading.ExceptHookArgs) -> None:
        if not isinstance(arguments.exc_value, Crash):
            before(arguments)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = before


class _WatchedFiles:
    """See `Crashes.watched`."""

    def __init__(self, files: JobFiles, crashes: Crashes) -> None:
        self._files = files
        self._crashes = crashes

    def read(self, path: str) -> bytes:
        return self._files.read(path)

    def write(self, path: str, data: bytes) -> None:
        self._crashes.step(f"writing {path}")
        try:
            self._crashes.step(f"half of {path}")
        except Crash:
            self._files.write(f"{path}.torn.tmp", data[: len(data) // 2])
            raise
        self._files.write(path, data)
        self._crashes.step(f"{path} is written")

    def list(self, directory: str) -> list[str]:
        return self._files.list(directory)

    def delete(self, path: str) -> None:
        self._crashes.step(f"deleting {path}")
        self._files.delete(path)


class _WatchedStorage:
    """What a file sink writes; each change is a step before it is made, and one after it."""

    def __init__(self, storage: Storage, crashes: Crashes) -> None:
        self._storage = storage
        self._crashes = crashes

    def create(self, path: str) -> Any:
        self._crashes.step(f"creating {path}")
        return self._storage.create(path)

    def finish(self, stream: Any) -> None:
        self._crashes.step("finishing a staged file")
        self._storage.finish(stream)
        self._crashes.step("a staged file is finished")

    def open(self, path: str) -> Any:
        return self._storage.open(path)

    def rename(self, source: str, target: str) -> None:
        self._crashes.step(f"renaming {source}")
        self._storage.rename(source, target)
        self._crashes.step(f"{source} is renamed to {target}")

    def delete(self, path: str) -> None:
        self._crashes.step(f"deleting {path}")
        self._storage.delete(path)
        self._crashes.step(f"{path} is deleted")

    def info(self, path: str) -> FoundFile | None:
        return self._storage.info(path)

    def is_directory(self, path: str) -> bool:
        return self._storage.is_directory(path)

    def files(self, directory: str, recursive: bool) -> list[FoundFile]:
        return self._storage.files(directory, recursive)

    def remove_if_empty(self, directory: str) -> None:
        self._crashes.step(f"removing {directory}")
        self._storage.remove_if_empty(directory)
