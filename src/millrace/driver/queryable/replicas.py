"""Read-only copies of single states in the driver, brought up to date by the deltas that they lack.

A replica holds one state of one subtask. Other states in the same files are passed over, so that a query costs the
memory of what is queried. A replica that nobody has asked for a while is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from millrace.queryable_state.columns import type_of
from millrace.queryable_state.wire import Consistency
from millrace.state.codec import ColumnCodec
from millrace.state.delta import Fragment, Version
from millrace.state.disk_reading import database_fragments
from millrace.state.files import JobFiles
from millrace.state.fragments import apply_fragment
from millrace.state.handles import FileHandle, StateHandles, read_state_file
from millrace.state.heap_list import HeapListState
from millrace.state.heap_map import HeapMapState
from millrace.state.heap_value import HeapValueState
from millrace.state.manifest import StateMeta
from millrace.state.tables import Clock, KeyContext, NamespacedContext

# Long enough to survive between the polls of a dashboard.
_IDLE_SECONDS = 600.0

ReplicaTable = HeapValueState | HeapListState | HeapMapState


class ReplicaId(NamedTuple):
    """Which state of which subtask, and as of when: replicas of both consistencies do not overtake each other."""

    job_id: str
    vertex: str
    subtask: int
    uid: str
    name: str
    consistency: Consistency


class Entry(NamedTuple):
    """What a state holds under a key, by role; no values where there is nothing. `epoch` is 0 for no state at all."""

    columns: dict[str, list[Any]]
    epoch: int


class Replica:
    """One state of one subtask, at the version of the handles that it was last given."""

    def __init__(self, files: JobFiles, uid: str, meta: StateMeta) -> None:
        self.meta = meta
        self.last_open = ""  # "kept", "caught up" or "rebuilt"
        self._files = files
        self._address = (uid, "keyed", meta.name)
        self._context = KeyContext()
        self._namespaced = NamespacedContext(self._context)
        self._table = _table_for(meta, self._namespaced if meta.namespaced else self._context)
        self._version: Version | None = None
        self._lock = Lock()

    def read(self, newest: Callable[[], StateHandles], key: Any, namespace: Any) -> Entry:
        """What the state holds under a key as of `newest()`, which is asked for when it is this query's turn."""
        with self._lock:
            self._open(newest())
            self._context.key = key
            self._namespaced.namespace = namespace
            return Entry(_columns(self._table), 0 if self._version is None else self._version.epoch)

    def _open(self, handles: StateHandles) -> None:
        missing = self._missing(handles)
        self.last_open = "rebuilt" if missing is None else "caught up" if missing else "kept"
        try:
            if missing is None:
                self._forget()
                self._load_database(handles)
                missing = set(handles.versions())
            for handle in handles.files:
                if not missing.isdisjoint(handle.versions()):
                    self._load(handle, missing)
        except BaseException:
            self._forget()
            raise
        self._version = handles.version

    def _missing(self, handles: StateHandles) -> set[Version] | None:
        """The snapshots that this copy lacks, None if it is no step on the way to `handles`."""
        # A base beside a database says of keyed state only what its own epoch changed.
        versions = handles.line() if handles.database else handles.versions()
        if self._version is None or self._version not in versions:
            return None
        return set(versions[versions.index(self._version) + 1 :])

    def _load(self, handle: FileHandle, wanted: set[Version]) -> None:
        for part in read_state_file(self._files, handle).parts:
            if part.version in wanted:
                for fragment in part.fragments:
                    self._apply(fragment)

    def _load_database(self, handles: StateHandles) -> None:
        if handles.database:
            for fragment in database_fragments(handles.database, self._files, Clock(), allow_pickle=True):
                self._apply(fragment)

    def _apply(self, fragment: Fragment) -> None:
        if fragment.address == self._address:
            # Aggregates are values here: a replica has no user function, and needs none.
            plain = fragment._replace(meta={**fragment.meta, "kind": self._table.kind})
            # The job's own files, which its tasks read in the same way.
            apply_fragment(self._table, plain, allow_pickle=True)

    def _forget(self) -> None:
        self._table.reset()
        self._version = None


def _table_for(meta: StateMeta, context: KeyContext | NamespacedContext) -> ReplicaTable:
    roles = {"key", "ns", *_ROLES[meta.kind]}
    codecs = {role: ColumnCodec(type_of(meta.types.get(role))) for role in roles}
    if meta.kind == "list":
        return HeapListState(meta.name, codecs, context)
    if meta.kind == "map":
        return HeapMapState(meta.name, codecs, context)
    return HeapValueState(meta.name, codecs, context)


_ROLES = {
    "value": ("value",),
    "reducing": ("value",),
    "aggregating": ("value",),
    "list": ("item",),
    "map": ("entry", "value"),
}


def _columns(table: ReplicaTable) -> dict[str, list[Any]]:
    match table:
        case HeapListState():
            return {"item": table.get()}
        case HeapMapState():
            items = table.items()
            return {"entry": [entry for entry, _ in items], "value": [value for _, value in items]}
    value = table.value()
    return {"value": [] if value is None else [value]}


@dataclass
class _Held:
    replica: Replica
    used: float


class Replicas:
    """The replicas of all jobs of a server. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float], idle_seconds: float = _IDLE_SECONDS) -> None:
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._held: dict[ReplicaId, _Held] = {}
        self._lock = Lock()

    def get(self, identity: ReplicaId, files: JobFiles, meta: StateMeta) -> Replica:
        """The replica, a new one if there is none or the state is declared otherwise by now."""
        with self._lock:
            now = self._clock()
            self._drop(lambda _, held: now - held.used > self._idle_seconds)
            held = self._held.get(identity)
            if held is None or _shape(held.replica.meta) != _shape(meta):
                held = self._held[identity] = _Held(Replica(files, identity.uid, meta), now)
            held.used = now
            return held.replica

    def forget(self, job_id: str) -> None:
        """Drop the replicas of a job."""
        with self._lock:
            self._drop(lambda identity, _: identity.job_id == job_id)

    def __len__(self) -> int:
        return len(self._held)

    def _drop(self, unwanted: Callable[[ReplicaId, _Held], bool]) -> None:
        for identity in [identity for identity, held in self._held.items() if unwanted(identity, held)]:
            del self._held[identity]


def _shape(meta: StateMeta) -> tuple[Any, ...]:
    return meta.kind, meta.namespaced, meta.types
