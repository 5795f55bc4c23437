"""Parquet to Parquet with one map, beside Spark's own `mapInArrow` with the same function."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from benchmarks.measure import Throughput, throughput
from millrace.common import Row, Types, WatermarkStrategy
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    ColumnarWriterFactory,
    FileSink,
    FileSource,
)
from millrace.spark.executor import own_session

SIZES = (400_000, 2_000_000)
GOAL = 0.3
FILES = 4

VISIT = Types.ROW_NAMED(["id", "page", "seconds"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])


def shout(visit: Any) -> tuple[int, str, float]:
    """The function."""
    return visit[0], visit[1].upper(), visit[2] * 1000


def prepare(directory: Path, size: int) -> Path:
    """The input, made once."""
    path = directory / f"in-{size}"
    if not path.exists():
        path.mkdir()
        for number in range(FILES):
            ids = range(number * size // FILES, (number + 1) * size // FILES)
            columns = {"id": list(ids), "page": [f"/page/{i % 5000}" for i in ids], "seconds": [i / 7 for i in ids]}
            pyarrow.parquet.write_table(pa.table(columns), path / f"{number}.parquet", row_group_size=50_000)
    return path


def run() -> Throughput:
    """Measure."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for size in SIZES:
            prepare(directory, size)

        def job(size: int) -> None:
            env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
            source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(VISIT), str(prepare(directory, size)))
            visits = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "visits")
            sink = FileSink.for_bulk_format(tempfile.mkdtemp(dir=directory), ColumnarWriterFactory(VISIT))
            sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            visits.map(lambda visit: Row(*shout(visit))).sink_to(sink.build())
            env.execute("parquet to parquet")

        def spark(size: int) -> None:
            frame = own_session({}).read.parquet(str(prepare(directory, size)))
            frame.mapInArrow(_shout_all, frame.schema).write.parquet(tempfile.mkdtemp(dir=directory) + "/out")

        return throughput("parquet to parquet", job, spark, SIZES, GOAL, "mapInArrow")


def _shout_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        visits = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        columns = zip(*map(shout, visits), strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=batch.schema)
