"""What the processes of a job hold while it runs: memory, open files, files on disk."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_MIB = 1024 * 1024
_SECONDS = 0.5


@dataclass(frozen=True)
class Usage:
    """Resident memory in MiB: of the largest Python worker, the driver and the JVM; and what is open and on disk."""

    worker: float
    driver: float
    jvm: float
    descriptors: int
    files: int


def usage(directory: Path) -> Usage:
    """What this process and all below it hold now."""
    me = psutil.Process()
    workers, jvm, descriptors = 0.0, 0.0, me.num_fds()
    for process in me.children(recursive=True):
        try:
            memory = process.memory_info().rss / _MIB
            descriptors += process.num_fds()
            if "python" in process.name():
                workers = max(workers, memory)
            elif "java" in process.name():
                jvm = max(jvm, memory)
        except psutil.NoSuchProcess:
            continue
    files = sum(1 for path in directory.rglob("*") if path.is_file())
    return Usage(workers, me.memory_info().rss / _MIB, jvm, descriptors, files)


class Watch:
    """Measures while a block runs; `peak` is the most of each that was seen."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = usage(directory)

    def _run(self) -> None:
        while not self._done.wait(_SECONDS):
            now, peak = usage(self._directory), self.peak
            self.peak = Usage(*map(max, vars(now).values(), vars(peak).values()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
