"""Millrace's own sources as one streaming source of Spark.

Its offset is a JSON object: the time, and each source's end offset. Spark asks for the latest one, in a process
beside the driver, and starts an epoch when it has changed: when a source has news, or as a heartbeat.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Iterator
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import IntegerType, StructField, StructType

from millrace.runtime.host import find_modules_in
from millrace.runtime.sources.base import Offset, Source

OWN_SOURCE = "millrace"

# An epoch at least this often (in milliseconds), for processing-time timers and idle sources.
HEARTBEAT_MS = 1000


class _Reader(DataSourceStreamReader):
    """Tells Spark how far the sources are. Spark never reads its partitions: the first stage reads the range."""

    def __init__(self, sources: dict[int, Source], start: dict[int, Offset], epoch_records: int | None) -> None:
        self._sources = sources
        self._start = start
        self._epoch_records = epoch_records
        self._last: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return own_offset(self._start)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        last = start or self._last or self.initialOffset()
        now = int(time.time() * 1000)
        ends = {str(node): self._end(source, last["sources"][str(node)], now) for node, source in self._sources.items()}
        if json.dumps(ends) == json.dumps(last["sources"]) and now - last["now"] < HEARTBEAT_MS:
            return last
        self._last = {"now": now, "sources": ends}
        return self._last

    def _end(self, source: Source, start: Offset, now: int) -> Offset:
        if source.bounded and start != source.initial_offset() and source.at_end(start):
            return start
        end = source.latest_offset(start, now)
        return end if self._epoch_records is None else source.at_most(start, end, self._epoch_records)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())

    def stop(self) -> None:
        """Called when the process beside the driver ends. Where that is because Spark has hung up (a job was
        cancelled, say), it ends here: Spark's runner would print that it cannot tell Spark of it."""
        if isinstance(sys.exc_info()[1], (EOFError, OSError)):
            os._exit(0)


def own_offset(offsets: dict[int, Offset], now: int = 0) -> dict[str, Any]:
    """The offset of our data source: those of all sources that it stands for."""
    return {"now": now, "sources": {str(node): offset for node, offset in offsets.items()}}


def register(
    spark: SparkSession,
    sources: dict[int, Source],
    start: dict[int, Offset],
    epoch_records: int | None,
    python_path: tuple[str, ...],
) -> str:
    """Make the sources known to a session, with where they begin; returns the format's name."""
    shipped = cloudpickle.dumps((sources, start, epoch_records))

    class MillraceSource(DataSource):
        """A class of its own for each job: Spark ships the class, and with it the sources. They are unpacked where the
        program's modules can be found."""

        @classmethod
        def name(cls) -> str:
            return OWN_SOURCE

        def schema(self) -> StructType:
            return StructType([StructField("_vertex", IntegerType())])

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            find_modules_in(python_path)
            return _Reader(*pickle.loads(shipped))

    spark.dataSource.register(MillraceSource)
    return OWN_SOURCE
