"""Windows go through crashes, restarts with another parallelism, and both state backends, and nobody can tell."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Types, WatermarkStrategy
from millrace.datastream import EmbeddedRocksDBStateBackend, HashMapStateBackend, OutputTag, StateBackend
from millrace.datastream import window as w
from millrace.testing import EpochSource
from millrace.testing.crashes import Crash, Crashes
from tests.driver.jobs import LogSink, environment
from tests.runtime.windowing.test_random_windows import Gather, General, Labelled, Numbers

SEED = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 30)))
LATE = OutputTag("late")
RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
NUMBERS = Types.LIST(Types.LONG())


class GatherList(Gather):
    """The numbers of a window in a list, so that they have a type."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value[1]]


def records() -> list[list[tuple[str, int, int]]]:
    """Six epochs, somewhat out of order, a few too late."""
    draw = random.Random(7)
    made = [(f"k{draw.randrange(6)}", number, number - draw.choice([0, 0, 1, 3, 20])) for number in range(90)]
    return [made[start : start + 15] for start in range(0, 90, 15)]


def windows(stream: Any) -> dict[str, Any]:
    """Every way in which windows keep their state."""
    return {
        "tumbling": stream.window(w.TumblingEventTimeWindows.of(10)).aggregate(GatherList(), Labelled(), NUMBERS),
        "lateness": stream.window(w.TumblingEventTimeWindows.of(10))
        .allowed_lateness(15).aggregate(GatherList(), Labelled(), NUMBERS),
        "sliding": stream.window(w.SlidingEventTimeWindows.of(20, 5)).aggregate(GatherList(), Labelled(), NUMBERS),
        "session": stream.window(w.EventTimeSessionWindows.with_gap(6)).aggregate(GatherList(), Labelled(), NUMBERS),
        "general": stream.window(w.EventTimeSessionWindows.with_gap(6))
        .trigger(General()).aggregate(GatherList(), Labelled(), NUMBERS),
        "listed": stream.window(w.EventTimeSessionWindows.with_gap(6)).process(Numbers()),
        "evicted": stream.window(w.SlidingEventTimeWindows.of(20, 10))
        .evictor(w.CountEvictor.of(3)).process(Numbers()),
        "count": stream.count_window(4, 2).apply(lambda key, _, found: [(key, [number for _, number, _ in found])]),
    }


def run(directory: Path, backend: StateBackend, parallelism: int, crashes: Crashes | None = None) -> None:
    LogSink.announce = staticmethod(crashes.step if crashes is not None else lambda what: None)
    env = environment(directory, parallelism)
    env.set_state_backend(backend)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[2])
    source = env.from_source(EpochSource(records(), 6), strategy, "source", RECORD).uid("source")
    keyed = source.map(lambda record: record, RECORD).uid("spread").key_by(0, Types.STRING())
    for name, results in windows(keyed).items():
        shown = results.uid(name).map(lambda result, name=name: f"{name} {result}").uid(f"{name} shown")
        shown.sink_to(LogSink()).uid(f"{name} log")
    env.execute("windows")


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    LogSink.committed.clear()
    yield
    LogSink.announce = staticmethod(lambda what: None)
    LogSink.committed.clear()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], int]:
    with Crashes() as steps:
        run(tmp_path_factory.mktemp("undisturbed"), HashMapStateBackend(), 2, steps)
    found = LogSink.records()
    assert {line.split()[0] for line in found} == set(windows_names())
    return found, steps.taken


def windows_names() -> list[str]:
    return ["tumbling", "lateness", "sliding", "session", "general", "listed", "evicted", "count"]


@pytest.mark.parametrize("backend", [HashMapStateBackend(), EmbeddedRocksDBStateBackend()], ids=["heap", "rocksdb"])
@pytest.mark.parametrize("round_", range(6))
def test_windows_survive_crashes_and_rescaling(
    tmp_path: Path, undisturbed: tuple[list[str], int], round_: int, backend: StateBackend
) -> None:
    expected, steps = undisturbed
    draw = random.Random(f"{SEED}-{round_}")
    for _ in range(2):
        with Crashes(at=draw.randrange(1, steps)) as crashes:
            try:
                run(tmp_path, backend, draw.choice([1, 2, 4]), crashes)
            except Crash:
                continue
        break
    else:
        run(tmp_path, backend, draw.choice([1, 2, 3]))
    assert LogSink.records() == expected, f"MILLRACE_SEED={SEED}, round {round_}"
