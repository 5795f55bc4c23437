"""Joins over random streams give what an obviously right interpretation gives.

Two kinds of programs: scripts of records, watermarks and cuts at one operator, where lateness and clean-up show; and
whole jobs at a random parallelism, with random epochs and tasks that fail half way, where every pair must come once.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import Configuration, Types, WatermarkStrategy
from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP, Duration
from millrace.datastream import (
    DataStream,
    KeyedStream,
    OutputTag,
    ProcessJoinFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.datastream._joins import join_rows
from millrace.runtime.operators.joins.lookup import pair
from millrace.runtime.operators.joins.time_buffer import ENTRY, TimeBuffer
from millrace.state import MapStateDescriptor
from millrace.testing import EpochSource, Faults, InProcessExecutor, TwoStreamsHarness

# A few hundred programs in the suite; `MILLRACE_PROGRAMS` says how many in a long run.
PROGRAMS = int(os.environ.get("MILLRACE_PROGRAMS", "150"))

relaxed = settings(
    max_examples=PROGRAMS, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

Record = tuple[str, int, int]  # key, timestamp, number

RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
LATE = (OutputTag("late left", RECORD), OutputTag("late right", RECORD))

keys = st.sampled_from("abc")
times = st.integers(0, 30)
bounds = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(lambda pair: (min(pair), max(pair)))
hows = st.sampled_from(["inner", "left", "right", "outer"])

# What happens to an operator: a record on a side, the watermark moving on by so much, an epoch's end, a new process.
steps = st.one_of(
    st.tuples(st.just("record"), st.integers(0, 1), keys, times),
    st.tuples(st.just("record"), st.integers(0, 1), keys, times),
    st.tuples(st.just("watermark"), st.integers(0, 8)),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("process")),
)
scripts = st.lists(steps, max_size=60)


class Times(ProcessJoinFunction):
    """Tells all that it is told."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


def timestamp_of(record: Any, before: int = 0) -> int:
    return int(record[1])


def by_key(stream: DataStream) -> KeyedStream:
    return stream.key_by(lambda record: record[0], Types.STRING())


def result(left: Record | None, right: Record | None, timestamp: int) -> tuple[Any, ...]:
    sides = (left, right)
    return (*sides, *(None if side is None else side[1] for side in sides), timestamp)


# --- what the joins mean --------------------------------------------------------------------------------------


@dataclass
class Model:
    watermark: int = MIN_TIMESTAMP
    waiting: tuple[list[Record], list[Record]] = field(default_factory=lambda: ([], []))
    results: list[tuple[Any, ...]] = field(default_factory=list)
    late: tuple[list[Record], list[Record]] = field(default_factory=lambda: ([], []))

    def take(self, side: int, record: Record) -> None:
        raise NotImplementedError

    def advance(self, watermark: int) -> None:
        raise NotImplementedError


@dataclass
class IntervalModel(Model):
    """Looks at everything each time, as Flink's operator does."""

    lower: int = 0
    upper: int = 0
    outer: tuple[bool, bool] = (False, False)
    matched: set[tuple[int, Record]] = field(default_factory=set)

    def take(self, side: int, record: Record) -> None:
        if record[1] < self.watermark:
            self.late[side].append(record)
            return
        self.waiting[side].append(record)
        for other in self.waiting[1 - side]:
            left, right = (record, other) if side == 0 else (other, record)
            if left[0] == right[0] and left[1] + self.lower <= right[1] <= left[1] + self.upper:
                self.results.append(result(left, right, max(left[1], right[1])))
                self.matched |= {(0, left), (1, right)}

    def advance(self, watermark: int) -> None:
        self.watermark = max(watermark, self.watermark)
        for side, reach in enumerate((max(self.upper, 0), max(-self.lower, 0))):
            over = [record for record in self.waiting[side] if record[1] + reach <= watermark]
            self.waiting[side][:] = [record for record in self.waiting[side] if record not in over]
            for record in over:
                if self.outer[side] and (side, record) not in self.matched:
                    sides = (record, None) if side == 0 else (None, record)
                    self.results.append(result(*sides, record[1] + reach))


