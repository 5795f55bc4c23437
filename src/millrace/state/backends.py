"""Where keyed state is kept while the job runs: in memory, or in RocksDB on the worker's disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """A state backend and its limits, which hold per subtask.

    `hashmap` keeps everything in memory. `rocksdb` keeps keyed value, list, map, reducing and aggregating state in
    a database below `directory`, which belongs to one job alone and to one machine; timers, operator state and
    broadcast state stay in memory. The database is a cache: losing it costs a rebuild from the checkpoint.

    >>> BackendSpec().kind, BackendSpec("rocksdb", "/tmp/job-7").block_cache
    ('hashmap', 67108864)
    """

    kind: Literal["hashmap", "rocksdb"] = "hashmap"
    directory: str = ""
    block_cache: int = 64 << 20
    """Bytes of the database that are kept in memory, its indexes included."""
    write_buffer: int = 16 << 20
    """Bytes of new entries in memory before they go to a file; twice as many while one is being written."""
    lock_timeout: float = 5.0
    """Seconds to wait for another process that still has the database open. After them a private one is built."""

    def __post_init__(self) -> None:
        if self.kind not in ("hashmap", "rocksdb"):
            raise ValueError(f"a state backend is 'hashmap' or 'rocksdb', not {self.kind!r}")
        if self.kind == "rocksdb" and not self.directory:
            raise ValueError("the rocksdb backend needs a directory")
