"""What a running job leaves in its directory."""

from __future__ import annotations

from pathlib import Path

from millrace.common import WatermarkStrategy
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors.datagen import DataGeneratorSource
from millrace.driver.job import JobRun
from millrace.state.files import open_files
from millrace.testing.in_process import InProcessExecutor


def test_a_job_of_many_epochs_keeps_only_the_files_that_the_next_epoch_needs() -> None:
    executor = InProcessExecutor()
    env = StreamExecutionEnvironment.create_with_executor(executor).set_parallelism(2)
    source = DataGeneratorSource(lambda index: (index % 7, index), count=2_000, records_per_second=1_000)
    pairs = env.from_source(source, WatermarkStrategy.no_watermarks(), "pairs")
    totals = pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    pending = totals.collect_async()
    job = env.execute_async("many epochs")
    assert isinstance(job, JobRun)

    seen = 0
    for _ in pending.results(job):
        seen = max(seen, len(open_files(job.directory).list("state")))
    job.get_job_execution_result().result()

    assert job.coordinator.state.epoch > 30
    # Four subtasks, each with a base and at most some twenty deltas.
    assert 0 < seen <= 4 * 25
    assert not Path(job.directory).exists()