@dataclass
class TemporalModel(Model):
    """Remembers all versions for ever."""

    outer: bool = False

    def take(self, side: int, record: Record) -> None:
        if side == 0 and record[1] < self.watermark:
            self.late[0].append(record)
        else:
            self.waiting[side].append(record)

    def advance(self, watermark: int) -> None:
        self.watermark = max(watermark, self.watermark)
        due = [record for record in self.waiting[0] if record[1] <= watermark]
        self.waiting[0][:] = [record for record in self.waiting[0] if record[1] > watermark]
        for record in due:
            version = as_of(self.waiting[1], record)
            if version is not None or self.outer:
                self.results.append(result(record, version, record[1]))


def as_of(versions: list[Record], record: Record) -> Record | None:
    """The last version at or before a record's time; of several with one time the last that came."""
    found = [version for version in versions if version[0] == record[0] and version[1] <= record[1]]
    latest = max((version[1] for version in found), default=None)
    return next((version for version in reversed(found) if version[1] == latest), None)


# --- one operator ---------------------------------------------------------------------------------------------


def play(script: list[Any], transform: Any, model: Model) -> TwoStreamsHarness:
    """Run a script to the end of time on the model and on the operator: both must say the same. Gives back the open
    harness."""
    types = (RECORD, RECORD)
    harness = TwoStreamsHarness(transform, input_types=types).open()
    outputs: list[list[Any]] = [[], [], []]

    def gather() -> None:
        outputs[0] += harness.records
        for side, tag in enumerate(LATE):
            outputs[side + 1] += harness.side_output(tag)

    for number, (what, *details) in enumerate(script):
        if what == "record":
            side, key, timestamp = details
            record = (key, timestamp, number)
            model.take(side, record)
            (harness.push2 if side else harness.push1)(record, timestamp)
        elif what == "watermark":
            watermark = max(harness.current_watermark or 0, 0) + details[0]
            model.advance(watermark)
            harness.watermark(watermark)
        elif what == "epoch":
            harness.end_epoch()
        else:
            snapshot = harness.snapshot()
            gather()
            harness.close()
            harness = TwoStreamsHarness(transform, input_types=types, snapshot=snapshot).open()
    model.advance(1 << 40)
    harness.end_of_input()
    gather()
    assert Counter(value for value, _ in outputs[0]) == Counter(model.results)
    assert [timestamp for _, timestamp in outputs[0]] == [value[4] for value, _ in outputs[0]]
    assert tuple(outputs[1:]) == model.late
    return harness


@relaxed
@given(script=scripts, bounds=bounds, how=hows)
def test_an_interval_join_means_what_flinks_operator_means(
    script: list[Any], bounds: tuple[int, int], how: str
) -> None:
    def transform(left: DataStream, right: DataStream) -> DataStream:
        joined = by_key(left).interval_join(by_key(right), how).between(*bounds)
        joined.side_output_left_late_data(LATE[0]).side_output_right_late_data(LATE[1])
        return joined.process(Times())

    outer = (how in {"left", "outer"}, how in {"right", "outer"})
    model = IntervalModel(lower=bounds[0], upper=bounds[1], outer=outer)
    harness = play(script, transform, model)
    for name in ("left", "right"):
        assert harness.keys(TimeBuffer.descriptor(name, RECORD)) == []
        assert harness.keys(MapStateDescriptor(f"{name}-matched", ENTRY, Types.BOOLEAN())) == []
    assert harness.event_time_timers == []
    harness.close()


@relaxed
@given(script=scripts, how=st.sampled_from(["inner", "left"]))
def test_a_temporal_join_means_what_a_table_with_all_its_versions_means(script: list[Any], how: str) -> None:
    def transform(left: DataStream, right: DataStream) -> DataStream:
        joined = by_key(left).temporal_join(by_key(right), how).side_output_late_data(LATE[0])
        return joined.process(Times())

    model = TemporalModel(outer=how == "left")
    harness = play(script, transform, model)
    assert harness.keys(TimeBuffer.descriptor("waiting", RECORD)) == []
    versions = TimeBuffer.descriptor("versions", RECORD)
    last = {key: as_of(model.waiting[1], (key, MAX_WATERMARK, 0)) for key in "abc"}
    kept = {key: list(harness.state(versions, key).values()) for key in harness.keys(versions)}
    assert kept == {key: [version] for key, version in last.items() if version is not None}
    assert harness.event_time_timers == []
    harness.close()


