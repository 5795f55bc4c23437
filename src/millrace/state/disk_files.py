"""The database's files as files of the checkpoint: a base that shares with the last one what did not change.

A closed database is a set of files, most of which never change once they are written. Each goes up once, under
`state/<vertex>/<subtask>/<epoch>-<attempt>@<name>`, and later bases name it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from millrace.state.delta import Version
from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles
from millrace.state.handles import FileHandle, checksum

# What a database needs to be opened. Of its other files it can make new ones.
_NEEDED = re.compile(r"CURRENT|MANIFEST-\d+|\d+\.sst|rocksdict-config\.json")

# Which file of the checkpoint holds which file here. It lies in the database's own directory, because another
# database may use the same name for something else.
_SENT = "sent.json"


def send(
    directory: Path, files: JobFiles, prefix: str, version: Version, known: Iterable[FileHandle]
) -> list[FileHandle]:
    """Write the files of a closed database, which is at `version`, into the checkpoint, unless `known` has them.

    The files become `<prefix>@<name>`.
    """
    present = {handle.path: handle for handle in known if handle.path.endswith(".sst")}
    sent = _read_sent(directory)
    handles = []
    for path in sorted(directory.iterdir()):
        if _NEEDED.fullmatch(path.name):
            old = present.get(sent.get(path.name, ""))
            handles.append(_send_one(path, files, prefix) if old is None else old)
            sent[path.name] = handles[-1].path
    (directory / _SENT).write_bytes(msgspec.json.encode(sent))
    return [replace(handle, epoch=version.epoch, attempt=version.attempt) for handle in handles]


def _read_sent(directory: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((directory / _SENT).read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def _send_one(path: Path, files: JobFiles, prefix: str) -> FileHandle:
    data = path.read_bytes()
    target = f"{prefix}@{path.name}"
    files.write(target, data)
    return FileHandle(target, len(data), checksum(data), 0, "", "sst")


def fetch(handles: Iterable[FileHandle], files: JobFiles, directory: Path) -> None:
    """Put the files of a database into a new directory, each checked to be what its handle means."""
    directory.mkdir(parents=True)
    sent = {}
    for handle in handles:
        name = handle.path.rpartition("@")[2]
        if not _NEEDED.fullmatch(name):
            raise StateCorruptedError("no file of a database has such a name", path=handle.path)
        data = files.read(handle.path)
        if len(data) != handle.size or checksum(data) != handle.checksum:
            raise StateCorruptedError("the checksum of the file does not fit", path=handle.path)
        (directory / name).write_bytes(data)
        sent[name] = handle.path
    (directory / _SENT).write_bytes(msgspec.json.encode(sent))
