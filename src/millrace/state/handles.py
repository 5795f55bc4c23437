"""Handles: what a subtask reports of its state, and what it is told to start from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from millrace.state.delta import NO_STATE, StateFile, Version, decode_file, encode_file
from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles

# Below this a directory, name or URI would surely take no offence.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.=-]+")


@dataclass(frozen=True, slots=True)
class FileHandle:
    """One state file: where it is, how to tell that it is intact, and which snapshots it holds.

    `kind` is `base` (everything), `delta` (what one epoch changed), `merged` (several deltas) or `sst` (a file of the
    local database, at the snapshot that the handle names). `covers` are the snapshots in the file, as (epoch, attempt),
    ending with the file's own.
    """

    path: str
    size: int
    checksum: str
    epoch: int
    attempt: str
    kind: str
    covers: tuple[tuple[int, str], ...] = ()

    def versions(self) -> list[Version]:
        """The snapshots that this file holds, oldest first."""
        return [Version(*version) for version in self.covers] or [Version(self.epoch, self.attempt)]


@dataclass(frozen=True, slots=True)
class StateHandles:
    """The state of one subtask at the end of an epoch: a base and what was changed since.

    With state on disk, the base is the files of a database and a `base` file: the rest of the state in whole, and
    what the epoch of that file changed on disk.
    """

    chain: tuple[FileHandle, ...] = ()

    @property
    def database(self) -> tuple[FileHandle, ...]:
        """The files of the database, if there are any."""
        return tuple(handle for handle in self.chain if handle.kind == "sst")

    @property
    def files(self) -> tuple[FileHandle, ...]:
        """The files that `read_state_file` reads, oldest first."""
        return tuple(handle for handle in self.chain if handle.kind != "sst")

    @property
    def deltas(self) -> tuple[FileHandle, ...]:
        """The files on top of the base."""
        return tuple(handle for handle in self.chain if handle.kind not in ("sst", "base"))

    def versions(self) -> list[Version]:
        """The snapshots in the files."""
        return [version for handle in self.files for version in handle.versions()]

    def line(self) -> list[Version]:
        """The versions that a database may be at on its way to this state: what it begins from, and the snapshots."""
        return [*(self.database[0].versions() if self.database else [NO_STATE]), *self.versions()]

    @property
    def version(self) -> Version | None:
        """The snapshot that the chain ends with, or None for no state at all."""
        return self.chain[-1].versions()[-1] if self.chain else None

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(handle.size for handle in self.chain)


def checksum(data: bytes) -> str:
    """The checksum of a whole file, as handles and manifests carry it."""
    return blake2b(data, digest_size=16).hexdigest()


def safe_name(text: str) -> str:
    """A vertex or attempt as part of a file's name. Different texts stay different.

    >>> safe_name("map-1"), safe_name("a/../b")
    ('map-1', 'a_.._b~7324bee3')
    """
    cleaned = _UNSAFE.sub("_", text)
    if cleaned == text and text.strip("."):
        return text
    return f"{cleaned}~{blake2b(text.encode(), digest_size=4).hexdigest()}"


def write_state_file(files: JobFiles, file: StateFile) -> FileHandle:
    """Write a state file under its name, `state/<vertex>/<subtask>/<epoch>-<attempt>.<kind>`."""
    version = file.parts[-1].version
    name = f"{version.epoch}-{safe_name(version.attempt)}.{file.kind}"
    path = f"state/{safe_name(file.vertex)}/{file.subtask}/{name}"
    data = encode_file(file)
    files.write(path, data)
    covers = tuple((part.version.epoch, part.version.attempt) for part in file.parts) if len(file.parts) > 1 else ()
    return FileHandle(path, len(data), checksum(data), version.epoch, version.attempt, file.kind, covers)


def read_state_file(files: JobFiles, handle: FileHandle) -> StateFile:
    """Read a state file and check that it is the one that the handle means, whole and unchanged."""
    data = files.read(handle.path)
    if len(data) != handle.size:
        raise StateCorruptedError(f"{len(data)} bytes instead of {handle.size}", path=handle.path)
    if checksum(data) != handle.checksum:
        decode_file(data, handle.path)  # says which part of it is damaged, if it can
        raise StateCorruptedError("the checksum of the file does not fit", path=handle.path)
    file = decode_file(data, handle.path)
    if [part.version for part in file.parts] != handle.versions():
        raise StateCorruptedError("it holds other snapshots than its handle says", path=handle.path)
    return file
