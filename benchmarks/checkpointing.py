"""What checkpoints cost: the keyed running sum with one each second, beside the same without."""

from __future__ import annotations

import tempfile

from benchmarks import keyed_sum
from benchmarks.measure import Throughput, throughput
from millrace.datastream import StreamExecutionEnvironment

SIZES = (5_000_000, 20_000_000)
GOAL = 0.7


def job(size: int) -> None:
    """With checkpoints."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    with tempfile.TemporaryDirectory() as directory:
        env.get_checkpoint_config().set_checkpoint_storage(directory)
        keyed_sum.run_in(env, size)


def run() -> Throughput:
    """Measure."""
    return throughput("checkpoint each second", job, keyed_sum.job, SIZES, GOAL, "without")
