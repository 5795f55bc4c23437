"""How long a job with a million keys is away: from its failure to the first record of the next attempt."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.common import Configuration, RestartStrategies, Types
from millrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from millrace.datastream.connectors.discard import DiscardingSink
from millrace.datastream.state import ValueStateDescriptor

KEYS = 1_000_000
GOAL = 5.0


class FailsOnce(KeyedProcessFunction):
    """Counts each key; fails when all keys have come twice, and notes when."""

    def __init__(self, notes: str) -> None:
        self._notes = Path(notes)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.attempt = runtime_context.get_attempt_number()

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        if value >= 2 * KEYS:
            if self.attempt == 0:
                (self._notes / "failed").write_text(str(time.time()))
                raise RuntimeError("on purpose")
            if not (self._notes / "back").exists():
                (self._notes / "back").write_text(str(time.time()))
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield count


@dataclass(frozen=True)
class Recovery:
    """Seconds, for each state backend."""

    seconds: dict[str, float]

    def __str__(self) -> str:
        times = ", ".join(f"{kind} {taken:.1f} s" for kind, taken in self.seconds.items())
        verdict = "ok" if max(self.seconds.values()) <= GOAL else "BELOW"
        return f"restart with {KEYS:,} keys: {times}   goal {GOAL:g} s   {verdict}"


def recover(backend: str) -> float:
    """Run until the failure, and through it."""
    with tempfile.TemporaryDirectory() as directory:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2).enable_checkpointing(10)
        env.get_checkpoint_config().set_checkpoint_storage(f"{directory}/checkpoints")
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
        env.configure(Configuration.from_dict({"state.backend.type": backend}))
        numbers = env.from_sequence(0, 2 * KEYS + 200_000)
        keyed = numbers.key_by(lambda number: number % KEYS, Types.LONG())
        keyed.process(FailsOnce(directory)).sink_to(DiscardingSink())
        env.execute("recovery")
        failed, back = (float(Path(directory, name).read_text()) for name in ("failed", "back"))
        return back - failed


def run() -> Recovery:
    """Measure."""
    return Recovery({backend: recover(backend) for backend in ("hashmap", "rocksdb")})
