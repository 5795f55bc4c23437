"""Keyed state on disk: the tables of one subtask in one database, and how it follows the manifest.

The database never runs ahead of the manifest. `snapshot` writes the delta alone; what it holds stays in memory
(**pending**) until an `open` names its version, and only then goes into the database. So a dead attempt leaves no
trace, and a process that finds the database at any version of the chain goes on from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from uuid import uuid4

from millrace.state.delta import NO_STATE, Fragment, Version
from millrace.state.disk_files import fetch, send
from millrace.state.disk_maps import DiskMaps
from millrace.state.disk_store import LocalStore, StoredTable, Writer
from millrace.state.disk_tables import DiskLists, DiskTable, DiskValues, Rows
from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles
from millrace.state.fragments import apply_fragment, check_shape, encode_columns, where
from millrace.state.generic import TypesByRole, generic_table, json_types, types_of
from millrace.state.handles import FileHandle, StateHandles
from millrace.state.tables import Clock, KeyedTable

_Address = tuple[str, str, str]

_KINDS: dict[str, Callable[[Rows], DiskTable]] = {
    "value": DiskValues,
    "reducing": DiskValues,
    "aggregating": DiskValues,
    "list": DiskLists,
    "map": DiskMaps,
}

# Rows in memory at a time while a table is copied: few megabytes, and enough for one batch of the database.
CHUNK = 20_000


class DiskBackend:
    """The disk tables of a subtask.

    `resync` is called where the database turns out to be at another version than this process left it at.
    """

    def __init__(self, store: LocalStore, clock: Clock, resync: Callable[[], None], *, allow_pickle: bool) -> None:
        self._store = store
        self._clock = clock
        self._resync = resync
        self._allow_pickle = allow_pickle
        self._tables: dict[_Address, tuple[KeyedTable, DiskTable]] = {}
        # Tables of states that no operator has asked for, while files are read.
        self._unasked: list[_Address] = []
        # What is pending leads from the version `_under`, at which the database is, to `_pending_for`.
        self._under: Version | None = None
        self._pending_for: Version | None = None

    # -- tables ------------------------------------------------------------------------------------------------------

    def place(self, uid: str, table: KeyedTable) -> None:
        """Keep a table here."""
        self._attach((uid, "keyed", table.name), table, Rows(self.store, table, allow_pickle=self._allow_pickle))

    def _attach(self, address: _Address, table: KeyedTable, rows: Rows) -> None:
        rows.address = address
        disk = _KINDS[table.kind](rows)
        table.keep_in(disk)
        if self._store.is_open:
            self._bind(table, disk)
        self._tables[address] = table, disk

    def _bind(self, table: KeyedTable, disk: DiskTable) -> None:
        rows = disk.rows
        stored = self._store.tables.get(rows.address)
        if stored is None or rows.can_read(stored):
            rows.bind(stored)
        else:
            self._write_anew(stored, table, disk)

    def _bind_all(self) -> None:
        for table, disk in self._tables.values():
            self._bind(table, disk)

    def _write_anew(self, stored: StoredTable, table: KeyedTable, disk: DiskTable) -> None:
        """Turn a table of other types, or without a time to live, into what the program declares now."""
        check_shape(where(stored.address[0], stored.address[2]), stored.meta, disk.rows.meta)
        version = self._store.version
        writer = Writer(self._store)
        old = self._generic(stored)
        disk.rows.bind(writer.new_number(disk.rows.address, disk.rows.meta, disk.rows.types))
        for columns in old.chunks(CHUNK):
            encoded = encode_columns(old.codecs, columns)[1]
            fragment = Fragment(stored.address[0], stored.address[1], table.meta(), encoded)
            apply_fragment(table, fragment, allow_pickle=self._allow_pickle)
            disk.settle(writer)
        writer.delete_rows(stored)
        if version is not None:
            writer.finish(version)

    def _generic(self, stored: StoredTable) -> KeyedTable:
        table = generic_table(stored.meta, json_types(stored.types, self._allow_pickle), self._clock)
        assert isinstance(table, KeyedTable)
        rows = Rows(self.store, table, allow_pickle=self._allow_pickle)
        rows.bind(stored)
        table.keep_in(_KINDS[table.kind](rows))
        return table

    def stored_tables(self) -> Iterator[tuple[_Address, KeyedTable, dict[str, object]]]:
        """All tables of the database, those that no operator has asked for too, with what files say about them."""
        known = self.store().tables
        for address, (table, disk) in self._tables.items():
            if address in known or disk.has_pending():
                yield address, table, disk.rows.meta
        for address, stored in known.items():
            if address not in self._tables:
                yield address, self._generic(stored), stored.meta

    # -- following the manifest --------------------------------------------------------------------------------------

    def store(self) -> LocalStore:
        """The database, open, at the version that what is pending leads on from."""
        if not self._store.is_open:
            self._store.acquire()
            if self._under is not None and self._store.version == self._under:
                self._bind_all()
            else:
                self._resync()
        return self._store

    def in_use(self) -> bool:
        """Whether an epoch has changed maps, which are changed where they lie."""
        return any(table.changed_keys() for table, disk in self._tables.values() if isinstance(disk, DiskMaps))

    def is_at(self, handles: StateHandles) -> bool:
        """Whether the tables are at this version, so that the database may stay closed until it is read."""
        return self._pending_for == (handles.version or NO_STATE) and not self.has_pending()

    def has_tables(self) -> bool:
        """Whether there is anything in the database."""
        return bool(self.store().tables)

    def has_pending(self) -> bool:
        return any(disk.has_pending() for _, disk in self._tables.values())

    def prepare(self, handles: StateHandles, files: JobFiles) -> set[Version]:
        """Bring the database as near to a version as memory and its own files allow.

        Returns the snapshots that are still to be applied from their files.
        """
        store = self._store
        if not store.is_open:
            store.acquire()
        target = handles.version or NO_STATE
        if self._pending_for == target and self._under == store.version is not None:
            self._bind_all()
            self.settle(target)
            return set()
        self.forget()
        line = handles.line()
        if store.version not in line:
            self._rebuild(handles, files)
        self._bind_all()
        version = store.version
        assert version is not None
        self._at(version)
        return set(line[line.index(version) + 1 :])

    def _rebuild(self, handles: StateHandles, files: JobFiles) -> None:
        database = handles.database
        if not database:
            self.begin_anew(NO_STATE)
            return
        fetched = self._store.directory.with_name(f"fetched-{uuid4().hex}")
        try:
            fetch(database, files, fetched)
            self._store.take_over(fetched)
        finally:
            shutil.rmtree(fetched, ignore_errors=True)
        if self._store.version != database[0].versions()[0]:
            raise StateCorruptedError("the database is at another version than its handle says", path=database[0].path)

    def begin_anew(self, version: Version) -> None:
        """Throw the database away, and call the empty one that takes its place this version."""
        if not self._store.is_open:
            self._store.acquire()
        self.forget()
        self._store.wipe()
        for _, disk in self._tables.values():
            disk.rows.bind(None)
        Writer(self._store).finish(version)
        self._at(version)

    def forget(self) -> None:
        """Forget what is pending. What no operator has asked for is found in the database again."""
        self._under = self._pending_for = None
        for _, disk in self._tables.values():
            disk.clear()
        self._drop_unasked()

    def _drop_unasked(self) -> None:
        for address in self._unasked:
            self._tables.pop(address, None)
        self._unasked.clear()

    def expect(self, version: Version) -> None:
        """The database is at this version already."""
        self._at(version)

    def _at(self, version: Version | None) -> None:
        self._under = self._pending_for = version

    def receive(self, fragment: Fragment, *, allow_pickle: bool) -> None:
        """Apply what a file says about a state, whether an operator has asked for it or not."""
        found = self._tables.get(fragment.address)
        if found is not None and fragment.address not in self._unasked:
            apply_fragment(found[0], fragment, allow_pickle=allow_pickle)
            return
        table = self._unasked_table(fragment, types_of([fragment], allow_pickle))
        as_read = fragment._replace(meta={**fragment.meta, "kind": table.kind})
        apply_fragment(table, as_read, allow_pickle=allow_pickle)

    def _unasked_table(self, fragment: Fragment, types: TypesByRole) -> KeyedTable:
        if fragment.address in self._unasked:
            # What the last part of the file said goes first: its columns may have had other types.
            self._write_pending().flush()
            self._drop_unasked()
        stored = self._store.tables.get(fragment.address)
        if stored is not None:
            types = {**json_types(stored.types, self._allow_pickle), **types}
        table = generic_table(fragment.meta, types, self._clock)
        assert isinstance(table, KeyedTable)
        rows = Rows(self.store, table, allow_pickle=self._allow_pickle)
        rows.meta = fragment.meta
        rows.types = {role: None if one is None else one.to_json() for role, one in types.items()}
        self._attach(fragment.address, table, rows)
        self._unasked.append(fragment.address)
        return table

    def settle_here(self) -> None:
        """Write what is pending as a part of the version that the database is at."""
        version = self.store().version
        assert version is not None
        self.settle(version)

    def settle(self, version: Version) -> None:
        """Write what is pending. From here on the database is at that version."""
        self._write_pending().finish(version)
        self._drop_unasked()
        self._at(version)

    def _write_pending(self) -> Writer:
        writer = Writer(self._store)
        for _, disk in self._tables.values():
            if disk.has_pending():
                disk.settle(writer)
        return writer

    # -- the end of an epoch -----------------------------------------------------------------------------------------

    def hold_for(self, version: Version) -> None:
        """What is pending belongs to this snapshot."""
        self._pending_for = version

    def send(self, files: JobFiles, prefix: str, known: tuple[FileHandle, ...]) -> list[FileHandle]:
        """Write the database's files, without what is pending, into the checkpoint."""
        store = self.store()
        version = store.version
        assert version is not None
        store.drop_waste()
        store.close()
        return send(store.directory, files, prefix, version, known)

    def release(self) -> None:
        """Let other processes have the database."""
        self._store.release()
