"""Reads the tables of docs/differences-from-flink.md."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences-from-flink.md"

_ROW = re.compile(r"^\| `(?P<name>[^`]+)` \| (?P<reason>.+?) \|$")


class Difference(NamedTuple):
    """One row: a PyFlink name (without ``pyflink.``), which may hold wildcards, and why Millrace differs."""

    name: str
    reason: str
    line: int

    def names(self, item: str) -> bool:
        """Whether the row speaks of this very name."""
        return fnmatchcase(item, self.name)

    def covers(self, item: str) -> bool:
        """Whether the row speaks of this name or of something that it lies in."""
        parts = item.split(".")
        return any(self.names(".".join(parts[:length])) for length in range(len(parts), 0, -1))


def read_differences(page: Path = PAGE) -> list[Difference]:
    lines = page.read_text(encoding="utf-8").splitlines()
    matches = ((number, _ROW.match(line)) for number, line in enumerate(lines, 1))
    return [Difference(match["name"], match["reason"], number) for number, match in matches if match]
