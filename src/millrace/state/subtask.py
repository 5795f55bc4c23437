"""All state of one subtask: its operators' keyed state, operator state and timers, at an exact version.

Two worker processes may host a subtask in turn, epoch by epoch. Each keeps its copy in memory; `open` brings the
copy to the version that the manifest names, by the deltas that it lacks where that is possible, else from the
files alone. What an attempt did without reaching `snapshot` is thrown away, together with the copy that it touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from millrace.state.codec import BatchType, ColumnCodec
from millrace.state.delta import Fragment, Part, StateFile, Version
from millrace.state.errors import StateCorruptedError, StateError
from millrace.state.files import JobFiles
from millrace.state.fragments import apply_fragment, encode_columns, where
from millrace.state.handles import FileHandle, StateHandles, read_state_file, write_state_file
from millrace.state.heap import KeyedStateBackend
from millrace.state.manifest import StateMeta
from millrace.state.operator_state import OperatorStateBackend
from millrace.state.rescaling import KeyGroupsOf, rescaled_fragments
from millrace.state.tables import Clock, Table
from millrace.state.timers import OperatorTimers, TimerTable

# A base smaller than this is not worth protecting from being written again.
_SMALL_BASE = 64 * 1024

# More files than this make a restore slow on an object store; each costs it about 20 ms.
_MAX_DELTAS = 20

_Address = tuple[str, str, str]


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

    def __init__(self, files: JobFiles, vertex: str, subtask: int, *, allow_pickle: bool = False) -> None:
        self.vertex = vertex
        self.subtask = subtask
        self.clock = Clock()
        self.last_open = ""  # "kept", "caught up" or "rebuilt": what the last `open` had to do
        self._files = files
        self._allow_pickle = allow_pickle
        self._operators: dict[str, OperatorBackends] = {}
        self._tables: dict[_Address, Table] = {}
        # What was read of states that no operator has asked for yet. New bases carry it on as it is.
        self._unclaimed: defaultdict[_Address, list[Fragment]] = defaultdict(list)
        self._handles = StateHandles()
        self._version: Version | None = None
        self._clean = True  # False from `open` to the end of `snapshot`
        self._base_wanted = False

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
        keyed = KeyedStateBackend(uid, self.clock, key, attach)
        return OperatorBackends(uid, keyed, OperatorStateBackend(uid, attach), OperatorTimers(*timers))

    def _claim(self, address: _Address, table: Table) -> None:
        fragments = self._unclaimed.get(address, ())
        try:
            for fragment in fragments:
                self._apply(table, fragment)
        except StateError:
            table.reset()
            raise
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
        if missing is None:
            self._forget()
            missing = {version for handle in handles.chain for version in handle.versions()}
        for handle in handles.chain:
            if not missing.isdisjoint(handle.versions()):
                self._load(handle, missing)
        self._handles = handles
        self._version = handles.version
        return bool(handles.chain)

    def _missing_versions(self, handles: StateHandles) -> set[Version] | None:
        """The snapshots that the copy in memory lacks, or None if it is no step on the way to `handles`."""
        versions = [version for handle in handles.chain for version in handle.versions()]
        if self._version is None:
            # A new process: a rebuild. A process whose subtask has no state yet: nothing to do.
            return None if versions else set()
        if self._version not in versions:
            return None
        return set(versions[versions.index(self._version) + 1 :])

    def _load(self, handle: FileHandle, wanted: set[Version]) -> None:
        for part in read_state_file(self._files, handle).parts:
            if part.version in wanted:
                for fragment in part.fragments:
                    self._receive(fragment, handle.path)

    def _receive(self, fragment: Fragment, path: str) -> None:
        table = self._tables.get(fragment.address)
        if table is None:
            self._unclaimed[fragment.address].append(fragment)
            return
        try:
            self._apply(table, fragment)
        except StateCorruptedError as error:
            raise StateCorruptedError(error.message, path=error.path or path) from error

    def _apply(self, table: Table, fragment: Fragment) -> None:
        apply_fragment(table, fragment, allow_pickle=self._allow_pickle)

    def discard(self) -> None:
        """Throw the copy in memory away; the next `open` rebuilds it."""
        self._forget()
        self._clean = True

    def _forget(self) -> None:
        for table in self._tables.values():
            table.reset()
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
        self._base_wanted = False
        self._clean = True
        return self._handles

    def _base_is_due(self) -> bool:
        chain = self._handles.chain
        return not chain or sum(handle.size for handle in chain[1:]) > max(chain[0].size, _SMALL_BASE)

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

    def _full(self) -> Iterator[Fragment]:
        for address, table in self._tables.items():
            if table.entry_count():
                yield Fragment(*address[:2], table.meta(), encode_columns(table.codecs, table.full())[1])
        for fragments in self._unclaimed.values():
            yield from fragments

    def _write(self, version: Version, changed: list[Fragment], full: bool) -> StateHandles:
        chain = self._handles.chain
        if not full and len(chain) > _MAX_DELTAS:
            merged = self._merge_tail(Part(version, changed))
            if merged is not None:
                return merged
            full = True
        if full:
            return StateHandles((self._write_file("base", [Part(version, list(self._full()))]),))
        return StateHandles((*chain, self._write_file("delta", [Part(version, changed)])))

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
        while len(chain) > 1 and (chain[-1].size <= 2 * gathered or not taken):
            taken.insert(0, chain.pop())
            gathered += taken[0].size
        try:
            parts = [old for handle in taken for old in read_state_file(self._files, handle).parts]
        except StateCorruptedError:
            return None
        return StateHandles((*chain, self._write_file("merged", [*parts, part])))

    def write_savepoint(self, target: JobFiles, epoch: int, attempt: str) -> StateHandles:
        """Write all state, as of the last `snapshot`, into another directory."""
        file = StateFile("base", self.vertex, self.subtask, [Part(Version(epoch, attempt), list(self._full()))])
        return StateHandles((write_state_file(target, file),))

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
                    table.entry_count(),
                    meta.get("queryable"),
                )
            )
        return found

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
        joined, broadcast maps copied. The first `snapshot` writes a base.
        """
        self._forget()
        self._clean = False
        self.last_open = "rebuilt"
        trusted = self._allow_pickle if allow_pickle is None else allow_pickle
        old_parts = [
            [
                part._replace(fragments=[f for f in part.fragments if uids is None or f.uid in uids])
                for handle in handles.chain
                for part in read_state_file(files or self._files, handle).parts
            ]
            for handles in old_subtasks
        ]
        rescaled = rescaled_fragments(
            old_parts, key_groups, self.subtask, parallelism, self.clock, allow_pickle=trusted
        )
        for fragment in rescaled:
            self._receive(fragment, "a rescaled state")
        self._base_wanted = any(handles.chain for handles in old_subtasks)
