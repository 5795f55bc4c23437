"""What Spark runs in its Python workers: the function of a `mapInArrow` stage."""

from __future__ import annotations

import base64
import contextlib
import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import cloudpickle
import pyarrow as pa
from pyspark import TaskContext

from millrace.runtime.epoch import EpochInput
from millrace.runtime.failure import PROGRAM_ENDS, describe_failure
from millrace.runtime.level_task import ENTRY_CHANNEL
from millrace.runtime.rows import Row, encode, rank
from millrace.spark.hosting import Hosted, JobReference

# Columns of an exchange's rows, in the order of runtime.rows.Row.
SCHEMA = "slot int, level int, seq long, rank long, payload binary"

_ARROW = pa.schema(
    [
        pa.field("slot", pa.int32()),
        pa.field("level", pa.int32()),
        pa.field("seq", pa.int64()),
        pa.field("rank", pa.int64()),
        pa.field("payload", pa.binary()),
    ]
)


def encode_epoch(epoch: EpochInput) -> str:
    """An epoch's input as a property of a Spark job."""
    return base64.b85encode(zlib.compress(cloudpickle.dumps(epoch), 1)).decode()


def decode_epoch(text: str | None) -> EpochInput:
    """The epoch's input, in a task."""
    assert text is not None
    epoch = pickle.loads(zlib.decompress(base64.b85decode(text)))
    assert isinstance(epoch, EpochInput)
    return epoch


class TaskFailed(Exception):
    """Ends a task whose failure the driver knows already, in detail."""


class InputLost(Exception):
    """Spark could not bring a task its input: an executor went away, or what reads the user's table failed. Spark
    knows why, and runs again what can be run again; it is no failure of the task."""


@dataclass(frozen=True)
class StageTask:
    """One level of a job. It is the same in every epoch, so that Spark can run the same plan again and again; what
    is new in an epoch comes as a property of the Spark job."""

    job: JobReference
    level: int

    @property
    def property_name(self) -> str:
        """Where this level's `EpochInput` is, in the properties of the Spark job."""
        return f"millrace.level.{self.level}"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run this task's slot."""
        context = TaskContext.get()
        assert context is not None
        slot, attempt = context.partitionId(), context.taskAttemptId()
        hosted = self.job.hosted()
        with hosted.link.running(), _telling(hosted, f"level {self.level}, slot {slot}", (self.level, slot)):
            epoch = decode_epoch(context.getLocalProperty(self.property_name))
            task = hosted.job.task(self.level, slot, epoch, attempt)
            for rows in task.run(_rows(batches)):
                if rows:
                    yield _batch(rows)


@contextlib.contextmanager
def _telling(hosted: Hosted, what: str, place: tuple[int, int] | None = None) -> Iterator[None]:
    """Tell the driver why a task fails, before Spark does."""
    try:
        yield
    except InputLost:
        raise
    except (Exception, *PROGRAM_ENDS) as error:
        failure = describe_failure(error, what, place)
        hosted.link.report_failure(failure.encode())
        raise TaskFailed(failure.message) from None


def _arriving(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark hands a task."""
    try:
        yield from batches
    except Exception as error:
        raise InputLost(str(error)) from error


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of a stage's input; the first stage's own input, a range of slot numbers, has none."""
    for batch in _arriving(batches):
        if batch.num_columns < len(_ARROW):
            continue
        slots, levels, seqs, ranks = (batch.column(index).to_pylist() for index in range(4))
        payloads = batch.column(4)
        for index in range(batch.num_rows):
            yield Row(slots[index], levels[index], seqs[index], ranks[index], payloads[index].as_buffer())


def _batch(rows: list[Row]) -> pa.RecordBatch:
    slots, levels, seqs, ranks, payloads = zip(*rows, strict=True)
    return pa.record_batch(
        [
            pa.array(slots, pa.int32()),
            pa.array(levels, pa.int32()),
            pa.array(seqs, pa.int64()),
            pa.array(ranks, pa.int64()),
            pa.array([bytes(payload) for payload in payloads], pa.binary()),
        ],
        schema=_ARROW,
    )


@dataclass(frozen=True)
class EntryTask:
    """Turns the rows of a DataFrame into buffers for its source vertex; each of Spark's partitions is a split."""

    job: JobReference
    vertex: int
    slot: int
    parallelism: int
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wrap one partition."""
        hosted = self.job.hosted()
        with hosted.link.running(), _telling(hosted, "a DataFrame's partition"):
            yield from self._wrap(batches)

    def _wrap(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from millrace.common.types import Row as Record

        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        make = Record(*self.names)
        slot = self.slot + partition % self.parallelism
        for seq, batch in enumerate(_arriving(batches)):
            columns = [column.to_pylist(maps_as_pydicts="strict") for column in batch.columns]
            values = [make(*fields) for fields in zip(*columns, strict=True)]
            if values:
                payload = encode((self.vertex, ENTRY_CHANNEL, context.taskAttemptId(), values, None, None, False))
                yield _batch([Row(slot, 0, seq, rank(partition, 0, seq), payload)])
