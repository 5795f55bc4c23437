"""Events per second of each query, generator included: `python -m benchmarks nexmark`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from benchmarks.measure import ROUNDS, seconds
from benchmarks.nexmark.events import Generator, read
from benchmarks.nexmark.queries import QUERIES, Query
from millrace.datastream import DataStream, StreamExecutionEnvironment
from millrace.datastream.connectors.discard import DiscardingSink

SIZES = (250_000, 1_000_000)

# As in Nexmark; a hundred seconds of event time at the larger size, so that windows open and close.
GENERATOR = Generator(events_per_second=10_000)


@dataclass(frozen=True)
class Speed:
    """A query's speed, counted in events of all three kinds, whether it looks at them or not."""

    name: str
    events_per_second: float
    what: str

    def __str__(self) -> str:
        return f"{'nexmark ' + self.name:<22} {self.events_per_second:>12,.0f} events/s   {self.what}"


def nothing(events: DataStream) -> DataStream:
    """No question: what making the events costs, which is part of all the others."""
    return events


def job(query: Query, size: int) -> None:
    """A query on Spark, its answers thrown away."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    query(read(env, GENERATOR, size)).sink_to(DiscardingSink())
    env.execute(f"nexmark {query.__name__}")


def measure(name: str, query: Query) -> Speed:
    """The slope between two sizes, which take turns; of each the best round counts."""
    rounds = [[seconds(partial(job, query, size)) for size in SIZES] for _ in range(ROUNDS)]
    small, large = map(min, zip(*rounds, strict=True))
    what = (query.__doc__ or "").partition("\n")[0]
    return Speed(name, (SIZES[1] - SIZES[0]) / (large - small), what)


def run() -> str:
    """Measure all."""
    queries = {"events": nothing, **QUERIES}
    return "\n".join(str(measure(name, query)) for name, query in queries.items())
