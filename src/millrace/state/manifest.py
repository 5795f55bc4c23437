"""The manifest: what an epoch left behind, in one small file. An epoch counts once its manifest is there.

Its file is JSON behind a line that tells whether it is whole (`state/sealed.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles
from millrace.state.handles import StateHandles
from millrace.state.sealed import seal, unseal

MANIFEST_VERSION = 1
DIRECTORY = "manifests"

_WHAT = "manifest"


class StateMeta(msgspec.Struct, frozen=True):
    """What a manifest tells of one state of an operator.

    `section` is where it belongs: keyed, operator or timers. `types` names the type of each role (key, value, ...)
    as JSON, None where the state has none. `entries` counts keys (or items, or timers) over all subtasks.
    `queryable` is the name under which the state may be queried, None if it may not.
    """

    name: str
    section: str
    kind: str
    types: dict[str, dict[str, Any] | None] = msgspec.field(default_factory=dict)
    namespaced: bool = False
    ttl: bool = False
    entries: int = 0
    queryable: str | None = None


class OperatorMeta(msgspec.Struct, frozen=True):
    """What a restore must know of an operator. `uid` is what its state is stored under; one that begins with `@`
    was not given by the program, and stands for the operator's place in it."""

    uid: str
    vertex: str
    parallelism: int
    max_parallelism: int
    name: str = ""
    states: list[StateMeta] = msgspec.field(default_factory=list)


class Manifest(msgspec.Struct, frozen=True):
    """Everything that the next epoch starts from.

    `sources` are offsets by operator uid, as JSON says them. `subtasks` holds the state of each vertex by subtask,
    `feedback` the buffers that iterations carry into the next epoch by vertex and subtask. `spark` is what Spark's
    own sources go on from. `committables` stands for what the sinks had prepared: base64 of a pickle, by operator
    uid; they are committed again after a crash. `final` tells that the job has nothing left to read.
    """

    job_id: str
    epoch: int
    job_name: str = ""
    kind: Literal["checkpoint", "savepoint"] = "checkpoint"
    created: int = 0
    backend: str = "hashmap"
    sources: dict[str, Any] = msgspec.field(default_factory=dict)
    subtasks: dict[str, list[StateHandles]] = msgspec.field(default_factory=dict)
    operators: list[OperatorMeta] = msgspec.field(default_factory=list)
    feedback: dict[str, dict[str, list[str]]] = msgspec.field(default_factory=dict)
    spark: dict[str, Any] = msgspec.field(default_factory=dict)
    committables: dict[str, str] = msgspec.field(default_factory=dict)
    finished: list[str] = msgspec.field(default_factory=list)
    final: bool = False
    format: int = MANIFEST_VERSION

    def files(self) -> set[str]:
        """The paths of all files of the job that this manifest needs."""
        state = {handle.path for subtasks in self.subtasks.values() for handles in subtasks for handle in handles.chain}
        return state.union(*(paths for subtasks in self.feedback.values() for paths in subtasks.values()))


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest's file."""
    return seal(_WHAT, MANIFEST_VERSION, manifest)


def decode_manifest(data: bytes, path: str) -> Manifest:
    """The manifest in a file; `StateCorruptedError`, with the path, unless it is whole."""
    return unseal(_WHAT, MANIFEST_VERSION, data, path, Manifest)


def manifest_path(epoch: int) -> str:
    """Where the manifest of an epoch is. Sorted by name is sorted by epoch."""
    return f"{DIRECTORY}/{epoch:012d}.manifest"


def write_manifest(files: JobFiles, manifest: Manifest) -> str:
    """Write a manifest, atomically: from here on its epoch counts. Returns its path."""
    path = manifest_path(manifest.epoch)
    files.write(path, encode_manifest(manifest))
    return path


def read_manifest(files: JobFiles, epoch: int) -> Manifest:
    """The manifest of an epoch."""
    path = manifest_path(epoch)
    return decode_manifest(files.read(path), path)


def list_manifests(files: JobFiles) -> list[int]:
    """The epochs that have a manifest, oldest first."""
    return [
        int(stem)
        for path in files.list(DIRECTORY)
        if path.endswith(".manifest")
        and (stem := path.removeprefix(f"{DIRECTORY}/").removesuffix(".manifest")).isdigit()
    ]


def latest_manifest(files: JobFiles) -> tuple[Manifest | None, list[StateCorruptedError]]:
    """The newest manifest that is whole, and what was wrong with any newer ones."""
    damaged: list[StateCorruptedError] = []
    for epoch in reversed(list_manifests(files)):
        try:
            return read_manifest(files, epoch), damaged
        except StateCorruptedError as error:
            damaged.append(error)
    return None, damaged


def garbage(files: JobFiles, manifests_to_keep: Iterable[Manifest]) -> list[str]:
    """The files of state and iterations that none of these manifests needs, and that none to come can need.

    A file of an epoch after the newest manifest may be about to be named by the next one, and is left alone.
    """
    kept = list(manifests_to_keep)
    needed = set().union(*(manifest.files() for manifest in kept))
    newest = max((manifest.epoch for manifest in kept), default=-1)
    found = [*files.list("state"), *files.list("feedback")]
    return [path for path in found if path not in needed and _epoch_of(path) <= newest]


def _epoch_of(path: str) -> int:
    epoch = path.rpartition("/")[2].partition("-")[0]
    return int(epoch) if epoch.isdigit() else -1
