"""Helpers for tests that run whole jobs on Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from millrace.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from millrace.datastream.connectors.base import Chunk, Offset, Source, Split


def environment(parallelism: int = 2, *, batch: bool = False, spark: Any = None) -> StreamExecutionEnvironment:
    """An environment on the embedded session, or on the one that is given."""
    env = StreamExecutionEnvironment.get_execution_environment(spark=spark)
    mode = RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING
    return env.set_parallelism(parallelism).set_runtime_mode(mode)


def collected(stream: DataStream) -> list[Any]:
    """What the program gives on this stream."""
    return list(stream.execute_and_collect())


class Steps(Source):
    """The integers below `epochs * size`, `size` of them in each epoch, dealt out to the readers by turns."""

    def __init__(self, epochs: int, size: int = 10) -> None:
        self._epochs = epochs
        self._size = size

    def initial_offset(self) -> Offset:
        return {"epoch": 0}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {"epoch": min(start["epoch"] + 1, self._epochs)}

    def at_end(self, offset: Offset) -> bool:
        return bool(offset["epoch"] >= self._epochs)

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        return [
            [Split(str(reader), reader, (start["epoch"] * self._size, end["epoch"] * self._size, readers))]
            for reader in range(readers)
        ]

    def read(self, split: Split) -> Iterator[Chunk]:
        start, stop, readers = split.range
        for seq, number in enumerate(range(start + split.origin, stop, readers)):
            yield Chunk(seq, [number])


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


_DAEMONS = (["-m", "millrace.spark.daemon"], ["-m", "pyspark.daemon"])


def worker_processes(root: psutil.Process | None = None) -> list[psutil.Process]:
    """The Python workers below a process (by default this one), without the daemons that make them."""
    found = []
    for process in (root or psutil.Process()).children(recursive=True):
        try:
            parent = process.parent()
            if parent is not None and parent.cmdline()[1:3] in _DAEMONS:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def assert_nothing_is_left(directory: Path) -> None:
    """No thread of ours, no Python worker, no file."""
    eventually(lambda: not [thread for thread in threading.enumerate() if "millrace" in thread.name], 2)
    eventually(lambda: not worker_processes(), 3)
    assert list(directory.iterdir()) == []


def notes_in(path: Path) -> list[str]:
    """The lines that functions have written with `note`."""
    return path.read_text().splitlines() if path.exists() else []


def note(path: str | Path, what: str) -> None:
    """Write a line, from a worker."""
    with Path(path).open("a") as file:
        file.write(f"{what}\n")
