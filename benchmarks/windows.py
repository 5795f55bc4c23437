"""Windows of event time: tumbling and sliding over 1,000 keys, sessions over 100,000, with an AggregateFunction.

The plain loop calls the same functions into a dict for each key and window, and takes a window out when the time has
passed its end: for sliding windows that is one accumulator for each of the ten windows of a record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.measure import Throughput, throughput
from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import AggregateFunction, StreamExecutionEnvironment, WindowAssigner
from millrace.datastream.connectors.discard import DiscardingSink
from millrace.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

KEYS = 1_000
SESSION_KEYS = 100_000
# Records of a second of event time: a key has a hundred in a window of ten seconds.
RATE = 10_000
SIZE, SLIDE, GAP = 10_000, 1_000, 30_000

Record = tuple[int, int, int]


def make(index: int) -> Record:
    """The record with this number: key, value, time."""
    return index % KEYS, index, index * 1000 // RATE


def make_visit(index: int) -> Record:
    """The same for sessions: each key is seen for twenty seconds, ten times, and then again after a minute."""
    key = index % SESSION_KEYS
    visit = index // SESSION_KEYS
    return key, index, visit // 10 * 80_000 + visit % 10 * 2_000


def select(record: Record) -> int:
    """The record's key."""
    return record[0]


def time_of(record: Record, _before: int) -> int:
    """The record's timestamp."""
    return record[2]


class CountAndSum(AggregateFunction):
    """How many, and how much."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Record, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def job(assigner: WindowAssigner[Any, Any], make: Callable[[int], Record], size: int) -> None:
    """The workload on Spark."""
    run_in(StreamExecutionEnvironment.get_execution_environment(), assigner, make, size)


def run_in(
    env: StreamExecutionEnvironment, assigner: WindowAssigner[Any, Any], make: Callable[[int], Record], size: int
) -> None:
    """The workload in an environment."""
    env.set_parallelism(2)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time_of)
    records = env.from_sequence(0, size - 1).map(make).assign_timestamps_and_watermarks(in_event_time)
    windows = records.key_by(select, Types.LONG()).window(assigner)
    windows.aggregate(CountAndSum(), accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()])).sink_to(
        DiscardingSink()
    )
    env.execute("windows")


def sum_job(size: int) -> None:
    """Sums by the built-in aggregation, over records whose type is declared."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time_of)
    record = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    records = env.from_sequence(0, size - 1).map(make, record).assign_timestamps_and_watermarks(in_event_time)
    windows = records.key_by(select, Types.LONG()).window(TumblingEventTimeWindows.of(SIZE))
    windows.sum(1).sink_to(DiscardingSink())
    env.execute("window sums")


def sum_loop(size: int) -> None:
    """The same in one thread, with a bare addition in place of any function."""
    open_windows: dict[int, dict[int, int]] = {}
    results: list[Record] = []
    for index in range(size):
        record = make(index)
        key, stamp = select(record), time_of(record, 0)
        start = stamp - stamp % SIZE
        window = open_windows.get(start)
        if window is None:
            for ended in [old for old in open_windows if old + SIZE <= stamp]:
                results = [(of_key, total, ended) for of_key, total in open_windows.pop(ended).items()]
            window = open_windows[start] = {}
        window[key] = window.get(key, 0) + record[1]
    assert len(results) <= KEYS


def loop(windows_of: Callable[[int], range], length: int, size: int) -> None:
    """Tumbling and sliding windows in one thread: `windows_of` gives the starts of a timestamp's windows."""
    function = CountAndSum()
    open_windows: dict[int, dict[int, Any]] = {}
    for index in range(size):
        record = make(index)
        key, stamp = select(record), time_of(record, 0)
        for start in windows_of(stamp):
            window = open_windows.get(start)
            if window is None:
                for ended in [old for old in open_windows if old + length <= stamp]:
                    for accumulator in open_windows.pop(ended).values():
                        function.get_result(accumulator)
                window = open_windows[start] = {}
            accumulator = window.get(key)
            window[key] = function.add(record, function.create_accumulator() if accumulator is None else accumulator)


def tumbling_of(stamp: int) -> range:
    """Where the window of a timestamp begins."""
    start = stamp - stamp % SIZE
    return range(start, start + 1)


def sliding_of(stamp: int) -> range:
    """Where the windows of a timestamp begin."""
    return range(stamp - stamp % SLIDE, stamp - SIZE, -SLIDE)


def session_loop(size: int) -> None:
    """Sessions in one thread. The records come in order, so that a gap ends a key's session."""
    function = CountAndSum()
    sessions: dict[int, tuple[int, Any]] = {}
    for index in range(size):
        record = make_visit(index)
        key, stamp = select(record), time_of(record, 0)
        found = sessions.get(key)
        if found is None or stamp > found[0]:
            if found is not None:
                function.get_result(found[1])
            accumulator = function.create_accumulator()
        else:
            accumulator = found[1]
        sessions[key] = stamp + GAP, function.add(record, accumulator)


def run_tumbling() -> Throughput:
    """Measure windows of ten seconds."""
    work = partial(job, TumblingEventTimeWindows.of(SIZE), make)
    return throughput("tumbling windows", work, partial(loop, tumbling_of, SIZE), (1_000_000, 4_000_000), 0.3)


def run_sliding() -> Throughput:
    """Measure windows of ten seconds every second."""
    work = partial(job, SlidingEventTimeWindows.of(SIZE, SLIDE), make)
    return throughput("sliding windows", work, partial(loop, sliding_of, SIZE), (500_000, 2_000_000), 0.1)


def run_sessions() -> Throughput:
    """Measure sessions with a gap of thirty seconds."""
    work = partial(job, EventTimeSessionWindows.with_gap(Duration.of_millis(GAP)), make_visit)
    return throughput("session windows", work, session_loop, (1_000_000, 4_000_000), 0.15)


def run_sums() -> Throughput:
    """Measure sums in windows of ten seconds."""
    return throughput("window sums", sum_job, sum_loop, (1_000_000, 4_000_000), 1.0)
