"""Joins lose nothing and double nothing when their process dies, and go on from a savepoint at another parallelism."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Configuration, Types, WatermarkStrategy
from millrace.common.time import Duration
from millrace.datastream import KeyedStream, ProcessJoinFunction, StreamExecutionEnvironment
from millrace.datastream._joins import join_rows
from millrace.state import Savepoint
from millrace.testing import EpochSource
from millrace.testing.crashes import Crash, Crashes
from tests.driver.jobs import LogSink, environment

SEED = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 30)))

BACKENDS = ("hashmap", "rocksdb")

RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])
STAMPS = list(range(60))
random.Random(7).shuffle(STAMPS)


def epochs(side: str, step: int) -> list[list[tuple[str, int, str]]]:
    """Records of five keys, out of order by all that there is of time."""
    records = [(f"k{stamp % 5}", stamp, f"{side}{stamp}") for stamp in STAMPS if stamp % step == 0]
    return [records[start : start + 12] for start in range(0, len(records), 12)]


LEFT, RIGHT = epochs("l", 1), epochs("r", 2)
TABLE = [(f"k{number}", number, f"row {number}") for number in range(4)]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[str]:
        yield f"{left and left[2]} {right and right[2]}"


def said(record: Any, row: Any) -> str:
    return f"{record} looked up {row[2] if row else None}"


def build(env: StreamExecutionEnvironment) -> None:
    """An interval join, a temporal join and a lookup join behind it, all into the log."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(60))
    timed = strategy.with_timestamp_assigner(lambda record, before: record[1])
    keyed: list[KeyedStream] = []
    for name, source in (("left", LEFT), ("right", RIGHT)):
        stream = env.from_source(EpochSource(source, 5), timed, name, RECORD).uid(name)
        keyed.append(stream.key_by(lambda record: record[0], Types.STRING()))
    left, right = keyed
    near = left.interval_join(right, "outer").between(-5, 4).process(Pair(), Types.STRING()).uid("near")
    near.sink_to(LogSink()).uid("near log")
    as_of = left.temporal_join(right, "left").process(Pair(), Types.STRING()).uid("as of")
    rows = env.from_source(EpochSource([TABLE]), WatermarkStrategy.no_watermarks(), "table", RECORD).uid("table")
    looked_up = join_rows(as_of, rows, (lambda pair: f"k{int(pair.split()[0][1:]) % 5}", 0), said, outer=True)
    looked_up.uid("lookup").sink_to(LogSink()).uid("lookup log")


def expected() -> list[str]:
    lefts = [record for epoch in LEFT for record in epoch]
    rights = [record for epoch in RIGHT for record in epoch]
    pairs = [(a, b) for a in lefts for b in rights if a[0] == b[0] and a[1] - 5 <= b[1] <= a[1] + 4]
    results = [f"{a[2]} {b[2]}" for a, b in pairs]
    results += [f"{a[2]} None" for a in lefts if a not in [pair[0] for pair in pairs]]
    results += [f"None {b[2]}" for b in rights if b not in [pair[1] for pair in pairs]]
    names = {row[0]: row[2] for row in TABLE}
    for a in lefts:
        versions = [b for b in rights if b[0] == a[0] and b[1] <= a[1]]
        version = max(versions, key=lambda b: b[1])[2] if versions else None
        results.append(f"{a[2]} {version} looked up {names.get(a[0])}")
    return sorted(results)


def run(directory: Path, parallelism: int = 2, backend: str = "hashmap", **settings: str) -> None:
    env = environment(directory, parallelism, **settings)
    env.configure(Configuration.from_dict({"state.backend.type": backend}))
    build(env)
    env.execute_async("joins").get_job_execution_result().result()


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    LogSink.committed.clear()
    LogSink.announce = staticmethod(lambda what: None)
    yield
    LogSink.committed.clear()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_joins_give_what_they_should(tmp_path: Path, backend: str) -> None:
    run(tmp_path, backend=backend)
    assert LogSink.records() == expected()


@pytest.mark.parametrize("round_", range(12))
def test_a_crash_and_another_parallelism_and_backend_after_it_change_nothing(tmp_path: Path, round_: int) -> None:
    draw = random.Random(f"{SEED}-{round_}")
    for _ in range(2):
        with Crashes(at=draw.randrange(20, 150)) as crashes, contextlib.suppress(Crash):
            run(tmp_path, draw.choice([1, 2, 3]), draw.choice(BACKENDS))
        if not crashes.dead:
            break
    else:
        run(tmp_path, draw.choice([1, 2, 4]), draw.choice(BACKENDS))
    assert LogSink.records() == expected(), f"MILLRACE_SEED={SEED}, round {round_}"


@pytest.mark.parametrize(("parallelism", "backend"), [(1, "rocksdb"), (3, "hashmap")])
def test_a_savepoint_needs_no_pickle_and_goes_on_at_another_parallelism(
    tmp_path: Path, parallelism: int, backend: str
) -> None:
    """A killed job's last checkpoint is copied to a savepoint; the rest comes from the job that begins there."""
    with Crashes(at=90), contextlib.suppress(Crash):
        run(tmp_path / "first")
    (manifests,) = (tmp_path / "first" / "checkpoints").glob("*/manifests")
    Savepoint.read(manifests.parent).write(tmp_path / "copy")
    committed = set(LogSink.records())
    assert committed < set(expected())
    run(tmp_path / "second", parallelism, backend, **{"execution.state-recovery.path": str(tmp_path / "copy")})
    assert LogSink.records() == expected()
