"""The local database of one subtask: who may open it, at which version it is, and which tables it holds.

    <directory>/lock          held by the process that has the database open
    <directory>/db/           the database
    <directory>/private-*/    databases of processes that could not get the lock in time

Rows whose key begins with four zero bytes are the store's own. There is no write-ahead log: what was not flushed is
lost with the process, and then the version is the one before, because a version is written with its rows.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    UniversalCompactOptions,
    WriteBatch,
    WriteOptions,
)

from millrace.state.backends import BackendSpec
from millrace.state.delta import Version

_OWN = bytes(4)
_VERSION = _OWN + b"version"
_TABLE = _OWN + b"table:"

# The first read of a scan is small, because most end soon; later ones are as large as pays.
_FIRST_CHUNK, _NEXT_CHUNK = 32, 1024

# Rows of one batch: past this many, more at a time is not faster, and takes memory.
_BATCH = 20_000

# Sorted runs of files before some are merged, and by how many percent a run may be larger than all newer ones to be
# merged with them. So each run is five times as large as the one before, and a database of gigabytes has fewer than
# these. With fewer allowed, each epoch would merge its few rows into a run of megabytes; with more, a read would ask
# more bloom filters, at half a microsecond each.
_RUNS = 12
_SIZE_RATIO = 400

# Files of the checkpoint; small enough to be read whole, large enough to be few.
_FILE_SIZE = 32 << 20

# Merge all when entries that were replaced or removed take half as much room as the live ones: the limit to how
# large a checkpoint of these files can be.
_WASTE_PERCENT = 50

_POLL_SECONDS = 0.001


class StoredTable(msgspec.Struct):
    """What the database knows of a state: its number in the keys of rows, and how its rows are made."""

    number: int
    address: tuple[str, str, str]
    meta: dict[str, Any]
    types: dict[str, dict[str, Any] | None]


class _Head(msgspec.Struct, array_like=True):
    version: tuple[int, str]
    next_number: int


class LocalStore:
    """The database, open or not. `acquire` and `release` are cheap (4 ms): once per epoch."""

    def __init__(self, directory: Path, spec: BackendSpec) -> None:
        self.version: Version | None = None  # None: not to be used, a write was cut short
        self.tables: dict[tuple[str, str, str], StoredTable] = {}
        self.next_number = 1
        self._home = directory
        self._name = "db"
        self._spec = spec
        self._options = _options(spec)
        self._quick = WriteOptions()
        # A property, which the package's stubs take for a method.
        self._quick.disable_wal = True  # type: ignore[method-assign, assignment]
        self._lock: int | None = None
        self._db: Any = None

    @property
    def directory(self) -> Path:
        """Where the database's files are."""
        return self._home / self._name

    @property
    def is_open(self) -> bool:
        return self._db is not None

    # -- opening and closing -----------------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Open the database, alone. Where another process does not let go of it, a private, empty one."""
        self._home.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._lock = _lock(self._home / f"{self._name}.lock", self._spec.lock_timeout)
        if self._lock is None:
            self._name = f"private-{uuid4().hex}"
            self._lock = _lock(self._home / f"{self._name}.lock", self._spec.lock_timeout)
        try:
            self._db = Rdict(str(self.directory), self._options)
            self._read_own_rows()
        except Exception:
            # A cache that cannot be read is no cache.
            self.wipe()

    def _read_own_rows(self) -> None:
        self.tables = {}
        for _, data in self.scan(_TABLE):
            table = msgspec.msgpack.decode(data, type=StoredTable)
            self.tables[table.address] = table
        data = self._db.get(_VERSION)
        head = None if data is None else msgspec.msgpack.decode(data, type=_Head)
        self.version = None if head is None else Version(*head.version)
        self.next_number = 1 if head is None else head.next_number

    def drop_waste(self) -> None:
        """Merge all where entries that were replaced take too much room: a checkpoint will keep these files."""
        files = self._db.live_files()
        depth = max((file["level"] for file in files), default=0)
        bottom = [file["size"] for file in files if file["level"] == depth]
        settled = sum(bottom) if depth else max(bottom, default=0)
        if sum(file["size"] for file in files) > settled * (100 + _WASTE_PERCENT) // 100:
            self._db.compact_range(None, None)

    def close(self) -> None:
        """Close the database, with all that was written in its files, but keep other processes away from them."""
        if self._db is not None:
            self._db.flush()
            self._finish_compactions()
            self._db.close()
            self._db = None

    def _finish_compactions(self) -> None:
        # Closing would throw half a compaction away, and with short epochs none would ever end. One that is due may
        # not have begun yet; but some that are due never begin, because there is nothing that it pays to merge.
        if self._db.property_int_value("rocksdb.compaction-pending"):
            time.sleep(_POLL_SECONDS)
        while self._db.property_int_value("rocksdb.num-running-compactions"):
            time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        """Close the database and let other processes have it."""
        self.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def wipe(self) -> None:
        """Begin with an empty database, which is at no version."""
        self.take_over(None)

    def take_over(self, source: Path | None) -> None:
        """Replace the database by the one in another directory, which is moved; by an empty one without."""
        if self._db is not None:
            self._db.close()
            self._db = None
        shutil.rmtree(self.directory, ignore_errors=True)
        if source is not None:
            source.rename(self.directory)
        self._db = Rdict(str(self.directory), self._options)
        self._read_own_rows()

    # -- reading and writing -----------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The row under a key."""
        found: bytes | None = self._db.get(key)
        return found

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The rows under keys with a prefix, in order. No iterator of the database outlives a step: it would keep
        the database open."""
        cursor, size = start or prefix, _FIRST_CHUNK
        while True:
            rows = list(islice(self._db.items(from_key=cursor), size))
            for row in rows:
                if not row[0].startswith(prefix):
                    return
                yield row
            if len(rows) < size:
                return
            cursor, size = rows[-1][0] + b"\0", _NEXT_CHUNK

    def write(self, batch: WriteBatch) -> None:
        self._db.write(batch, self._quick)


class Writer:
    """Rows on their way into the database. Between the first batch and `finish`, the store has no version."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._batch = WriteBatch(raw_mode=True)

    def put(self, key: bytes, row: bytes) -> None:
        self._batch.put(key, row)
        if len(self._batch) >= _BATCH:
            self.flush()

    def delete(self, key: bytes) -> None:
        self._batch.delete(key)
        if len(self._batch) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered, and that the store is at no version."""
        self._store.version = None
        self._batch.delete(_VERSION)
        self._write()

    def finish(self, version: Version) -> None:
        """Write the rest. From here on the store is at that version."""
        store = self._store
        self._batch.put(_VERSION, msgspec.msgpack.encode(_Head((version.epoch, version.attempt), store.next_number)))
        self._write()
        store.version = version

    def _write(self) -> None:
        self._store.write(self._batch)
        self._batch = WriteBatch(raw_mode=True)

    def number(self) -> int:
        """A number that is larger than all before it."""
        number = self._store.next_number
        self._store.next_number = number + 1
        return number

    def add_table(
        self, address: tuple[str, str, str], meta: dict[str, Any], types: dict[str, dict[str, Any] | None]
    ) -> StoredTable:
        """Register a table, or another description of it under the number that it has."""
        known = self._store.tables.get(address)
        table = StoredTable(self._free_number() if known is None else known.number, address, meta, types)
        self._store.tables[address] = table
        self.put(_TABLE + msgspec.msgpack.encode(address), msgspec.msgpack.encode(table))
        return table

    def new_number(
        self, address: tuple[str, str, str], meta: dict[str, Any], types: dict[str, dict[str, Any] | None]
    ) -> StoredTable:
        """Register a table that takes the place of another one, whose rows remain for now."""
        table = StoredTable(self._free_number(), address, meta, types)
        self._store.tables[address] = table
        self.put(_TABLE + msgspec.msgpack.encode(address), msgspec.msgpack.encode(table))
        return table

    def _free_number(self) -> int:
        return 1 + max((table.number for table in self._store.tables.values()), default=0)

    def delete_rows(self, table: StoredTable) -> None:
        """Delete all rows of a table that another one has replaced."""
        for key, _ in self._store.scan(table.number.to_bytes(4, "big")):
            self.delete(key)


def _options(spec: BackendSpec) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(spec.block_cache))
    blocks.set_bloom_filter(10, False)
    blocks.set_cache_index_and_filter_blocks(True)
    # In parts: the index of a file in one block is larger than what the cache keeps, and was read for every look-up.
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(spec.write_buffer)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_target_file_size_base(_FILE_SIZE)
    # Universal: small runs are merged with small ones. By levels, every eighth epoch would write most of level 1 anew.
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_universal_compaction_options(_universal())
    options.set_level_zero_file_num_compaction_trigger(_RUNS)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_max_file_opening_threads(1)
    # The rest makes opening and closing cheap.
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_keep_log_file_num(1)
    return options


def _universal() -> UniversalCompactOptions:
    options = UniversalCompactOptions()
    options.max_size_amplification_percent = _WASTE_PERCENT
    options.size_ratio = _SIZE_RATIO
    return options


def _lock(path: Path, timeout: float) -> int | None:
    """The descriptor of a locked file, or None where another one holds the lock for so long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
        time.sleep(0.005)
