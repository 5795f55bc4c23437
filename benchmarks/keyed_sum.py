"""A running sum for each of 10,000 keys: a KeyedProcessFunction with a ValueState."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Throughput, throughput
from millrace.common import Types
from millrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from millrace.datastream.connectors.discard import DiscardingSink
from millrace.datastream.state import ValueStateDescriptor

KEYS = 10_000
SIZES = (2_000_000, 8_000_000)
GOAL = 0.4


def make(index: int) -> tuple[int, int]:
    """The record with this number."""
    return index % KEYS, index


def select(record: tuple[int, int]) -> int:
    """The record's key."""
    return record[0]


class RunningSum(KeyedProcessFunction):
    """Emits the sum of a key's values so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


def job(size: int) -> None:
    """The workload on Spark."""
    run_in(StreamExecutionEnvironment.get_execution_environment(), size)


def run_in(env: StreamExecutionEnvironment, size: int) -> None:
    """The workload in an environment."""
    env.set_parallelism(2)
    records = env.from_sequence(0, size - 1).map(make)
    records.key_by(select).process(RunningSum()).sink_to(DiscardingSink())
    env.execute("keyed sum")


class _Context:
    """The least that the function needs: a key, and state in a dict."""

    key: Any = None

    def get_state(self, descriptor: Any) -> _State:
        return _State(self)


class _State:
    def __init__(self, context: _Context) -> None:
        self._context = context
        self._values: dict[Any, Any] = {}

    def value(self) -> Any:
        return self._values.get(self._context.key)

    def update(self, value: Any) -> None:
        self._values[self._context.key] = value


def loop(size: int) -> None:
    """The same functions in one thread, with nothing around them."""
    context = _Context()
    function = RunningSum()
    function.open(context)  # type: ignore[arg-type]
    for index in range(size):
        record = make(index)
        context.key = select(record)
        for _ in function.process_element(record, context):
            pass


def run() -> Throughput:
    """Measure."""
    return throughput("keyed running sum", job, loop, SIZES, GOAL)
