"""How things are measured: the slope between two sizes, beside a plain loop over the same functions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# Rounds of each size; the best one counts, because everything else on the machine only ever adds time.
ROUNDS = 3


@dataclass(frozen=True)
class Throughput:
    """Records per second of a job, beside those of something else: the plain loop, most often."""

    name: str
    job: float
    loop: float
    goal: float
    beside: str = "plain loop"

    @property
    def ratio(self) -> float:
        """The job's speed in those of the other."""
        return self.job / self.loop

    def __str__(self) -> str:
        verdict = "ok" if self.ratio >= self.goal else "BELOW"
        return (
            f"{self.name:<22} {self.job:>12,.0f} records/s   {self.beside} {self.loop:>12,.0f}   "
            f"ratio {self.ratio:5.2f}   goal {self.goal:.2f}   {verdict}"
        )


def seconds(run: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def throughput(
    name: str,
    job: Callable[[int], object],
    loop: Callable[[int], object],
    sizes: tuple[int, int],
    goal: float,
    beside: str = "plain loop",
) -> Throughput:
    """Run job and loop in turn at two sizes; what start-up costs cancels out of the difference."""
    small, large = sizes
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for size in sizes:
            for kind, run in (("job", job), ("loop", loop)):
                taken = seconds(lambda run=run, size=size: run(size))
                best[kind, size] = min(taken, best.get((kind, size), taken))
    speed = {kind: (large - small) / (best[kind, large] - best[kind, small]) for kind in ("job", "loop")}
    return Throughput(name, speed["job"], speed["loop"], goal, beside)
