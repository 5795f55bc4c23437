"""Random programs over records `(key, number)`, and what they mean in plain Python.

A program is a list of steps. Each step reads streams that are there already (by their index) and adds streams. Only
operators are used whose results do not depend on the order in which records of different subtasks arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from millrace.common import WatermarkStrategy
from millrace.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.datastream.accumulators import IntCounter
from millrace.state import MapStateDescriptor, ValueStateDescriptor
from millrace.testing import EpochSource

Record = tuple[int, int]

KINDS = (
    "map", "filter", "flat_map", "rekey", "reduce", "count", "final_sum", "union", "co_map", "keyed_connect",
    "side_output", "broadcast",
)
DISTRIBUTIONS = ("none", "rebalance", "rescale", "shuffle", "global_")
ODD = OutputTag("odd")


@dataclass(frozen=True)
class Step:
    kind: str
    left: int
    right: int
    number: int
    parallelism: int
    distribution: str
    chaining: str
    group: str


@dataclass(frozen=True)
class Program:
    sources: list[list[list[Record]]]  # source -> epoch -> records
    steps: list[Step]
    chaining: bool
    chunk: int


records = st.tuples(st.integers(0, 5), st.integers(-3, 9))
steps = st.builds(
    Step,
    kind=st.sampled_from(KINDS),
    left=st.integers(0, 20),
    right=st.integers(0, 20),
    number=st.integers(0, 4),
    parallelism=st.integers(1, 8),
    distribution=st.sampled_from(DISTRIBUTIONS),
    chaining=st.sampled_from(("always", "always", "disable_chaining", "start_new_chain")),
    group=st.sampled_from(("", "", "", "other")),
)
programs = st.builds(
    Program,
    sources=st.lists(st.lists(st.lists(records, max_size=8), min_size=1, max_size=3), min_size=1, max_size=2),
    steps=st.lists(steps, min_size=1, max_size=7),
    chaining=st.booleans(),
    chunk=st.integers(1, 5),
)


# --- the functions ----------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = IntCounter()
        runtime_context.add_accumulator("seen", self.seen)

    def process_element(self, value: Record, ctx: Any) -> Iterator[Record]:
        self.seen.add(1)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class CountBoth(KeyedCoProcessFunction):
    """Numbers the records of each key, whichever side they come from."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element1(self, value: Record, ctx: Any) -> list[Record]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return [(value[0], count)]

    process_element2 = process_element1


