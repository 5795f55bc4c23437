"""All state of one subtask: its operators' keyed state, operator state and timers, at an exact version.

Two worker processes may host a subtask in turn, epoch by epoch. Each keeps its copy in memory; `open` brings the
copy to the version that the manifest names, by the deltas that it lacks where that is possible, else from the
files alone. What an attempt did without reaching `snapshot` is thrown away, together with the copy that it touched.
With the rocksdb backend, keyed state lies in a database that these processes share (`disk_backend.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from millrace.state.backends import BackendSpec
from millrace.state.codec import BatchType, ColumnCodec
from millrace.state.delta import Fragment, Part, StateFile, Version
from millrace.state.disk_backend import DiskBackend
from millrace.state.disk_reading import database_fragments
from millrace.state.disk_store import LocalStore
from millrace.state.errors import StateCorruptedError, StateError, StatePickleError
from millrace.state.files import JobFiles
from millrace.state.fragments import apply_fragment, encode_columns, where
from millrace.state.handles import FileHandle, StateHandles, read_state_file, safe_name, write_state_file
from millrace.state.heap import KeyedStateBackend
from millrace.state.manifest import StateMeta
from millrace.state.operator_state import OperatorStateBackend
from millrace.state.rescaling import KeyGroupsOf, Restore
from millrace.state.savepoints import CHUNK, table_fragments, write_chunks
from millrace.state.tables import Clock, KeyedTable, Table
from millrace.state.timers import OperatorTimers, TimerTable

# A base smaller than this is not worth protecting from being written again.
_SMALL_BASE = 64 * 1024

# A new base is due when the deltas have grown to half of the last one. On disk, where a base shares most of its files
# with the last one, to an eighth.
_DELTA_SHARE = 2
_DELTA_SHARE_ON_DISK = 8

# More files than this make a restore slow on an object store; each costs it about 20 ms.
_MAX_DELTAS = 20

_Address = tuple[str, str, str]

_IN_MEMORY = BackendSpec()
_DELTAS = frozenset({"delta", "merged"})


@dataclass(frozen=True, slots=True)
class OperatorBackends:
    """Where one operator keeps what must survive."""

    uid: str
    keyed: KeyedStateBackend
    operator: OperatorStateBackend
    timers: OperatorTimers


class SubtaskState:
    """The state of one subtask of one vertex.

        state = SubtaskState(files, "vertex-1", subtask=0, allow_pickle=True)
        sum_state = state.operator("sum", key_type=Types.STRING()).keyed.get_state(descriptor)
        for each epoch:
            state.open(handles from the manifest)
            ... the operators run ...
            handles = state.snapshot(epoch, attempt)

    `allow_pickle` is for files that this very job wrote; a file from elsewhere must not be able to run code.
    """

    def __init__(
        self,
        files: JobFiles,
        vertex: str,
        subtask: int,
        *,
        allow_pickle: bool = False,
        backend: BackendSpec = _IN_MEMORY,
    ) -> None:
        self.vertex = vertex
        self.subtask = subtask
        self.clock = Clock()
        self.last_open = ""  # "kept", "caught up" or "rebuilt": what the last `open` had to do
        self._files = files
        self._allow_pickle = allow_pickle
        self._operators: dict[str, OperatorBackends] = {}
        self._tables: dict[_Address, Table] = {}
        # What was read of states that no operator has asked for yet. New bases carry it on as it is.
        # With each goes whether pickles in it may be loaded.
        self._unclaimed: defaultdict[_Address, list[tuple[Fragment, bool]]] = defaultdict(list)
        self._handles = StateHandles()
        self._version: Version | None = None
        self._clean = True  # False from `open` to the end of `snapshot`
        self._base_wanted = False
        self._disk: DiskBackend | None = None
        if backend.kind == "rocksdb":
            store = LocalStore(Path(backend.directory, safe_name(vertex), str(subtask)), backend)
            self._disk = DiskBackend(store, self.clock, self._resync, allow_pickle=allow_pickle)

    @property
    def version(self) -> Version | None:
        """The snapshot that the copy in memory was last equal to, or None for no state at all."""
        return self._version

    @property
    def handles(self) -> StateHandles:
        """The files that hold `version`."""
        return self._handles

    def operator(
        self, uid: str, key_type: BatchType | None = None, namespace_type: BatchType | None = None
    ) -> OperatorBackends:
        """The backends of an operator, the same ones each time. Types are those of its keys and timer namespaces."""
        if uid not in self._operators:
            self._operators[uid] = self._new_operator(uid, ColumnCodec(key_type), ColumnCodec(namespace_type))
        return self._operators[uid]

    def _new_operator(self, uid: str, key: ColumnCodec, namespace: ColumnCodec) -> OperatorBackends:
        def attach(section: str, table: Table) -> None:
            self._claim((uid, section, table.name), table)

        timers = [TimerTable(domain, {"key": key, "ns": namespace}) for domain in ("event", "processing")]
        for table in timers:
            attach("timers", table)

        def place(table: KeyedTable) -> None:
            if self._disk is not None:
                self._disk.place(uid, table)

        keyed = KeyedStateBackend(uid, self.clock, key, attach, place)
        return OperatorBackends(uid, keyed, OperatorStateBackend(uid, attach), OperatorTimers(*timers))

    def _claim(self, address: _Address, table: Table) -> None:
        fragments = self._unclaimed.get(address, ())
        try:
            for fragment, trusted in fragments:
                apply_fragment(table, fragment, allow_pickle=trusted)
        except StateError:
            table.reset()
            raise
        if fragments and self._disk is not None and address[1] == "keyed":
            self._disk.settle_here()
        self._unclaimed.pop(address, None)
        self._tables[address] = table

    # -- reading ----------------------------------------------------------------------------------------------------

    def open(self, handles: StateHandles | None) -> bool:
        """Bring the state to the version of `handles`. Returns whether there is state to go on from.

        Raises `StateCorruptedError`, naming the file, if one is missing or damaged; nothing of the state is
        to be used then.
        """
        handles = handles or StateHandles()
        missing = self._missing_versions(handles) if self._clean else None
        self._clean = False
        self.last_open = "rebuilt" if missing is None else "caught up" if missing else "kept"
        try:
            if missing is None:
                self._forget()
                self._read_database(handles)
                missing = set(handles.versions())
            self._bring_to(handles, missing)
        except BaseException:
            self.release()
            raise
        self._handles = handles
        self._version = handles.version
        return bool(handles.chain)

    def _missing_versions(self, handles: StateHandles) -> set[Version] | None:
        """The snapshots that the copy in memory lacks, or None if it is no step on the way to `handles`."""
        versions = handles.versions()
        if self._version is None:
            # A new process: a rebuild. A process whose subtask has no state yet: nothing to do.
            return None if versions else set()
        if self._version not in versions:
            return None
        return set(versions[versions.index(self._version) + 1 :])

    def _read_database(self, handles: StateHandles) -> None:
        """In memory, what a job with its state on disk has left: its files count on top of the database."""
        if self._disk is None and handles.database:
            trusted = self._allow_pickle
            for fragment in database_fragments(handles.database, self._files, self.clock, allow_pickle=trusted):
                self._receive(fragment, handles.database[0].path, allow_pickle=trusted)

    def _bring_to(self, handles: StateHandles, missing: set[Version]) -> None:
        """Apply to what is in memory the missing snapshots, to what is on disk those that it misses."""
        disk = self._disk
        missing_on_disk: set[Version] = set()
        if disk is not None and not disk.is_at(handles):
            missing_on_disk = disk.prepare(handles, self._files)
        for handle in handles.files:
            versions = handle.versions()
            if not missing.union(missing_on_disk).isdisjoint(versions):
                self._load(handle, missing, missing_on_disk)
                if disk is not None and versions[-1] in missing_on_disk:
                    disk.settle(versions[-1])

    def _load(self, handle: FileHandle, missing: set[Version], missing_on_disk: set[Version]) -> None:
        for part in read_state_file(self._files, handle).parts:
            for fragment in part.fragments:
                if part.version in (missing_on_disk if self._lies_on_disk(fragment) else missing):
                    self._receive(fragment, handle.path, allow_pickle=self._allow_pickle)

    def _lies_on_disk(self, fragment: Fragment) -> bool:
        return self._disk is not None and fragment.section == "keyed"

    def _receive(self, fragment: Fragment, path: str, *, allow_pickle: bool) -> None:
        try:
            if self._disk is not None and fragment.section == "keyed":
                self._disk.receive(fragment, allow_pickle=allow_pickle)
            elif fragment.address in self._tables:
                apply_fragment(self._tables[fragment.address], fragment, allow_pickle=allow_pickle)
            else:
                self._unclaimed[fragment.address].append((fragment, allow_pickle))
        except StateCorruptedError as error:
            raise StateCorruptedError(error.message, path=error.path or path) from error

    def _resync(self) -> None:
        """Another process has used the database since this one has closed it."""
        assert self._disk is not None
        if not self._clean and self._disk.in_use():
            raise StateError("another process has changed the local database while this one was in an epoch")
        self._disk.forget()
        self._bring_to(self._handles, set())

    def discard(self) -> None:
        """Throw the copy in memory away; the next `open` rebuilds it."""
        self._forget()
        self.release()
        self._clean = True

    def release(self) -> None:
        """Let other processes have the local database, if there is one. What reads it next opens it again.

        `snapshot` does so itself; whoever gives an epoch up, or looks at state between two epochs, should.
        """
        if self._disk is not None:
            self._disk.release()

    def _forget(self) -> None:
        for table in self._tables.values():
            table.reset()
        if self._disk is not None:
            self._disk.forget()
        self._unclaimed.clear()
        self._handles = StateHandles()
        self._version = None
        self._base_wanted = False

    # -- writing ----------------------------------------------------------------------------------------------------

    def snapshot(self, epoch: int, attempt: str | int) -> StateHandles:
        """Write what changed since `open` and return what the manifest has to name.

        Nothing is written, and the handles are the old ones, if nothing changed.
        """
        version = Version(epoch, str(attempt))
        full = self._base_wanted or self._base_is_due()
        for table in self._tables.values():
            table.prepare_snapshot(full)
        changed = list(self._commit_deltas())
        if changed or self._base_wanted:
            self._handles = self._write(version, changed, full)
            self._version = version
            if self._disk is not None:
                self._hold(self._disk, version)
        self._base_wanted = False
        self._clean = True
        self.release()
        return self._handles

    def _hold(self, disk: DiskBackend, version: Version) -> None:
        disk.hold_for(version)
        left = [address for address in self._unclaimed if address[1] == "keyed"]
        if left:
            # They are in the base now, and from there the next `open` takes them to the database.
            disk.forget()
        for address in left:
            del self._unclaimed[address]

    def _base_is_due(self) -> bool:
        """The two newest checkpoints name, at the worst, two bases and the deltas of one.

        In memory that is 2.5 times the state. On disk a base may be half waste, but the next one then is none.
        """
        deltas = sum(handle.size for handle in self._handles.deltas)
        base = self._handles.size - deltas
        share = _DELTA_SHARE_ON_DISK if self._handles.database else _DELTA_SHARE
        return not self._handles.chain or deltas > max(base // share, _SMALL_BASE)

    def _commit_deltas(self) -> Iterator[Fragment]:
        for address, table in self._tables.items():
            columns = table.delta()
            if columns is None:
                table.commit(None, coerced=False)
                continue
            try:
                settled, encoded = encode_columns(table.codecs, columns)
            except StateError as error:
                error.message = f"{where(address[0], address[2])}: {error.message}"
                raise
            table.commit(settled, coerced=any(settled[name] is not values for name, values in columns.items()))
            yield Fragment(address[0], address[1], table.meta(), encoded)

    def _full(self, changed: list[Fragment]) -> Iterator[Fragment]:
        """All that is in memory, and of what is on disk that which the database does not have yet."""
        yield from (fragment for fragment in changed if self._lies_on_disk(fragment))
        for address, table in self._tables.items():
            if (self._disk is None or address[1] != "keyed") and table.entry_count():
                yield Fragment(*address[:2], table.meta(), encode_columns(table.codecs, table.full())[1])
        for fragments in self._unclaimed.values():
            yield from (fragment for fragment, _ in fragments)

    def _write(self, version: Version, changed: list[Fragment], full: bool) -> StateHandles:
        chain = self._handles.chain
        if not full and len(self._handles.deltas) >= _MAX_DELTAS:
            merged = self._merge_tail(Part(version, changed))
            if merged is not None:
                return merged
            full = True
        if full:
            database = self._write_database(version)
            return StateHandles((*database, self._write_file("base", [Part(version, list(self._full(changed)))])))
        return StateHandles((*chain, self._write_file("delta", [Part(version, changed)])))

    def _write_database(self, version: Version) -> list[FileHandle]:
        if self._disk is None or not self._disk.has_tables():
            return []
        name = f"{version.epoch}-{safe_name(version.attempt)}"
        prefix = f"state/{safe_name(self.vertex)}/{self.subtask}/{name}"
        return self._disk.send(self._files, prefix, self._handles.database)

    def _write_file(self, kind: str, parts: list[Part]) -> FileHandle:
        return write_state_file(self._files, StateFile(kind, self.vertex, self.subtask, parts))

    def _merge_tail(self, part: Part) -> StateHandles | None:
        """Replace the last deltas by one file that holds them all; the base, however large, stays.

        A delta is taken in while it is at most twice the size of all after it: so each byte is written a logarithm
        of times, and not again with every twentieth epoch. None if a file cannot be read: then a base is due.
        """
        chain = list(self._handles.chain)
        gathered = sum(len(column.data) for fragment in part.fragments for column in fragment.columns.values())
        taken: list[FileHandle] = []
        while chain[-1].kind in _DELTAS and (chain[-1].size <= 2 * gathered or not taken):
            taken.insert(0, chain.pop())
            gathered += taken[0].size
        try:
            parts = [old for handle in taken for old in read_state_file(self._files, handle).parts]
        except StateCorruptedError:
            return None
        return StateHandles((*chain, self._write_file("merged", [*parts, part])))

    def describe(self) -> dict[str, list[StateMeta]]:
        """What there is of state, by operator, for the manifest."""
        found: dict[str, list[StateMeta]] = {}
        for (uid, section, name), table in self._tables.items():
            meta = table.meta()
            found.setdefault(uid, []).append(
                StateMeta(
                    name,
                    section,
                    meta["kind"],
                    {role: codec.type_json for role, codec in table.codecs.items()},
                    bool(meta.get("namespaced")),
                    bool(meta.get("ttl")),
                    table.known_count(),
                    meta.get("queryable"),
                )
            )
        return found

    # -- savepoints -------------------------------------------------------------------------------------------------

    def write_savepoint(self, target: JobFiles, epoch: int, attempt: str | int) -> StateHandles:
        """Write all state into another directory, as files that need neither this one nor this backend.

        Called right after `snapshot`, and so of that very version.
        """
        try:
            return write_chunks(target, self.vertex, self.subtask, Version(epoch, str(attempt)), self._everything())
        finally:
            self.release()

    def _everything(self) -> Iterator[tuple[int, Fragment]]:
        for address, table in self._tables.items():
            if (self._disk is None or address[1] != "keyed") and table.entry_count():
                yield from table_fragments(*address[:2], table, table.meta())
        if self._disk is not None:
            for address, table, meta in self._disk.stored_tables():
                yield from table_fragments(*address[:2], table, meta)
        for fragments in self._unclaimed.values():
            for fragment, _ in fragments:
                yield CHUNK, fragment

    # -- rescaling --------------------------------------------------------------------------------------------------

    def restore_rescaled(
        self,
        old_subtasks: list[StateHandles],
        key_groups: KeyGroupsOf,
        parallelism: int,
        *,
        files: JobFiles | None = None,
        uids: set[str] | None = None,
        allow_pickle: bool | None = None,
    ) -> None:
        """Begin from the state of all old subtasks instead of `open`, keeping what belongs to this one.

        `key_groups(uid)` tells which key groups of how many this subtask owns. Lists are dealt out, union lists
        joined, broadcast maps copied. `files` is where the old subtasks' files are, if not among the job's own, and
        `allow_pickle` says whether those are trusted. Only the operators in `uids` are restored, if it is given.
        The first `snapshot` writes a base.
        """
        self._forget()
        self._clean = False
        self.last_open = "rebuilt"
        trusted = self._allow_pickle if allow_pickle is None else allow_pickle
        wanted = None if uids is None else frozenset(uids)
        restore = Restore(
            files or self._files, key_groups, self.subtask, parallelism, self.clock, wanted, allow_pickle=trusted
        )
        try:
            self._receive_restored(restore, old_subtasks)
        except BaseException:
            self.release()
            raise
        self._base_wanted = any(handles.chain for handles in old_subtasks)

    def _receive_restored(self, restore: Restore, old_subtasks: list[StateHandles]) -> None:
        version = Version(-1, f"restored-{uuid4().hex}")
        if self._disk is not None:
            self._disk.begin_anew(version)
        for path, fragments in restore.pieces(old_subtasks):
            for fragment in fragments:
                try:
                    self._receive(fragment, path, allow_pickle=restore.allow_pickle)
                except StatePickleError:
                    # Of a class that only the operator may import; it will have declared it.
                    self._unclaimed[fragment.address].append((fragment, restore.allow_pickle))
            if self._disk is not None:
                self._disk.settle(version)
