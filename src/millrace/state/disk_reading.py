"""What is in the files of a database, as fragments: for whoever reads somebody else's state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from millrace.state.backends import BackendSpec
from millrace.state.delta import Fragment
from millrace.state.disk_backend import CHUNK, DiskBackend
from millrace.state.disk_files import fetch
from millrace.state.disk_store import LocalStore
from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles
from millrace.state.fragments import encode_columns
from millrace.state.handles import FileHandle
from millrace.state.tables import Clock


def database_fragments(
    database: tuple[FileHandle, ...], files: JobFiles, clock: Clock, *, allow_pickle: bool
) -> Iterator[Fragment]:
    """The keyed state in a database, in pieces of some ten thousand rows. It is opened in a temporary copy."""
    with TemporaryDirectory(prefix="millrace-database-") as folder:
        fetch(database, files, Path(folder, "db"))
        store = LocalStore(Path(folder), BackendSpec("rocksdb", folder))
        backend = DiskBackend(store, clock, _refuse, allow_pickle=allow_pickle)
        backend.expect(database[0].versions()[0])
        try:
            for (uid, section, _), table, meta in backend.stored_tables():
                for columns in table.chunks(CHUNK):
                    yield Fragment(uid, section, meta, encode_columns(table.codecs, columns)[1])
        finally:
            store.release()


def _refuse() -> None:
    raise StateCorruptedError("the database is at another version than its handle says")
