"""How commands lay text out for a terminal of a hundred columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

WIDTH = 100

_UNITS = ("B", "KB", "MB", "GB", "TB")


def size_in_words(size: int) -> str:
    """A number of bytes.

    >>> size_in_words(512), size_in_words(1_500_000)
    ('512 B', '1.5 MB')
    """
    amount = float(size)
    for unit in _UNITS:
        if amount < 1000 or unit == _UNITS[-1]:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def time_in_words(milliseconds: int) -> str:
    """A point in time, in UTC.

    >>> time_in_words(1_700_000_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap: int,
    right: frozenset[int] = frozenset(),
    indent: int = 2,
) -> list[str]:
    """The lines of a table. Column `wrap` takes what is left of the line, and breaks what is longer; the columns
    `right` are numbers.

    >>> for line in table(["STATE", "SIZE"], [["total", "7"], ["a", "12"]], wrap=0, right=frozenset({1})): print(line)
      STATE  SIZE
      total     7
      a        12
    """
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    others = sum(width for place, width in enumerate(widths) if place != wrap) + 2 * (len(header) - 1) + indent
    widths[wrap] = min(widths[wrap], max(WIDTH - others, len(header[wrap]), 12))
    lines = []
    for row in (header, *rows):
        broken = textwrap.wrap(row[wrap], widths[wrap], subsequent_indent="  ") or [""]
        for number, part in enumerate(broken):
            cells = [part if place == wrap else (cell if number == 0 else "") for place, cell in enumerate(row)]
            text = "  ".join(
                cell.rjust(width) if place in right else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            lines.append(f"{' ' * indent}{text}".rstrip())
    return lines


def paragraph(text: str, indent: int = 2, hang: int = 2) -> str:
    """Text broken into lines."""
    return textwrap.fill(
        text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + hang), break_on_hyphens=False
    )
