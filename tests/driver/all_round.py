"""The all-round program: every kind of state and timer, and results that do not depend on where it was cut.

    numbers ─┬─ data ─ counted three ways in operator state ─ by key ─ checked ─► log, gaps
             │                                                  └──── kept in every kind of keyed state ─► log
             └─ rules ─ broadcast ─ joined with the data by key ─► log
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from millrace.common import Types, WatermarkStrategy
from millrace.common.job_client import JobClient
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.functions import (
    AggregateFunction,
    CheckpointedFunction,
    CheckpointListener,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    MapFunction,
)
from millrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from millrace.testing import EpochSource
from tests.driver.jobs import GAPS, Checker, LogSink, environment

Record = tuple[str, int]

KEYS = 7

RECORD_TYPE = Types.TUPLE([Types.STRING(), Types.LONG()])

RULES = MapStateDescriptor("rules", Types.LONG(), Types.STRING())


def all_round_epochs(count: int = 6, size: int = 14) -> list[list[Record]]:
    """Each key counts from 1 on; rules come in epochs of their own; the last epoch is for timers alone."""
    found: list[list[Record]] = []
    for epoch in range(count):
        numbers = range(epoch * size, (epoch + 1) * size)
        if epoch % 2 == 0:
            found.append([("rule", epoch * size // KEYS)])
        found.append([(f"k{number % KEYS}", number // KEYS + 1) for number in numbers])
    return [*found, []]


class GatedSource(EpochSource):
    """Gives epochs as far as it is allowed to; the test says how far."""

    def __init__(self, epochs: list[list[Any]], allowed: int | None = None, chunk_records: int = 5) -> None:
        super().__init__(epochs, chunk_records)
        self.allowed = len(epochs) if allowed is None else allowed

    def latest_offset(self, start: Any, now: int) -> Any:
        return {"next": max(start["next"], min(super().latest_offset(start, now)["next"], self.allowed))}


class Tally(MapFunction, CheckpointListener):
    """Base of what counts records in operator state. `counts` is what was last written, by kind and subtask."""

    counts: ClassVar[dict[tuple[str, int], int]] = {}

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        self.count += 1
        return value

    def saved(self) -> None:
        Tally.counts[type(self).__name__, self.index] = self.count

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        pass

    @classmethod
    def total(cls) -> int:
        """What all subtasks of this kind have counted."""
        return sum(count for (kind, _), count in Tally.counts.items() if kind == cls.__name__)


class SplitTally(Tally, CheckpointedFunction):
    """Its list is dealt out: the items are added up, wherever they are."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("split", Types.LONG()))
        self.count = sum(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.count])
        self.saved()


class UnionTally(Tally, CheckpointedFunction):
    """Each subtask sees all items after rescaling, and takes those that are its own: its place modulo parallelism."""

    joined: ClassVar[dict[int, list[str]]] = {}

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_union_list_state(ListStateDescriptor("union", Types.STRING()))
        self.found = list(self.state.get())

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        parallelism = runtime_context.get_number_of_parallel_subtasks()
        UnionTally.joined.setdefault(self.index, self.found)
        tallies = [tuple(map(int, text.split(":"))) for text in self.found]
        self.count = sum(count for place, count in tallies if place % parallelism == self.index)

    def snapshot_state(self, context: Any) -> None:
        self.state.update([f"{self.index}:{self.count}"])
        self.saved()


class ListTally(Tally, ListCheckpointed):
    """The same in the older interface."""

    count = 0

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        self.saved()
        return [self.count]

    def restore_state(self, state: list[int]) -> None:
        self.count = sum(state)


