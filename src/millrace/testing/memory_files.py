"""A job's files in memory."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.state.errors import StateCorruptedError
from millrace.state.files import checked


class MemoryFiles:
    """What state needs of a file system (`JobFiles`), kept in a dict.

    >>> files = MemoryFiles()
    >>> files.write("state/1/0/1-a.base", b"...")
    >>> files.list("state"), files.read("state/1/0/1-a.base")
    (['state/1/0/1-a.base'], b'...')
    """

    def __init__(self, content: Mapping[str, bytes] | None = None) -> None:
        self.content: dict[str, bytes] = dict(content or {})

    def read(self, path: str) -> bytes:
        try:
            return self.content[checked(path)]
        except KeyError:
            raise StateCorruptedError("the file is missing", path=path) from None

    def write(self, path: str, data: bytes) -> None:
        self.content[checked(path)] = bytes(data)

    def list(self, directory: str) -> list[str]:
        start = checked(directory).rstrip("/") + "/"
        return sorted(path for path in self.content if path.startswith(start))

    def delete(self, path: str) -> None:
        self.content.pop(checked(path), None)
