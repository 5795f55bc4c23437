"""The files behind a savepoint: what they say about each state, and what was put in its place since."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from millrace.state.delta import Fragment, Part, StateFile, Version
from millrace.state.disk_reading import database_fragments
from millrace.state.errors import StateCorruptedError, StateError
from millrace.state.files import JobFiles, LocalFiles, open_files
from millrace.state.fragments import where
from millrace.state.handles import StateHandles, read_state_file, write_state_file
from millrace.state.manifest import (
    DIRECTORY,
    Manifest,
    OperatorMeta,
    StateMeta,
    decode_manifest,
    latest_manifest,
    list_manifests,
    read_manifest,
)
from millrace.state.rescaling import open_tables
from millrace.state.tables import Clock, Table

# Operator, section, name.
Address = tuple[str, str, str]

# The files that hold columns. What else a checkpoint may have belongs to a backend, and only that can read it.
COLUMN_FILES = frozenset({"base", "delta", "merged"})

# Enough to recognise a job by.
_SHOWN_JOBS = 5


def open_savepoint(path: str | os.PathLike[str]) -> tuple[str, JobFiles, Manifest, list[StateCorruptedError]]:
    """The directory of a savepoint, of a job's checkpoints, or of one manifest: where it is, its files, the manifest
    to go by, and what is wrong with newer ones."""
    location = os.fspath(path).rstrip("/")
    if location.endswith(".manifest"):
        root, name = _split_manifest_path(location)
        files = open_files(root)
        return root, files, decode_manifest(files.read(f"{DIRECTORY}/{name}"), f"{DIRECTORY}/{name}"), []
    files = open_files(location)
    newest, damaged = latest_manifest(files)
    if newest is None:
        raise damaged[0] if damaged else _no_savepoint(location, files)
    return location, files, newest, damaged


def _split_manifest_path(location: str) -> tuple[str, str]:
    folder, _, name = location.rpartition("/")
    root, _, directory = folder.rpartition("/")
    if directory != DIRECTORY:
        raise StateError(
            f"{location} is not in a directory {DIRECTORY!r}, and its state is found from there",
            action="Leave manifests where they were written.",
        )
    return root or ".", name


def _no_savepoint(location: str, files: JobFiles) -> StateError:
    jobs = []
    if isinstance(files, LocalFiles):
        jobs = sorted(manifests.parent.name for manifests in files.root.glob(f"*/{DIRECTORY}"))
    if jobs:
        shown = ", ".join(jobs[:_SHOWN_JOBS]) + (", ..." if len(jobs) > _SHOWN_JOBS else "")
        return StateError(f"{location} holds the state of several jobs: {shown}", action="Name the directory of one.")
    return StateError(
        f"{location} is no savepoint: there is no {DIRECTORY}/<epoch>.manifest in it",
        action="Name the directory of a savepoint, that of a job's checkpoints, or a .manifest file.",
    )


@dataclass(frozen=True)
class SavedState:
    """State by vertex and subtask: what the handles of a manifest name, without what was dropped or replaced.

    `trusted` tells whether pickles in a database may be loaded, whose rows are taken apart to be read. `replaced`
    holds fragments by address, with the vertex and one fragment (or None) per subtask.
    """

    files: JobFiles | None = None
    handles: dict[str, list[StateHandles]] = field(default_factory=dict)
    trusted: bool = False
    dropped: frozenset[str] = frozenset()
    replaced: dict[Address, tuple[str, list[Fragment | None]]] = field(default_factory=dict)

    def without(self, uid: str) -> SavedState:
        """Without all state of an operator."""
        kept = {address: said for address, said in self.replaced.items() if address[0] != uid}
        return replace(self, dropped=self.dropped | {uid}, replaced=kept)

    def with_state(self, address: Address, vertex: str, fragments: list[Fragment | None]) -> SavedState:
        """With this in the place of a state."""
        return replace(self, replaced={**self.replaced, address: (vertex, fragments)})

    def subtasks(self, vertex: str) -> int:
        """How many subtasks of a vertex have state."""
        replaced = (len(fragments) for of, fragments in self.replaced.values() if of == vertex)
        return max([len(self.handles.get(vertex, [])), *replaced])

    def tables(self, operator: OperatorMeta, meta: StateMeta, *, allow_pickle: bool) -> Iterator[Table]:
        """The tables of one state, one subtask's after the other's."""
        address = (operator.uid, meta.section, meta.name)
        for subtask in range(self.subtasks(operator.vertex)):
            fragments = list(self.fragments(operator.vertex, subtask, lambda found: found == address))
            if fragments:
                yield _table_of(address, meta.kind, fragments, allow_pickle)

    def fragments(self, vertex: str, subtask: int, wanted: Callable[[Address], bool]) -> Iterator[Fragment]:
        """What is said about the wanted states of a subtask, oldest first."""
        for fragment in self._in_files(vertex, subtask):
            kept = fragment.uid not in self.dropped and fragment.address not in self.replaced
            if kept and wanted(fragment.address):
                yield fragment
        for address, (of, by_subtask) in self.replaced.items():
            if of == vertex and wanted(address) and subtask < len(by_subtask):
                replaced = by_subtask[subtask]
                if replaced is not None:
                    yield replaced

    def _in_files(self, vertex: str, subtask: int) -> Iterator[Fragment]:
        subtasks = self.handles.get(vertex, [])
        if subtask >= len(subtasks):
            return
        handles = subtasks[subtask]
        assert self.files is not None or not handles.chain
        if handles.database and self.files is not None:
            yield from database_fragments(handles.database, self.files, Clock(), allow_pickle=self.trusted)
        for handle in handles.files:
            assert self.files is not None
            for fragment in (one for part in read_state_file(self.files, handle).parts for one in part.fragments):
                if not isinstance(fragment.meta.get("name"), str):
                    raise StateCorruptedError("it holds a state without a name", path=handle.path)
                yield fragment

    def write(self, target: JobFiles, vertex: str, version: Version) -> list[StateHandles]:
        """Write the state of a vertex, as one base for each subtask."""
        return [self._write_subtask(target, vertex, subtask, version) for subtask in range(self.subtasks(vertex))]

    def _write_subtask(self, target: JobFiles, vertex: str, subtask: int, version: Version) -> StateHandles:
        fragments = list(self.fragments(vertex, subtask, lambda address: True))
        if not fragments:
            return StateHandles()
        file = StateFile("base", vertex, subtask, [Part(version, fragments)])
        return StateHandles((write_state_file(target, file),))


def _table_of(address: Address, kind: str, fragments: list[Fragment], allow_pickle: bool) -> Table:
    try:
        table = open_tables([Part(Version(0, ""), fragments)], Clock(), allow_pickle=allow_pickle)[address]
    except (LookupError, TypeError, ValueError) as error:  # A header that only a forger could have written.
        raise StateCorruptedError(f"{where(address[0], address[2])} is not described as state is: {error!r}") from error
    if table.kind not in (kind, _KIND_OF_TABLE.get(kind)):
        raise StateCorruptedError(
            f"{where(address[0], address[2])} is {table.kind} state in the files and {kind} state in the manifest"
        )
    return table


# Reducing and aggregating state is read as values.
_KIND_OF_TABLE = {"reducing": "value", "aggregating": "value"}

# What a savepoint's directory may hold.
_DIRECTORIES = (DIRECTORY, "state", "feedback", "spark")


def dispose_savepoint(path: str | os.PathLike[str]) -> int:
    """Remove a savepoint and its directory; returns how many files it had. Whatever is no savepoint is left alone."""
    location = os.fspath(path).rstrip("/")
    files = open_files(location)
    epochs = list_manifests(files)
    if not epochs:
        raise _no_savepoint(location, files)
    kinds = {read_manifest(files, epoch).kind for epoch in epochs}
    if len(epochs) > 1 or kinds != {"savepoint"}:
        raise StateError(
            f"{location} is the checkpoint directory of a job, not a savepoint",
            action="Leave it to the job; when the job is gone for good, delete the directory yourself.",
        )
    strange = _strange_entries(files)
    if strange:
        raise StateError(
            f"{location} holds what is no part of a savepoint: {', '.join(strange[:_SHOWN_JOBS])}",
            action="Move it away first, or delete the directory yourself.",
        )
    # The manifest first: without it, what is left of an interrupted removal is no savepoint any more.
    doomed = [path for directory in _DIRECTORIES for path in files.list(directory)]
    for doomed_path in doomed:
        files.delete(doomed_path)
    if isinstance(files, LocalFiles):
        for folder in sorted((f for f in files.root.rglob("*") if f.is_dir() and not f.is_symlink()), reverse=True):
            folder.rmdir()
        files.root.rmdir()
    return len(doomed)


def _strange_entries(files: JobFiles) -> list[str]:
    """What does not belong into the directory of a savepoint. Only a local directory tells."""
    if not isinstance(files, LocalFiles):
        return []
    links = [path.relative_to(files.root).as_posix() for path in files.root.rglob("*") if path.is_symlink()]
    return links + sorted(entry.name for entry in files.root.iterdir() if entry.name not in _DIRECTORIES)
