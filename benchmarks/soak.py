"""`make soak`: much data, then a long time. Fails when memory, files or latency grow.

python -m benchmarks.soak [minutes]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import seconds
from benchmarks.processes import Usage, Watch, usage
from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from millrace.datastream.connectors.datagen import DataGeneratorSource
from millrace.datastream.connectors.discard import DiscardingSink
from millrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

MINUTES = 30.0
RECORDS = 20_000_000
WORKER_MIB = 1024
RATE = 2_000
KEYS = 10_000
ROW_SECONDS = 30
# The first rows are left out of the comparison: the JVM and the heaps of the workers grow to their size.
WARM_UP_ROWS = 4
# How much more than at first a figure may be in the last rows: a share of it, and a constant.
GROWTH = {"worker": (0.1, 30), "driver": (0.1, 30), "jvm": (0.3, 200), "descriptors": (0.1, 20), "files": (0.5, 50)}
LATENCY_GROWTH = (0.5, 100)


class Sessions(KeyedProcessFunction):
    """Counts a key's records until it pauses for two seconds: values, a list, a map, and a timer that moves."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.deadline = runtime_context.get_state(ValueStateDescriptor("deadline", Types.LONG()))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.hours = runtime_context.get_map_state(MapStateDescriptor("hours", Types.LONG(), Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[str, int]]:
        deadline = self.deadline.value()
        if deadline is not None:
            ctx.timer_service().delete_event_time_timer(deadline)
        deadline = ctx.timestamp() + 2_000
        ctx.timer_service().register_event_time_timer(deadline)
        self.deadline.update(deadline)
        self.recent.add(value[1])
        slot = value[1] % 24
        self.hours.put(slot, (self.hours.get(slot) or 0) + 1)
        yield "record", ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        self.deadline.clear()
        self.recent.clear()
        yield "timer", timestamp


@dataclass(frozen=True)
class Row:
    """Half a minute of the long run; latencies in milliseconds."""

    records: int
    timers: int
    median: float
    p99: float
    usage: Usage

    def __str__(self) -> str:
        held = self.usage
        return (
            f"{self.records:>10,} records {self.timers:>8,} timers   latency {self.median:>5.0f} / {self.p99:>5.0f} ms"
            f"   worker {held.worker:>5.0f} MiB   driver {held.driver:>5.0f}   JVM {held.jvm:>6.0f}"
            f"   open {held.descriptors:>4}   files {held.files:>4}"
        )


def volume(directory: Path) -> list[str]:
    """Twenty million records through `key_by` and a reduce; what is wrong about it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_sequence(0, RECORDS - 1).map(lambda number: (number % KEYS, number))
    sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda one, two: (one[0], one[1] + two[1]))
    sums.sink_to(DiscardingSink())
    with Watch(directory) as watch:
        taken = seconds(lambda: env.execute("volume"))
    print(f"{RECORDS:,} records through key_by and reduce: {taken:.0f} s, worker at most {watch.peak.worker:.0f} MiB")
    return [f"A worker took {watch.peak.worker:.0f} MiB."] if watch.peak.worker >= WORKER_MIB else []


def endurance(directory: Path, minutes: float) -> list[str]:
    """An unbounded job with state and timers for so many minutes; what has grown."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    # A key's records come in bursts of ten, so that its timer fires between them.
    source = DataGeneratorSource(lambda index: (index // 10 % KEYS, index), records_per_second=RATE)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    stream = env.from_source(source, strategy, "records").key_by(lambda record: record[0]).process(Sessions())
    rows: list[Row] = []
    with stream.execute_and_collect("endurance") as results:
        for row in _rows(iter(results), directory, int(minutes * 60 / ROW_SECONDS)):
            print(row, flush=True)
            rows.append(row)
    return _grown(rows[WARM_UP_ROWS:])


def _rows(results: Iterator[tuple[str, int]], directory: Path, count: int) -> Iterator[Row]:
    for _ in range(count):
        end = time.time() + ROW_SECONDS
        latencies: list[float] = []
        timers = 0
        while (now := time.time()) < end:
            kind, due = next(results)
            if kind == "record":
                latencies.append(now * 1000 - due)
            else:
                timers += 1
        ordered = sorted(latencies)
        yield Row(len(ordered), timers, statistics.median(ordered), ordered[int(len(ordered) * 0.99)], usage(directory))


def _grown(rows: list[Row]) -> list[str]:
    """What is larger in the last rows than in the first ones, by more than it may be."""
    if len(rows) < 2:
        return []
    share = max(1, len(rows) // 3)
    figures = [{"latency": row.median, **vars(row.usage)} for row in rows]
    found = []
    for name, (factor, constant) in {"latency": LATENCY_GROWTH, **GROWTH}.items():
        before = statistics.median(figure[name] for figure in figures[:share])
        after = statistics.median(figure[name] for figure in figures[-share:])
        if after > before * (1 + factor) + constant:
            found.append(f"{name} grew from {before:.0f} to {after:.0f}.")
    return found


def main(minutes: float) -> int:
    """Run both; 1 when something is wrong."""
    with tempfile.TemporaryDirectory(prefix="millrace-soak-") as name:
        tempfile.tempdir = name
        problems = [*volume(Path(name)), *endurance(Path(name), minutes)]
    print("\n".join(problems) or "Nothing grew.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES))
