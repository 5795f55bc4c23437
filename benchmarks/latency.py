"""End-to-end latency of an unbounded job: 1,000 records a second, by key, from the source to the driver."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from benchmarks.keyed_sum import RunningSum
from millrace.common import WatermarkStrategy
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors.datagen import DataGeneratorSource

RATE = 1_000
WARM_UP_SECONDS = 15
MEASURED_SECONDS = 30
GOAL_MEDIAN, GOAL_P99 = 250, 600


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the moment in which a record is due at the source to its arrival at the driver."""

    median: float
    p99: float
    behind: float

    def __str__(self) -> str:
        ok = self.median <= GOAL_MEDIAN and self.p99 <= GOAL_P99
        return (
            f"{'latency at 1,000/s':<22} median {self.median:.0f} ms (goal {GOAL_MEDIAN}), 99th percentile "
            f"{self.p99:.0f} ms (goal {GOAL_P99}), drift {self.behind:+.0f} ms   {'ok' if ok else 'BELOW'}"
        )


def run() -> Latency:
    """Measure."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = DataGeneratorSource(lambda index: (index % 100, index), records_per_second=RATE)
    totals = env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
    results = totals.key_by(lambda record: record[0]).process(_Due()).execute_and_collect("latency")
    latencies: list[float] = []
    with results as records:
        began = time.time()
        for due in records:
            now = time.time()
            if now - began > WARM_UP_SECONDS:
                latencies.append(now * 1000 - due)
            if now - began > WARM_UP_SECONDS + MEASURED_SECONDS:
                break
    return _summary(latencies)


class _Due(RunningSum):
    """Keeps the running sum, and emits the moment in which the record was due at the source."""

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        self.total.update((self.total.value() or 0) + value[1])
        yield ctx.timestamp()


def _summary(latencies: list[float]) -> Latency:
    half = len(latencies) // 2
    drift = statistics.median(latencies[half:]) - statistics.median(latencies[:half])
    ordered = sorted(latencies)
    return Latency(statistics.median(ordered), ordered[int(len(ordered) * 0.99)], drift)
