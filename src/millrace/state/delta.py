"""The format of a state file: what one subtask's delta or base looks like on disk.

    8 bytes   "MILLRACE"
    2 bytes   version of the format, little-endian, as are all numbers
    4 bytes   length of the header
    4 bytes   CRC-32 of the header
    header    JSON: what the file holds, and for each column its encoding, length and CRC-32
    columns   the bytes of all columns, one after the other, in the order of the header

A file holds **parts**, one per epoch that it covers; a part holds **fragments**, one per state that changed; a
fragment holds columns. A delta or base has one part, a merged file those of the deltas that it replaced.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from millrace.state.codec import EncodedColumn
from millrace.state.errors import StateCorruptedError

MAGIC = b"MILLRACE"
FORMAT_VERSION = 1

_PREAMBLE = struct.Struct("<8sHII")


class Version(NamedTuple):
    """Which snapshot a state is at: no two attempts of an epoch have the same."""

    epoch: int
    attempt: str


# What a subtask is at that has no state at all.
NO_STATE = Version(-1, "")


class Fragment(NamedTuple):
    """What one file says about one state."""

    uid: str
    section: str
    meta: dict[str, Any]
    columns: dict[str, EncodedColumn]

    @property
    def address(self) -> tuple[str, str, str]:
        """Which state this is about: operator, section (keyed, operator, timers), name."""
        return self.uid, self.section, self.meta["name"]


class Part(NamedTuple):
    """What one epoch changed."""

    version: Version
    fragments: list[Fragment]


class StateFile(NamedTuple):
    """A file, taken apart."""

    kind: str
    vertex: str
    subtask: int
    parts: list[Part]


class _Column(msgspec.Struct, omit_defaults=True):
    name: str
    encoding: str
    length: int
    crc: int
    type: dict[str, Any] | None = None
    pickled: bool = False


class _Fragment(msgspec.Struct):
    uid: str
    section: str
    state: dict[str, Any]
    columns: list[_Column]


class _Part(msgspec.Struct):
    epoch: int
    attempt: str
    fragments: list[_Fragment]


class _Header(msgspec.Struct):
    kind: str
    vertex: str
    subtask: int
    parts: list[_Part]


def encode_file(file: StateFile) -> bytes:
    """The bytes of a state file."""
    chunks: list[bytes | memoryview] = []
    parts = [
        _Part(part.version.epoch, part.version.attempt, [_fragment_header(f, chunks) for f in part.fragments])
        for part in file.parts
    ]
    header = msgspec.json.encode(_Header(file.kind, file.vertex, file.subtask, parts))
    preamble = _PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(header), crc32(header))
    return b"".join((preamble, header, *chunks))


def _fragment_header(fragment: Fragment, chunks: list[bytes | memoryview]) -> _Fragment:
    columns = []
    for name, column in fragment.columns.items():
        data = column.data
        chunks.append(data)
        columns.append(_Column(name, column.encoding, len(data), crc32(data), column.type_json, column.pickled))
    return _Fragment(fragment.uid, fragment.section, fragment.meta, columns)


def decode_file(data: bytes, path: str) -> StateFile:
    """Take a file apart and check all of it. `path` is for the message where it is damaged."""
    try:
        return _decode_file(data)
    except StateCorruptedError as error:
        raise StateCorruptedError(error.message, path=path) from error.__cause__


def _decode_file(data: bytes) -> StateFile:
    header, start = _decode_header(data)
    view = memoryview(data)
    parts = []
    for part in header.parts:
        fragments = []
        for fragment in part.fragments:
            columns = {}
            for column in fragment.columns:
                columns[column.name] = _read_column(view, start, column)
                start += column.length
            fragments.append(Fragment(fragment.uid, fragment.section, fragment.state, columns))
        parts.append(Part(Version(part.epoch, part.attempt), fragments))
    if start != len(data):
        raise StateCorruptedError(f"{len(data) - start} bytes too many at the end")
    return StateFile(header.kind, header.vertex, header.subtask, parts)


def _decode_header(data: bytes) -> tuple[_Header, int]:
    if len(data) < _PREAMBLE.size:
        raise StateCorruptedError(f"cut short: {len(data)} bytes are no state file")
    magic, version, length, checksum = _PREAMBLE.unpack_from(data)
    if magic != MAGIC:
        raise StateCorruptedError(f"not a state file: it begins with {magic!r}")
    if version != FORMAT_VERSION:
        raise StateCorruptedError(f"format {version} is unknown here, where {FORMAT_VERSION} is the newest")
    end = _PREAMBLE.size + length
    header = data[_PREAMBLE.size : end]
    if len(header) < length:
        raise StateCorruptedError(f"cut short within its header: {len(data)} of at least {end} bytes")
    if crc32(header) != checksum:
        raise StateCorruptedError("the checksum of the header does not fit")
    try:
        return msgspec.json.decode(header, type=_Header), end
    except msgspec.DecodeError as error:
        raise StateCorruptedError(f"the header is not understood: {error}") from error


def _read_column(view: memoryview, start: int, column: _Column) -> EncodedColumn:
    data = view[start : start + column.length]
    if column.length < 0 or len(data) < column.length:
        raise StateCorruptedError(f"cut short within column {column.name!r}")
    if crc32(data) != column.crc:
        raise StateCorruptedError(f"the checksum of column {column.name!r} does not fit")
    return EncodedColumn(column.encoding, column.type, column.pickled, data)
