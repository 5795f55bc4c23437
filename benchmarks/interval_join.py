"""An interval join in which one record of a hundred finds a partner: with many keys, and with a single one.

The operator in one process, without Spark, at two sizes: a record must cost the same at both, and what waits must be
what the bounds hold, however long the streams are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millrace.common import Types
from millrace.datastream import DataStream, ProcessJoinFunction
from millrace.testing import TwoStreamsHarness

SIZES = (200_000, 800_000)
ROUNDS = 2

# Records of one list, between two watermarks; each is out of order by up to so many records.
BATCH = 1000
OUT_OF_ORDER = 250

# A watermark per list of records, a checkpoint per so many lists.
LISTS_IN_EPOCH = 50

# At the larger size a record may cost so much more than at the smaller one. A join that looks at all that waits would
# take 4 times as long: noise is below this.
GOAL = 1.5

RECORD = Types.TUPLE([Types.LONG(), Types.LONG()])


class Pair(ProcessJoinFunction):
    """Both records."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def select(record: tuple[int, int]) -> int:
    """The record's key."""
    return record[0]


@dataclass(frozen=True)
class Workload:
    """Two streams with a record each `spacing` milliseconds, and how far from each other these meet.

    The bounds are narrow, so that there is a partner for one of a hundred, and lie far off, so that many records wait.
    """

    name: str
    keys: int
    spacing: int
    lower: int
    upper: int

    def batches(self, size: int) -> Iterator[tuple[int, list[Any], list[int]]]:
        """Lists of records of the two sides in turn."""
        draw = random.Random(1)
        for start in range(0, size // 2, BATCH):
            for side in (0, 1):
                records = [(draw.randrange(self.keys), start + number) for number in range(BATCH)]
                late = [number - draw.randrange(OUT_OF_ORDER) for _, number in records]
                stamps = [self.spacing * number + draw.randrange(self.spacing) for number in late]
                yield side, records, stamps

    def transform(self, left: DataStream, right: DataStream) -> DataStream:
        """The join."""
        keyed = [stream.key_by(select, Types.LONG()) for stream in (left, right)]
        return keyed[0].interval_join(keyed[1]).between(self.lower, self.upper).process(Pair())


WORKLOADS = (
    Workload("interval join", keys=10_000, spacing=1, lower=20_000, upper=20_100),
    Workload("interval join, one key", keys=1, spacing=100, lower=2_000_000, upper=2_000_000),
)


@dataclass(frozen=True)
class Measured:
    """What one run showed; the time is the processor's."""

    seconds: float
    results: int
    waiting: int
    left_over: int


def measure(workload: Workload, size: int) -> Measured:
    """Run one size."""
    harness = TwoStreamsHarness(workload.transform, input_types=(RECORD, RECORD)).open()
    results = waiting = 0
    seconds = 0.0
    for number, (side, records, stamps) in enumerate(workload.batches(size)):
        began = time.process_time()
        harness._receive(side, records, stamps, None)  # `push` would check each key
        if side:
            harness.watermark(workload.spacing * (records[-1][1] - OUT_OF_ORDER))
            results += len(harness.take())
        if number % LISTS_IN_EPOCH == LISTS_IN_EPOCH - 1:
            waiting = max(waiting, _entries(harness))
            harness.end_epoch()
        seconds += time.process_time() - began
    harness.end_of_input()
    left_over = _entries(harness)
    harness.close()
    return Measured(seconds, results, waiting, left_over)


def _entries(harness: TwoStreamsHarness) -> int:
    """How many records wait."""
    return sum(
        len(entries) for table in harness._backends.keyed.tables() for entries in table._maps.values()  # type: ignore[attr-defined]
    )


@dataclass(frozen=True)
class Linearity:
    """A workload at two sizes."""

    workload: Workload
    small: Measured
    large: Measured

    @property
    def growth(self) -> float:
        """What a record costs at the larger size, in what it costs at the smaller one."""
        return (self.large.seconds / SIZES[1]) / (self.small.seconds / SIZES[0])

    def __str__(self) -> str:
        bounded = self.large.waiting <= 1.1 * self.small.waiting and not self.large.left_over
        verdict = "ok" if self.growth <= GOAL and bounded else "BELOW"
        return (
            f"{self.workload.name:<22} {SIZES[1] / self.large.seconds:>12,.0f} records/s   "
            f"a record costs {self.growth:.2f} times at {SIZES[1] // SIZES[0]} times the size (goal {GOAL})   "
            f"waiting {self.small.waiting:,} and {self.large.waiting:,}, at the end {self.large.left_over}   "
            f"matches {200 * self.large.results / SIZES[1]:.1f} %   {verdict}"
        )


def run() -> str:
    """Measure."""
    lines = []
    for workload in WORKLOADS:
        best = [min((measure(workload, size) for _ in range(ROUNDS)), key=lambda run: run.seconds) for size in SIZES]
        lines.append(str(Linearity(workload, best[0], best[1])))
    return "\n".join(lines)
