"""Files in, files out, on Spark: whole machines are killed, and every line arrives once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import millrace
from millrace.common import Row, Types, WatermarkStrategy
from millrace.common.time import Duration
from millrace.datastream.connectors import NumberSequenceSource
from millrace.datastream.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    ColumnarWriterFactory,
    FileSink,
    FileSource,
    StreamFormat,
)
from millrace.datastream.connectors.hybrid_source import HybridSource
from tests.spark.jobs import environment, eventually
from tests.spark.test_jobs_recovery import durable, kill_all

pytestmark = pytest.mark.spark

SOURCE = str(Path(millrace.__file__).parents[1])
SEED = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 30)))
BASE = BucketAssigner.base_path_bucket_assigner()
NUMBER = Types.ROW_NAMED(["number"], [Types.LONG()])

PROGRAM = """
    import sys
    from pathlib import Path
    from millrace.common import Configuration, WatermarkStrategy
    from millrace.common.serialization import Encoder
    from millrace.common.time import Duration
    from millrace.datastream import StreamExecutionEnvironment
    from millrace.datastream.connectors.file_system import (
        BucketAssigner, FileCompactStrategy, FileSink, FileSource, StreamFormat
    )

    directory = Path(sys.argv[1])
    configuration = Configuration().set_string("spark.master", "local[2]")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    env.enable_checkpointing(int(sys.argv[2]))
    env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    text = StreamFormat.text_line_format()
    source = FileSource.for_record_stream_format(text, str(directory / "in"))
    source = source.monitor_continuously(Duration.of_millis(20)).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    sink = sink.with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy"))
    sink = sink.enable_compact(FileCompactStrategy.builder().set_size_threshold(2000).build())
    lines.rebalance().map(lambda line: line.upper()).sink_to(sink.build()).uid("files")
    env.execute("files")
"""


def start(directory: Path, interval: int) -> subprocess.Popen[bytes]:
    (directory / "tmp").mkdir(exist_ok=True)
    script = directory / "job.py"
    script.write_text(textwrap.dedent(PROGRAM))
    with (directory / "err").open("ab") as err:
        return subprocess.Popen(
            [sys.executable, str(script), str(directory), str(interval)],
            env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(directory / "tmp")},
            stderr=err,
            start_new_session=True,
        )


def written(directory: Path) -> list[str]:
    files = directory.glob("out/2*/*part-*")
    return sorted(line for file in files for line in file.read_text().splitlines())


@pytest.mark.slow
def test_a_machine_that_dies_while_files_are_written_and_made_visible(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    (tmp_path / "in").mkdir()
    expected: list[str] = []

    def feed(files: int) -> None:
        for _ in range(files):
            lines = [f"line {len(expected) + number}" for number in range(draw.randrange(1, 200))]
            partial = tmp_path / "in" / ".partial"
            partial.write_text("".join(f"{line}\n" for line in lines))
            partial.rename(tmp_path / "in" / f"{len(expected):08}")
            expected.extend(line.upper() for line in lines)

    process = None
    try:
        for round_ in range(4):
            process = start(tmp_path, draw.choice([10, 300]))
            feed(5)
            goal = len(written(tmp_path))
            eventually(lambda goal=goal: len(written(tmp_path)) > goal, 90)
            end = time.monotonic() + draw.uniform(0.2, 1.5)
            while time.monotonic() < end:
                feed(1)
                time.sleep(0.03)
            assert process.poll() is None, (tmp_path / "err").read_text()
            if round_ < 3:
                kill_all(process)
                assert len(set(written(tmp_path))) == len(written(tmp_path)), f"MILLRACE_SEED={SEED}"
        eventually(lambda: len(written(tmp_path)) >= len(expected), 60)
        assert written(tmp_path) == sorted(expected), f"MILLRACE_SEED={SEED}"
    finally:
        if process is not None and process.poll() is None:
            kill_all(process)


@pytest.mark.usefixtures("nothing_is_left")
def test_parquet_to_parquet(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for part in range(3):
        table = {"number": list(range(part * 1000, (part + 1) * 1000)), "unused": ["x"] * 1000}
        pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "in" / f"{part}.parquet", row_group_size=300)
    env = environment(2)
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(NUMBER), str(tmp_path / "in")).build()
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", NUMBER)
    doubled = rows.map(lambda row: Row(number=2 * row.number), NUMBER)
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), ColumnarWriterFactory(NUMBER)).with_bucket_assigner(BASE)
    doubled.sink_to(sink.build())
    env.execute("parquet")
    files = list((tmp_path / "out").glob("part-*"))
    numbers = [number for file in files for number in pyarrow.parquet.read_table(file)["number"].to_pylist()]
    assert sorted(numbers) == list(range(0, 6000, 2))
    assert not (tmp_path / "out" / ".staging").exists()


@pytest.mark.usefixtures("nothing_is_left")
def test_a_savepoint_remembers_which_files_were_read(tmp_path: Path) -> None:
    """First the files of one directory, then whatever comes into another."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "old" / "a").write_text("1\n2\n")

    def source() -> HybridSource:
        text = StreamFormat.text_line_format()
        old = FileSource.for_record_stream_format(text, str(tmp_path / "old")).build()
        new = FileSource.for_record_stream_format(text, str(tmp_path / "new"))
        return HybridSource.builder(old).add_source(new.monitor_continuously(Duration.of_millis(20)).build()).build()

    def read() -> list[str]:
        return sorted(line for file in tmp_path.glob("out/part-*") for line in file.read_text().splitlines())

    savepoint = None
    for round_ in range(2):
        partial = tmp_path / "new" / ".partial"
        partial.write_text(f"new {round_}\n")
        partial.rename(tmp_path / "new" / str(round_))
        env = durable(tmp_path, 1 + round_, interval=50)
        if savepoint is not None:
            env._configuration.set_string("execution.state-recovery.path", savepoint)
        lines = env.from_source(source(), WatermarkStrategy.no_watermarks(), "lines").uid("lines")
        sink: Any = FileSink.for_row_format(str(tmp_path / "out"), _encoder()).with_bucket_assigner(BASE)
        lines.sink_to(sink.build()).uid("out")
        client = env.execute_async("remembers")
        eventually(lambda round_=round_: len(read()) >= 3 + round_, 30)
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        client.get_job_execution_result().result()
    assert read() == ["1", "2", "new 0", "new 1"]


def _encoder() -> Any:
    from millrace.common.serialization import Encoder

    return Encoder.simple_string_encoder()


def test_numbers_and_then_numbers_in_batch_mode() -> None:
    source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(NumberSequenceSource(4, 6)).build()
    env = environment(2, batch=True)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    assert sorted(stream.execute_and_collect()) == [1, 2, 3, 4, 5, 6]
