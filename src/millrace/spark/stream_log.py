"""Structured Streaming's own log, as far as Millrace reads and writes it.

    <checkpoint>/metadata             {"id": "<uuid>"}
                 offsets/<batch>      v1, a line of JSON about the session, then one line for each source of the plan
                 commits/<batch>      written when the batch is done
                 sources/<index>/     what a file source remembers of the files that it has seen

The log is derived: what counts is the manifest. A query that is to go on from a manifest gets a fresh log that says
that batch 0, with the manifest's offsets, has been committed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

_VERSION = "v1"

# What stands for a source that has no offset yet.
NO_OFFSET = "-"


@dataclass(frozen=True)
class LoggedOffsets:
    """The offsets of one batch: the session's line, and each source's."""

    session: str
    sources: list[str]


def read_offsets(checkpoint: str, batch_id: int) -> LoggedOffsets:
    """The offsets up to which a batch reads. Spark logs them before the batch begins."""
    text = Path(checkpoint, "offsets", str(batch_id)).read_text(encoding="utf-8")
    version, session, *sources = text.split("\n")
    if version != _VERSION:
        raise RuntimeError(f"Spark's offset log has version {version!r}, and not {_VERSION}.")
    return LoggedOffsets(session, sources)


def write_log(checkpoint: str, offsets: LoggedOffsets) -> None:
    """A log after which a query goes on behind these offsets, with batch 1."""
    root = Path(checkpoint)
    for name in ("offsets", "commits"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "metadata").write_text(json.dumps({"id": str(uuid4())}), encoding="utf-8")
    (root / "offsets" / "0").write_text("\n".join([_VERSION, offsets.session, *offsets.sources]), encoding="utf-8")
    (root / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")


def source_files(checkpoint: str, index: int) -> list[Path]:
    """What a source remembers in files; none for most."""
    directory = Path(checkpoint, "sources", str(index))
    return sorted(path for path in directory.glob("*") if not path.name.startswith(".")) if directory.is_dir() else []


def count_sources(frame: Any) -> int:
    """How many lines of the log a streaming DataFrame takes."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return sum(bool(leaves.apply(index).isStreaming()) for index in range(leaves.size()))