class FinalSum(KeyedProcessFunction):
    """The sum of each key's numbers, when time ends."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: Record, ctx: Any) -> None:
        self.sum.update((self.sum.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(1 << 60)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Record]:
        yield ctx.get_current_key(), self.sum.value()


class OddAside(ProcessFunction):
    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        yield (ODD, value) if value[1] % 2 else value


class Shift(CoMapFunction):
    def map1(self, value: Record) -> Record:
        return value[0], value[1] + 100

    def map2(self, value: Record) -> Record:
        return value[0], value[1] - 100


RULES = MapStateDescriptor("rules")


class Both(BroadcastProcessFunction):
    """Passes both sides on: the broadcast one comes once for each subtask."""

    def process_element(self, value: Record, ctx: Any) -> list[Record]:
        return [value]

    def process_broadcast_element(self, value: Record, ctx: Any) -> list[Record]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        return [value]


# --- what a program means ---------------------------------------------------------------------------------------


@dataclass
class Model:
    streams: list[list[Record]]
    batch: bool
    seen: int = 0
    used: set[int] = field(default_factory=set)

    def read(self, index: int) -> list[Record]:
        index %= len(self.streams)
        self.used.add(index)
        return self.streams[index]

    def apply(self, step: Step) -> None:  # noqa: C901, PLR0912 (one case for each kind of step)
        left, number = self.read(step.left), step.number
        right = self.read(step.right) if step.kind in {"union", "co_map", "keyed_connect", "broadcast"} else []
        match step.kind:
            case "map":
                made = [(key, value * 2 + number) for key, value in left]
            case "filter":
                made = [record for record in left if record[1] % 3 != number % 3]
            case "flat_map":
                made = [(key, copy) for key, value in left for copy in range(value % (number + 1))]
            case "rekey":
                made = [(value % (number + 1), key) for key, value in left]
            case "reduce":
                made = numbered(left)
                if self.batch:
                    made = list(dict(made).items())
            case "count":
                self.seen += len(left)
                made = numbered(left)
            case "final_sum":
                sums: Counter[int] = Counter()
                for key, value in left:
                    sums[key] += value
                made = list(sums.items())
            case "union":
                made = left + right
            case "co_map":
                made = [(key, value + 100) for key, value in left] + [(key, value - 100) for key, value in right]
            case "keyed_connect":
                made = numbered(left + right)
            case "side_output":
                made = [record for record in left if record[1] % 2 == 0]
                self.streams.append([record for record in left if record[1] % 2])
            case _:
                made = left + right * step.parallelism
        self.streams.append(made)


def numbered(values: list[Record]) -> list[Record]:
    counts: Counter[int] = Counter()
    made = []
    for key, _ in values:
        counts[key] += 1
        made.append((key, counts[key]))
    return made


def expected(program: Program, batch: bool) -> tuple[list[Counter[Record]], int]:
    """The records of each stream that nothing reads, and how often `Count` was called."""
    model = Model([[record for epoch in epochs for record in epoch] for epochs in program.sources], batch)
    for step in program.steps:
        model.apply(step)
    leaves = [index for index in range(len(model.streams)) if index not in model.used]
    return [Counter(model.streams[index]) for index in leaves], model.seen


# --- the same on Millrace -----------------------------------------------------------------------------------------


@dataclass
class Builder:
    streams: list[DataStream]
    used: set[int] = field(default_factory=set)

    def read(self, index: int, distribution: str = "none") -> DataStream:
        index %= len(self.streams)
        self.used.add(index)
        stream = self.streams[index]
        return stream if distribution == "none" else getattr(stream, distribution)()

    def apply(self, step: Step) -> None:  # noqa: C901, PLR0912 (one case for each kind of step)
        number = step.number
        left = self.read(step.left, step.distribution)
        key = first
        match step.kind:
            case "map":
                made = left.map(lambda record: (record[0], record[1] * 2 + number))
            case "filter":
                made = left.filter(lambda record: record[1] % 3 != number % 3)
            case "flat_map":
                made = left.flat_map(lambda record: ((record[0], copy) for copy in range(record[1] % (number + 1))))
            case "rekey":
                made = left.map(lambda record: (record[1] % (number + 1), record[0]))
            case "reduce":
                ones = left.map(lambda record: (record[0], 1)).set_parallelism(step.parallelism)
                made = ones.key_by(key).reduce(lambda one, other: (one[0], one[1] + other[1]))
            case "count":
                made = left.key_by(key).process(Count())
            case "final_sum":
                made = left.key_by(key).process(FinalSum())
            case "union":
                made = left.union(self.read(step.right)).map(lambda record: record)
            case "co_map":
                made = left.connect(self.read(step.right)).map(Shift())
            case "keyed_connect":
                made = left.connect(self.read(step.right)).key_by(key, key).process(CountBoth())
            case "side_output":
                made = left.process(OddAside())
                self.streams.append(made.get_side_output(ODD))
            case _:
                made = left.connect(self.read(step.right).broadcast(RULES)).process(Both())
        made.set_parallelism(step.parallelism)
        if step.chaining != "always":
            getattr(made, step.chaining)()
        if step.group:
            made.slot_sharing_group(step.group)
        self.streams.append(made)


def first(record: Record) -> int:
    return record[0]


def run(program: Program, executor: Any, batch: bool) -> tuple[list[Counter[Record]], int]:
    """Run a program; the same answer as `expected`."""
    env = StreamExecutionEnvironment.create_with_executor(executor)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)
    if not program.chaining:
        env.disable_operator_chaining()
    strategy = WatermarkStrategy.no_watermarks()
    builder = Builder([
        env.from_source(EpochSource(epochs, program.chunk), strategy, "source") for epochs in program.sources
    ])
    for step in program.steps:
        builder.apply(step)
    leaves = [stream for index, stream in enumerate(builder.streams) if index not in builder.used]
    pending = [stream.collect_async() for stream in leaves]
    client = env.execute_async()
    answer = [Counter(results.results(client)) for results in pending]
    seen = client.get_job_execution_result().result().get_accumulator_result("seen") if _counts(program) else 0
    return answer, seen


def _counts(program: Program) -> bool:
    return any(step.kind == "count" for step in program.steps)
