"""Programs whose results tell whether every record counted once, whatever happened to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from millrace.common import RestartStrategies, Types, WatermarkStrategy
from millrace.common.job_client import JobClient
from millrace.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from millrace.datastream.connectors import Committer, Sink, SinkWriter
from millrace.datastream.functions import CheckpointedFunction, MapFunction
from millrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millrace.testing import EpochSource
from millrace.testing.in_process import InProcessExecutor

GAPS = OutputTag("gaps", Types.STRING())

KEYS = 5


def epochs(count: int = 6, size: int = 10) -> list[list[tuple[str, int]]]:
    """Each key counts from 1 on; the last epochs may be short."""
    numbers = range(count * size)
    records = [(f"k{number % KEYS}", number // KEYS + 1) for number in numbers]
    return [records[start : start + size] for start in range(0, len(records), size)]


class Checker(KeyedProcessFunction):
    """Alerts when a key does not count up by one; sums, remembers the last few, and sets a timer for each record."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, number = value
        last = self.last.value() or 0
        if number != last + 1:
            yield GAPS, f"{key}: {number} after {last}"
        self.last.update(number)
        self.sum.update((self.sum.value() or 0) + number)
        self.recent.update([*self.recent.get(), number][-3:])
        self.seen.put(number % 4, f"{key}{number}")
        ctx.timer_service().register_event_time_timer(number + 3)
        yield f"{key} {number} {self.sum.value()} {self.recent.get()} {sorted(self.seen.items())}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield f"{ctx.get_current_key()} at {timestamp}"


class Numbered(MapFunction, CheckpointedFunction):
    """Counts what it has seen in operator state."""

    def __init__(self) -> None:
        self.count = 0

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.count])

    def map(self, value: Any) -> Any:
        self.count += 1
        return value


class LogSink(Sink):
    """Transactional: a list of committed records by transaction. `announce` is told of each commit."""

    committed: ClassVar[dict[str, list[str]]] = {}
    announce: ClassVar[Callable[[str], None]] = staticmethod(lambda what: None)

    def create_writer(self, runtime_context: Any) -> SinkWriter:
        return _LogWriter()

    def create_committer(self) -> Committer:
        return _LogCommitter()

    @classmethod
    def records(cls) -> list[str]:
        """All that was committed, sorted."""
        return sorted(record for records in cls.committed.values() for record in records)


class _LogWriter(SinkWriter):
    transactions = 0

    def __init__(self) -> None:
        self.records: list[str] = []

    def write(self, value: Any, context: Any) -> None:
        self.records.append(value)

    def prepare_commit(self) -> list[Any]:
        records, self.records = self.records, []
        _LogWriter.transactions += 1
        return [{"id": f"t{_LogWriter.transactions}", "records": records}] if records else []


class _LogCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        for transaction in committables:
            LogSink.announce(f"committing {transaction['id']}")
            LogSink.committed[transaction["id"]] = transaction["records"]
            LogSink.announce(f"{transaction['id']} is committed")


def environment(directory: Path, parallelism: int = 2, **settings: str) -> StreamExecutionEnvironment:
    """Every epoch a checkpoint, in `directory`; failures restart at once. Settings are written with `__` for dots."""
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(every_epoch=True))
    env.set_parallelism(parallelism)
    env.enable_checkpointing(10)
    env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(20, 0))
    for key, value in settings.items():
        env._configuration.set_string(key.replace("__", "."), value)
    return env


def build(env: StreamExecutionEnvironment, source: list[list[tuple[str, int]]]) -> None:
    """The all-round program."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_second)
    stream = env.from_source(EpochSource(source, chunk_records=3), strategy, "numbers").uid("numbers")
    counted = stream.map(Numbered()).uid("numbered").rebalance()
    checked = counted.key_by(_first).process(Checker(), Types.STRING()).uid("checker")
    checked.sink_to(LogSink()).uid("log")
    checked.get_side_output(GAPS).sink_to(LogSink()).uid("gaps")


def _second(value: Any, record_timestamp: int) -> int:
    return int(value[1])


def _first(value: Any) -> Any:
    return value[0]


def submit(env: StreamExecutionEnvironment, source: list[list[tuple[str, int]]] | None = None) -> JobClient:
    """Start the all-round program."""
    build(env, epochs() if source is None else source)
    return env.execute_async("all-round")


logging.getLogger("millrace.job").setLevel(logging.ERROR)
