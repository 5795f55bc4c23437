"""Small JSON files that are never mistaken for whole when they are not.

Such a file is a line `millrace-<what> <version> <length> <checksum>` and JSON of that length: it can be read by eye.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from millrace.state.errors import StateCorruptedError
from millrace.state.handles import checksum

_T = TypeVar("_T")


def seal(what: str, version: int, content: msgspec.Struct) -> bytes:
    """The bytes of the file."""
    body = msgspec.json.format(msgspec.json.encode(content), indent=1)
    return b"millrace-%s %d %d %s\n%s" % (what.encode(), version, len(body), checksum(body).encode(), body)


def unseal(what: str, version: int, data: bytes, path: str, kind: type[_T]) -> _T:
    """The content of the file; `StateCorruptedError`, with the path, unless it is whole."""
    head, _, body = data.partition(b"\n")
    fields = head.split(b" ")
    if len(fields) != 4 or fields[0] != b"millrace-" + what.encode():
        raise StateCorruptedError(f"no {what}, or cut short within its first line", path=path)
    if fields[1] != b"%d" % version:
        raise StateCorruptedError(f"{what} format {fields[1].decode('ascii', 'replace')} is unknown here", path=path)
    if fields[2] != b"%d" % len(body):
        raise StateCorruptedError(f"{len(body)} bytes instead of what its first line says", path=path)
    if fields[3] != checksum(body).encode():
        raise StateCorruptedError(f"the checksum of the {what} does not fit", path=path)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise StateCorruptedError(f"the {what} is not understood: {error}", path=path) from error
