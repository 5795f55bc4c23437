"""The file sink, exactly once: the process dies at every step of writing, committing, merging and cleaning up."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from millrace.common import Row, Types, WatermarkStrategy
from millrace.common.serialization import Encoder
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors.file_system import (
    BucketAssigner,
    ColumnarWriterFactory,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from millrace.testing import EpochSource
from millrace.testing.crashes import Crash, Crashes
from millrace.testing.in_process import InProcessExecutor
from tests.driver.jobs import environment

SEED = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 30)))

RECORDS = list(range(48))
EPOCHS = [RECORDS[start : start + 12] for start in range(0, 48, 12)]
ROW = Types.ROW_NAMED(["number"], [Types.LONG()])
MERGE = FileCompactStrategy.builder().set_size_threshold(30).build()


class ByTen(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"tens={element // 10}"


def make_sink(kind: str, directory: Path) -> FileSink:
    if kind == "parquet":
        bulk = FileSink.for_bulk_format(str(directory), ColumnarWriterFactory(ROW))
        bulk.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        return bulk.enable_compact(MERGE, FileCompactor.parquet_file_compactor()).build()
    rows = FileSink.for_row_format(str(directory), Encoder.simple_string_encoder()).with_bucket_assigner(ByTen())
    if kind == "rolling":
        return rows.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=5)).build()
    return rows.enable_compact(MERGE).build()


def run(directory: Path, kind: str, parallelism: int = 2, every_epoch: bool = True) -> None:
    env = environment(directory, parallelism)
    if not every_epoch:
        env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor()).set_parallelism(parallelism)
        env.enable_checkpointing(60_000)
        env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    numbers = env.from_source(EpochSource(EPOCHS, 5), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream = numbers.rebalance()
    if kind == "parquet":
        stream = stream.map(lambda number: Row(number=number), ROW).uid("row")
    stream.sink_to(make_sink(kind, directory / "out")).uid("files")
    env.execute("files")


def content(directory: Path) -> list[int]:
    numbers: list[int] = []
    for file in (directory / "out").rglob("*part-*"):
        assert ".staging" not in file.parts
        if file.read_bytes()[:4] == b"PAR1":
            numbers += [row["number"] for row in pyarrow.parquet.read_table(str(file)).to_pylist()]
        else:
            numbers += map(int, file.read_text().splitlines())
    return sorted(numbers)


def is_over(directory: Path) -> bool:
    return not list((directory / "checkpoints" / "jobs").glob("*.json"))


def crash_once(directory: Path, kind: str, at: int, **settings: Any) -> Crashes:
    with Crashes(at=at) as crashes, contextlib.suppress(Crash):
        run(directory, kind, **settings)
    return crashes


@pytest.mark.parametrize(("kind", "every"), [("rolling", 2), ("compacting", 1), ("parquet", 2)])
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path, kind: str, every: int) -> None:
    with Crashes() as steps:
        run(tmp_path / "undisturbed", kind)
    assert content(tmp_path / "undisturbed") == RECORDS
    kills = range(1, steps.taken + 1, every)
    assert len(kills) >= 30
    for number in kills:
        directory = tmp_path / str(number)
        crashes = crash_once(directory, kind, number)
        assert crashes.dead
        seen = content(directory)
        assert len(seen) == len(set(seen)), f"died at step {number}: {crashes.last}"
        if not is_over(directory) or not seen:
            run(directory, kind)
        assert content(directory) == RECORDS, f"died at step {number}: {crashes.last}"
        # Only a process that dies when all is done, but for the clearing up, has nobody after it to do that.
        staged = [path for path in (directory / "out" / ".staging").rglob("*") if path.is_file()]
        assert not staged, f"died at step {number}: {crashes.last}"


@pytest.mark.parametrize("kind", ["rolling", "compacting"])
def test_crashes_with_several_epochs_to_a_checkpoint(tmp_path: Path, kind: str) -> None:
    with Crashes() as steps:
        run(tmp_path / "undisturbed", kind, every_epoch=False)
    for number in range(1, steps.taken + 1, 4):
        directory = tmp_path / str(number)
        crashes = crash_once(directory, kind, number, every_epoch=False)
        if not is_over(directory) or not content(directory):
            run(directory, kind, every_epoch=False)
        assert content(directory) == RECORDS, f"died at step {number}: {crashes.last}"


@pytest.mark.parametrize("round_", range(20))
def test_several_crashes_and_another_parallelism_after_each(tmp_path: Path, round_: int) -> None:
    draw = random.Random(f"{SEED}-{round_}")
    for _ in range(3):
        crashes = crash_once(tmp_path, "compacting", draw.randrange(5, 250), parallelism=draw.choice([1, 2, 3]))
        if not crashes.dead:
            break
    else:
        run(tmp_path, "compacting", parallelism=draw.choice([1, 2, 3]))
    assert content(tmp_path) == RECORDS, f"MILLRACE_SEED={SEED}, round {round_}"