class Average(AggregateFunction):
    """Of ints, as a pair of sum and count."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class EveryState(KeyedProcessFunction):
    """Keeps each record in every kind of keyed state, and sets timers in both kinds of time."""

    def open(self, runtime_context: Any) -> None:
        state = runtime_context
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.value = state.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.items = state.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.entries = state.get_map_state(MapStateDescriptor("entries", Types.LONG(), Types.STRING()))
        self.sum = state.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.mean = state.get_aggregating_state(AggregatingStateDescriptor("mean", Average(), pair))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = value[1]
        self.value.update((self.value.value() or 0) + 1)
        self.items.add(number)
        self.entries.put(number % 3, f"{number}")
        self.sum.add(number)
        self.mean.add(number)
        timers = ctx.timer_service()
        timers.register_event_time_timer(number * 10 + 25)
        timers.register_processing_time_timer(timers.current_processing_time())
        yield f"every {value[0]} {number}: {self._seen()}"

    def _seen(self) -> str:
        entries = sorted(self.entries.items())
        return f"{self.value.value()} {list(self.items.get())} {entries} {self.sum.get()} {self.mean.get()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp < 10**9:
            yield f"every {ctx.get_current_key()} at {timestamp}"
        else:
            yield f"every {ctx.get_current_key()} at last with {self.value.value()}"


class Ruled(KeyedBroadcastProcessFunction):
    """Says by which rules each record came. `tables` is what each subtask was given back."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules = [text for _, text in sorted(ctx.get_broadcast_state(RULES).items())]
        yield f"ruled {value[0]} {value[1]} by {rules}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value[1], f"r{value[1]}")


def timed(out_of_order: int = 0) -> WatermarkStrategy:
    """Ten milliseconds for each number."""
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_tenfold)


def _tenfold(value: Any, record_timestamp: int) -> int:
    return int(value[1]) * 10


def _first(value: Any) -> Any:
    return value[0]


def _is_rule(value: Any) -> bool:
    return bool(value[0] == "rule")


def _is_data(value: Any) -> bool:
    return bool(value[0] != "rule")


def build_all_round(
    env: StreamExecutionEnvironment, source: GatedSource, uids: bool = True, key_type: Any = None
) -> None:
    """Everything of a record's key is typed, unless another key type is given."""
    key_type = key_type or Types.STRING()

    def named(stream: Any, uid: str) -> Any:
        return stream.uid(uid) if uids else stream

    numbers = named(env.from_source(source, timed(), "numbers", RECORD_TYPE), "numbers")
    data = numbers.filter(_is_data)
    tallied = named(data.map(SplitTally(), RECORD_TYPE), "split")
    tallied = named(tallied.map(UnionTally(), RECORD_TYPE), "union")
    tallied = named(tallied.map(ListTally(), RECORD_TYPE), "list")
    keyed = tallied.rebalance().key_by(_first, key_type)
    checked = named(keyed.process(Checker(), Types.STRING()), "checker")
    every = named(keyed.process(EveryState(), Types.STRING()), "every")
    sums = named(data.key_by(_first, key_type).sum(1), "sum").map(lambda pair: f"sum {pair}", Types.STRING())
    rules = numbers.filter(_is_rule).broadcast(RULES)
    ruled = named(data.key_by(_first, key_type).connect(rules).process(Ruled(), Types.STRING()), "ruled")
    named(checked.union(every, sums, ruled).sink_to(LogSink()), "log")
    named(checked.get_side_output(GAPS).sink_to(LogSink()), "gaps")


def start(
    directory: Path,
    parallelism: int,
    source: GatedSource | None = None,
    build: Callable[..., None] = build_all_round,
    **settings: str,
) -> tuple[Any, GatedSource]:
    """The program's job, and its source."""
    source = source or GatedSource(all_round_epochs())
    env = environment(directory, parallelism, **settings)
    build(env, source)
    return env.execute_async("all-round"), source


def forget() -> None:
    """Begin as if nothing had run in this process."""
    LogSink.committed.clear()
    Tally.counts.clear()
    UnionTally.joined.clear()


def finish(job: JobClient) -> None:
    """Wait for the job's end."""
    job.get_job_execution_result().result(60)


def wait_until(what: Callable[[], Any], seconds: float = 30.0) -> None:
    """Until something holds that another thread brings about."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.002)


def wait_for_epochs(job: Any, count: int) -> None:
    """Until the job has read so many of the source's epochs, and what it made of them is committed."""

    def there() -> bool:
        state = job.coordinator.state
        return bool(max(offset.get("next", 0) for offset in state.offsets.values()) >= count and not state.committables)

    wait_until(there)
