"""`print()`: records on standard output, as Flink writes them."""

from __future__ import annotations

import sys

from millrace.runtime.rows import SinkRecords


def prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """What stands before each record: `id:3> `, `3> `, `id> ` or nothing.

    >>> prefix(None, 2, 4), prefix("alarms", 0, 1), prefix("alarms", 0, 2), prefix(None, 0, 1)
    ('3> ', 'alarms> ', 'alarms:1> ', '')
    """
    place = str(subtask + 1) if parallelism > 1 else ""
    parts = [part for part in (identifier or "", place) if part]
    return f"{':'.join(parts)}> " if parts else ""


def print_records(records: SinkRecords, identifier: str | None, parallelism: int) -> None:
    """Write the records of one sink's subtask."""
    start = prefix(identifier, records.subtask, parallelism)
    sys.stdout.write("".join(f"{start}{value}\n" for value in records.values))
    sys.stdout.flush()
