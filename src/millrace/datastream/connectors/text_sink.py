"""Lines in files of a directory, exactly once.

    <path>/.staging/part-<subtask>-<unique>     being written, or waiting for its epoch
    <path>/part-<subtask>-<unique>              committed

A name holds no epoch: the id is drawn by each writer, so that two attempts of one task never touch the same file.
What was staged and never committed stays in `.staging`, which readers of the directory skip.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from millrace.common.errors import ProgramError
from millrace.runtime.context import RuntimeContext

from .base import Committer, Sink, SinkWriter

__all__ = ["TextFileSink"]

_STAGING = ".staging"


class TextFileSink(Sink):
    """Writes `render(record)` line by line. Each subtask adds one file for each epoch that has records for it.

    The directory must be one that the driver and all workers see.
    """

    def __init__(self, path: str, render: Callable[[Any], str] = str, encoding: str = "utf-8") -> None:
        if not isinstance(path, str) or not path:
            raise ProgramError(f"a text file sink needs a directory, got {path!r}")
        self._path = str(Path(path.removeprefix("file://")).absolute())
        self._render = render
        self._encoding = encoding

    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        return _TextWriter(
            Path(self._path), runtime_context.get_index_of_this_subtask(), self._render, self._encoding
        )

    def create_committer(self) -> Committer:
        return _TextCommitter(Path(self._path))


class _TextWriter(SinkWriter):
    def __init__(self, directory: Path, subtask: int, render: Callable[[Any], str], encoding: str) -> None:
        self._staging = directory / _STAGING
        self._subtask = subtask
        self._render = render
        self._encoding = encoding
        self._file: TextIO | None = None
        self._name = ""
        self._staged: list[str] = []

    def write(self, value: Any, context: Any) -> None:
        line = self._render(value)
        if self._file is None:
            self._staging.mkdir(parents=True, exist_ok=True)
            self._name = f"part-{self._subtask}-{uuid.uuid4().hex}"
            self._file = (self._staging / self._name).open("w", encoding=self._encoding, newline="\n")
        self._file.write(f"{line}\n")

    def flush(self, end_of_input: bool) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with file:
                file.flush()
                os.fsync(file.fileno())
            self._staged.append(self._name)

    def prepare_commit(self) -> list[Any]:
        staged, self._staged = self._staged, []
        return staged

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            (self._staging / self._name).unlink(missing_ok=True)
            self._file = None


class _TextCommitter(Committer):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def commit(self, committables: list[Any]) -> None:
        """Move the files to where they are seen; one that was moved before is where it belongs."""
        for name in committables:
            staged, final = self._directory / _STAGING / name, self._directory / name
            try:
                staged.replace(final)
            except FileNotFoundError:
                if not final.exists():
                    raise
