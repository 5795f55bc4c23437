"""Three maps and a filter, all lambdas, in one chain."""

from __future__ import annotations

from benchmarks.measure import Throughput, throughput
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors.discard import DiscardingSink

SIZES = (4_000_000, 16_000_000)
GOAL = 0.7

add = lambda number: number + 1  # noqa: E731
double = lambda number: number * 2  # noqa: E731
pair = lambda number: (number, number)  # noqa: E731
third = lambda record: record[0] % 3 == 0  # noqa: E731


def job(size: int) -> None:
    """The workload on Spark."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_sequence(0, size - 1)
    numbers.map(add).map(double).map(pair).filter(third).sink_to(DiscardingSink())
    env.execute("stateless chain")


def loop(size: int) -> None:
    """The same functions in one thread, with nothing around them."""
    for number in range(size):
        third(pair(double(add(number))))


def run() -> Throughput:
    """Measure."""
    return throughput("stateless chain", job, loop, SIZES, GOAL)
