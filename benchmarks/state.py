"""State without Spark: what an epoch costs however much there is, how much memory, and how long a restore takes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import seconds
from millrace.common import Types
from millrace.state import BackendSpec, StateHandles, SubtaskState, ValueStateDescriptor, open_files

# Both numbers of keys, and what an epoch touches of them.
FEW, MANY, TOUCHED = 10_000, int(os.environ.get("STATE_KEYS", "5_000_000")), 1_000
EPOCHS = 60
MAX_RATIO = 1.5

RESTORED = 1_000_000
MAX_RESTORE_SECONDS = 4.0

# 20,000,000 take some minutes and 5 GB of disk.
LARGE = int(os.environ.get("STATE_LARGE_KEYS", "20_000_000"))
VALUE_BYTES = 200
MAX_MEGABYTES = 1024

# Keys of one epoch while a state is filled.
STEP = 50_000


class Job:
    """One subtask with one value per key."""

    def __init__(self, root: Path, kind: Any, value_type: Any = None, local: str = "local") -> None:
        backend = BackendSpec() if kind == "hashmap" else BackendSpec(kind, str(root / local))
        self.state = SubtaskState(open_files(root / "job"), "v", 0, backend=backend)
        keyed = self.state.operator("op", Types.LONG()).keyed
        self.context = keyed.context
        self.value = keyed.get_state(ValueStateDescriptor("n", value_type or Types.LONG()))
        self.handles = StateHandles()
        self.epochs = 0

    def put(self, keys: Any, value_of: Callable[[int], Any]) -> None:
        """An epoch that sets keys."""
        self.state.open(self.handles)
        for key in keys:
            self.context.key = key
            self.value.update(value_of(key))
        self._end()

    def count(self, keys: Any) -> None:
        """An epoch that reads and writes keys."""
        self.state.open(self.handles)
        for key in keys:
            self.context.key = key
            self.value.update(self.value.value() + 1)
        self._end()

    def _end(self) -> None:
        self.epochs += 1
        old = {handle.path for handle in self.handles.chain}
        self.handles = self.state.snapshot(self.epochs, "a")
        for path in old - {handle.path for handle in self.handles.chain}:
            self.state._files.delete(path)

    def fill(self, count: int, value_of: Callable[[int], Any] = int) -> None:
        """Set that many keys, in several epochs."""
        for start in range(0, count, STEP):
            self.put(range(start, min(count, start + STEP)), value_of)


@dataclass(frozen=True)
class Measured:
    """Figures and whether they are within their goal."""

    text: str
    ok: bool

    def __str__(self) -> str:
        return f"{self.text}   {'ok' if self.ok else 'BELOW'}"


def epoch_cost(root: Path, keys: int) -> float:
    """The seconds of an epoch that touches some keys of many: a quarter of the epochs are faster.

    Not the median, because whatever else the machine does only ever adds time. So epochs that merge files, one in
    ten or so, do not count.
    """
    job = Job(root, "rocksdb")
    job.fill(keys)
    chooser = random.Random(7)
    taken = [seconds(lambda: job.count(chooser.sample(range(keys), TOUCHED))) for _ in range(EPOCHS)]
    return sorted(taken)[len(taken) // 4]


def epochs() -> Measured:
    """An epoch costs what it touches, and not what the state holds."""
    cost = {}
    for keys in (FEW, MANY):
        with TemporaryDirectory() as folder:
            cost[keys] = epoch_cost(Path(folder), keys)
    ratio = cost[MANY] / cost[FEW]
    text = (
        f"{TOUCHED:,} keys of {FEW:,}: {cost[FEW] * 1e3:.1f} ms, of {MANY:,}: {cost[MANY] * 1e3:.1f} ms   "
        f"ratio {ratio:.2f}   goal {MAX_RATIO}"
    )
    return Measured(f"rocksdb, an epoch      {text}", ratio <= MAX_RATIO)


def restores() -> Iterator[Measured]:
    """Opening a checkpoint elsewhere, and restoring it with another parallelism."""
    for kind in ("hashmap", "rocksdb"):
        opened, rescaled = _restore(kind)
        text = f"{kind + ', restore':<22} {RESTORED:,} keys: {opened:.2f} s, rescaled {rescaled:.2f} s"
        yield Measured(f"{text}   goal {MAX_RESTORE_SECONDS:.0f} s", max(opened, rescaled) <= MAX_RESTORE_SECONDS)


def _restore(kind: str) -> tuple[float, float]:
    with TemporaryDirectory() as folder:
        job = Job(Path(folder), kind)
        job.fill(RESTORED)
        elsewhere, rescaled = Job(Path(folder), kind, local="b"), Job(Path(folder), kind, local="c")
        opened_in = seconds(lambda: elsewhere.state.open(job.handles))
        rescaled_in = seconds(lambda: rescaled.state.restore_rescaled([job.handles], lambda _: (range(64), 128), 2))
        for one in (elsewhere, rescaled):
            one.state.release()
    return opened_in, rescaled_in


def memory() -> Measured:
    """The memory of a process that fills a large state, in one of its own."""
    code = "from benchmarks.state import fill_large; fill_large()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    megabytes, taken = map(float, done.stdout.split())
    text = f"{LARGE:,} keys of {VALUE_BYTES} bytes: {megabytes:,.0f} MB of memory, filled in {taken:.0f} s"
    return Measured(f"rocksdb, memory        {text}   goal {MAX_MEGABYTES} MB", megabytes <= MAX_MEGABYTES)


def fill_large() -> None:
    """Fill a large state; print this process's peak of memory in MB, and the seconds."""
    import resource

    with TemporaryDirectory() as folder:
        job = Job(Path(folder), "rocksdb", Types.PRIMITIVE_ARRAY(Types.BYTE()))
        values = random.Random(7)
        taken = seconds(lambda: job.fill(LARGE, lambda _: values.randbytes(VALUE_BYTES)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, taken)


def run() -> str:
    """Measure."""
    return "\n".join(map(str, (epochs(), *restores(), memory())))
