"""How long a program of ten records takes: in a warm session, and from a cold Python process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from benchmarks.measure import seconds
from millrace.datastream import StreamExecutionEnvironment

GOAL_WARM, GOAL_COLD = 1.0, 12.0

_PROGRAM = """
from millrace.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.from_collection(list(range(10))).key_by(lambda n: n % 3).reduce(lambda a, b: a + b).print()
env.execute("ten records")
"""


@dataclass(frozen=True)
class StartUp:
    """Seconds of `execute()` in a warm session, and of the whole program in a new process."""

    warm: float
    cold: float

    def __str__(self) -> str:
        ok = self.warm <= GOAL_WARM and self.cold <= GOAL_COLD
        return (
            f"{'start-up':<22} warm {self.warm:.2f} s (goal {GOAL_WARM:.0f}), cold {self.cold:.1f} s "
            f"(goal {GOAL_COLD:.0f})   {'ok' if ok else 'BELOW'}"
        )


def ten_records() -> None:
    """The program."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    results = env.from_collection(list(range(10))).key_by(lambda n: n % 3).reduce(lambda a, b: a + b)
    with results.execute_and_collect("ten records") as records:
        assert len(list(records)) == 10


def run() -> StartUp:
    """Measure."""
    ten_records()
    warm = min(seconds(ten_records) for _ in range(5))
    command = [sys.executable, "-c", _PROGRAM]
    cold = min(seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(2))
    return StartUp(warm, cold)
