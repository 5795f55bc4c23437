"""What Spark's own sources go on from: out of Structured Streaming's log into manifests, and back into a new log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from millrace.driver.job import JobRun
from millrace.driver.restoring import RestoreRefusedError
from millrace.spark.own_source import own_offset
from millrace.spark.stream_log import NO_OFFSET, LoggedOffsets, count_sources, source_files, write_log
from millrace.state.handles import safe_name


class StreamPosition:
    """The position of a query whose first source is ours and the others those of `frames`, by operator uid.

    In a manifest it is `{"session": line, "sources": {uid: lines}, "files": paths, "tables": uids}`, where the paths
    are those of copies in the job's directory.
    """

    def __init__(self, frames: dict[str, DataFrame], job: JobRun) -> None:
        self._job = job
        self._counts = {uid: count_sources(frame) for uid, frame in frames.items()}
        self._copied: list[str] = list(job.coordinator.state.spark.get("files", []))
        self._tables: list[str] = list(job.coordinator.state.spark.get("tables", []))

    def restore(self, checkpoint: str) -> None:
        """Write a log from which the query goes on where the job's state stands. Our own source knows by itself."""
        saved = self._job.coordinator.state.spark
        if not self._counts or not saved.get("session"):
            return
        lines = [json.dumps(own_offset(self._job.coordinator.state.offsets))]
        for uid, count in self._counts.items():
            known = saved["sources"].get(uid)
            if known is not None and len(known) != count:
                raise RestoreRefusedError(
                    f"The DataFrame of operator {uid!r} reads {count} sources, and read {len(known)} before.",
                    action="Read the same sources in the same order, or give the operator another uid.",
                )
            for number in range(count):
                self._restore_files(checkpoint, uid, number, len(lines) + number)
            lines += known or [NO_OFFSET] * count
        write_log(checkpoint, LoggedOffsets(saved["session"], lines))

    def _restore_files(self, checkpoint: str, uid: str, number: int, index: int) -> None:
        start = _directory(uid, number)
        for path in self._copied:
            if path.startswith(start):
                target = Path(checkpoint, "sources", str(index), path.removeprefix(start))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._job.home.files.read(path))

    def follow(self, checkpoint: str, logged: LoggedOffsets, tables: list[int]) -> None:
        """A batch begins: what the job stands at when it has become an epoch. Read only if a manifest asks for it."""
        uids = {vertex.id: vertex.nodes[0].state_id for vertex in self._job.plan.vertices}
        self._tables += [uids[vertex] for vertex in tables if uids[vertex] not in self._tables]
        self._job.spark_position = lambda: self._saved(checkpoint, logged)

    def lines(self, logged: LoggedOffsets, vertex: int) -> list[str]:
        """What a batch's log says of one source."""
        uid = next(each.nodes[0].state_id for each in self._job.plan.vertices if each.id == vertex)
        index = 1 + sum(count for other, count in list(self._counts.items())[: list(self._counts).index(uid)])
        return logged.sources[index : index + self._counts[uid]]

    def _saved(self, checkpoint: str, logged: LoggedOffsets) -> dict[str, Any]:
        sources: dict[str, list[str]] = {}
        index = 1
        for uid, count in self._counts.items():
            sources[uid] = logged.sources[index : index + count]
            for number in range(count):
                self._copy_files(checkpoint, uid, number, index + number)
            index += count
        return {"session": logged.session, "sources": sources, "files": list(self._copied), "tables": self._tables}

    def _copy_files(self, checkpoint: str, uid: str, number: int, index: int) -> None:
        for file in source_files(checkpoint, index):
            path = f"{_directory(uid, number)}{file.name}"
            if path not in self._copied:
                self._job.home.files.write(path, file.read_bytes())
                self._copied.append(path)


def _directory(uid: str, number: int) -> str:
    return f"spark/{safe_name(uid)}/{number}/"


def unread_tables(job: JobRun, tables: dict[int, DataFrame]) -> dict[int, DataFrame]:
    """The DataFrames without a stream that the job has not read yet: each is read once, in the first epoch."""
    read = set(job.coordinator.state.spark.get("tables", []))
    uids = {vertex.id: vertex.nodes[0].state_id for vertex in job.plan.vertices}
    return {vertex: frame for vertex, frame in tables.items() if uids[vertex] not in read}