# --- whole jobs -----------------------------------------------------------------------------------------------

raw = st.lists(st.lists(st.tuples(keys, times), max_size=25), min_size=1, max_size=4)
streams = raw.map(
    lambda epochs: [
        [(key, time, place * 100 + number) for number, (key, time) in enumerate(epoch)]
        for place, epoch in enumerate(epochs)
    ]
)


@dataclass(frozen=True)
class Run:
    """How a job is run."""

    parallelism: int
    processes: int
    chunk: int
    share: float
    batch: bool
    backend: str

    def environment(self) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(self.processes, Faults(self.share)))
        env.set_runtime_mode(RuntimeExecutionMode.BATCH if self.batch else RuntimeExecutionMode.STREAMING)
        env.configure(Configuration.from_dict({"state.backend.type": self.backend}))
        return env.set_parallelism(self.parallelism)

    def sources(self, env: StreamExecutionEnvironment, *epochs: Any) -> list[DataStream]:
        """Streams in which no record is late: they are out of order by all that there is of time."""
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(30))
        timed = strategy.with_timestamp_assigner(timestamp_of)
        return [env.from_source(EpochSource(source, self.chunk), timed, "source", RECORD) for source in epochs]


runs = st.builds(
    Run,
    parallelism=st.integers(1, 4),
    processes=st.integers(1, 3),
    chunk=st.integers(1, 8),
    share=st.sampled_from([0.0, 0.3]),
    batch=st.booleans(),
    backend=st.sampled_from(["hashmap"] * 11 + ["rocksdb"]),
)


def flat(epochs: list[list[Record]]) -> list[Record]:
    return [record for epoch in epochs for record in epoch]


@relaxed
@given(run=runs, left=streams, right=streams, bounds=bounds, how=hows)
def test_an_interval_joins_result_depends_on_nothing_but_its_records(
    run: Run, left: Any, right: Any, bounds: tuple[int, int], how: str
) -> None:
    env = run.environment()
    first, second = run.sources(env, left, right)
    joined = by_key(first.rebalance()).interval_join(by_key(second), how).between(*bounds).process(Times())
    model = IntervalModel(lower=bounds[0], upper=bounds[1], outer=(how in {"left", "outer"}, how in {"right", "outer"}))
    for side, epochs in enumerate((left, right)):
        for record in flat(epochs):
            model.take(side, record)
    model.advance(1 << 40)
    assert Counter(joined.execute_and_collect()) == Counter(model.results)


@relaxed
@given(run=runs, left=streams, right=streams, how=st.sampled_from(["inner", "left"]))
def test_a_temporal_joins_result_depends_on_nothing_but_its_records(
    run: Run, left: Any, right: Any, how: str
) -> None:
    env = run.environment()
    first, second = run.sources(env, left, right)
    joined = by_key(first).temporal_join(by_key(second), how).process(Times())
    model = TemporalModel(outer=how == "left")
    for side, epochs in enumerate((left, right)):
        for record in flat(epochs):
            model.take(side, record)
    model.advance(1 << 40)
    assert Counter(joined.execute_and_collect()) == Counter(model.results)


@relaxed
@given(run=runs, left=streams, table=streams, outer=st.booleans())
def test_a_lookup_joins_result_depends_on_nothing_but_its_records(
    run: Run, left: Any, table: Any, outer: bool
) -> None:
    env = run.environment()
    [first] = run.sources(env, left)
    rows = env.from_source(EpochSource([flat(table)], run.chunk), WatermarkStrategy.no_watermarks(), "table", RECORD)
    joined = join_rows(first, rows, (0, 0), pair, outer)
    by: dict[str, list[Any]] = defaultdict(list)
    for row in flat(table):
        by[row[0]].append(row)
    wanted = [(record, row) for record in flat(left) for row in by[record[0]] or ([None] if outer else [])]
    assert Counter(joined.execute_and_collect()) == Counter(wanted)
