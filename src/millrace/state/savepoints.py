"""Savepoints: all state of a subtask in files of a known size, that any backend reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from millrace.state.delta import Fragment, Part, StateFile, Version
from millrace.state.files import JobFiles
from millrace.state.fragments import encode_columns
from millrace.state.handles import StateHandles, write_state_file
from millrace.state.tables import Columns, Table

# Rows of one file. Enough for a file of megabytes; few enough that one is in memory without anyone noticing.
CHUNK = 50_000


def table_fragments(uid: str, section: str, table: Table, meta: dict[str, object]) -> Iterator[tuple[int, Fragment]]:
    """What a table holds, as fragments to be applied one after the other, each with its number of rows."""
    for columns in table.chunks(CHUNK):
        rows = _rows(columns)
        if rows:
            yield rows, Fragment(uid, section, meta, encode_columns(table.codecs, columns)[1])


def _rows(columns: Columns) -> int:
    return max(map(len, columns.values()), default=0)


def write_chunks(
    files: JobFiles, vertex: str, subtask: int, version: Version, fragments: Iterable[tuple[int, Fragment]]
) -> StateHandles:
    """Write fragments as a chain of files: a base, and what would not fit into it."""
    chain = []
    for number, piece in enumerate(_gathered(fragments)):
        kind = "delta" if number else "base"
        part = Part(Version(version.epoch, f"{version.attempt}/{number}" if number else version.attempt), piece)
        chain.append(write_state_file(files, StateFile(kind, vertex, subtask, [part])))
    return StateHandles(tuple(chain))


def _gathered(fragments: Iterable[tuple[int, Fragment]]) -> Iterator[list[Fragment]]:
    piece: list[Fragment] = []
    weight = 0
    for rows, fragment in fragments:
        if piece and weight + rows > CHUNK:
            yield piece
            piece, weight = [], 0
        piece.append(fragment)
        weight += rows
    if piece:
        yield piece
