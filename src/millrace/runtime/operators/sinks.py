"""The ends of a program: to the driver (print, collect), to a SinkFunction, to a two-phase Sink."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from millrace.common.types import Row, RowKind
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError, resolve
from millrace.runtime.operators.base import Operator
from millrace.runtime.rows import SinkRecords
from millrace.state.descriptors import ListStateDescriptor


def printed(record: Any) -> str:
    """A record as `print` writes it: a Row as Flink does, anything else as Python does.

    >>> from millrace.common import Row
    >>> printed(Row("a", 1)), printed(("a", 1))
    ('+I[a, 1]', "('a', 1)")
    """
    if isinstance(record, Row):
        return f"{_KINDS[record.get_row_kind()]}[{', '.join(map(printed, record))}]"
    return str(record)


_KINDS = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}


class CollectOperator(Operator):
    """Sends records to the driver, for `print` and `execute_and_collect`."""

    def __init__(self, render: Any = None) -> None:
        super().__init__(render)

    def process(self, batch: Batch, side: int) -> None:
        values = batch.values if self.function is None else list(map(self.function, batch.values))
        self.context.to_driver(SinkRecords(self.context.node_id, self.context.subtask, values))


class SinkContext:
    """What `SinkFunction.invoke` and `SinkWriter.write` may ask about a record."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._timestamp: int | None = None

    def timestamp(self) -> int | None:
        """The record's timestamp, or None."""
        return self._timestamp

    def current_watermark(self) -> int:
        """How far event time is."""
        return self._operator.watermark

    def current_processing_time(self) -> int:
        """The epoch's processing time."""
        return self._operator.context.processing_time


class SinkFunctionOperator(Operator):
    """Runs a SinkFunction: `invoke(value, context)` for every record, as it comes.

    What it does cannot be taken back: when a task is run again, records are handed to it a second time.
    """

    def open(self) -> None:
        super().open()
        self._context = SinkContext(self)
        invoke = resolve(self.function, "invoke")
        takes_context = callable(getattr(self.function, "invoke", None))
        self._invoke = invoke if takes_context else lambda value, context: invoke(value)

    def process(self, batch: Batch, side: int) -> None:
        write_each(self, self._invoke, self._context, batch)


class SinkOperator(Operator):
    """Runs a Sink: records go to its writer, and what the writer has ready to commit goes to the driver, which
    commits it once the epoch is safe.

    The writer of a sink without writer state lives as long as the process. One with state is made anew wherever the
    state is not what this process left it at.
    """

    def open(self) -> None:
        self._context = SinkContext(self)
        self._in_epoch = False
        self._writer: Any = None
        keeps_state = getattr(self.function, "keeps_writer_state", None)
        self._state: Any = None
        self._has_state = keeps_state is not None and keeps_state()
        if not self._has_state:
            self._writer = self.function.create_writer(self.context.runtime_context)

    def restore(self) -> None:
        if not self._has_state:
            return
        descriptor = ListStateDescriptor("@writer", self.function.writer_state_type)
        self._state = self.context.backends.operator.get_list_state(descriptor)
        self._new_writer()

    def _new_writer(self) -> None:
        writer, self._writer, self._in_epoch = self._writer, None, False
        if writer is not None:
            writer.close()
        context = self.context.runtime_context
        if self._state is not None and self.context.restored:
            self._writer = self.function.restore_writer(context, self._state.get())
        else:
            self._writer = self.function.create_writer(context)

    def begin(self) -> None:
        if self._in_epoch:  # The attempt before this one failed: what it wrote must not be committed.
            self._new_writer()
        self._in_epoch = True

    def process(self, batch: Batch, side: int) -> None:
        write_all = getattr(self._writer, "write_all", None)
        if write_all is None or self.policy.action != "fail":
            write_each(self, self._writer.write, self._context, batch)
            return
        try:
            write_all(batch.values, batch.timestamps)
        except Exception as error:
            raise UserCodeError.wrap(error, self.function, batch.values[:1], "write_all of") from error

    def end_of_epoch(self) -> None:
        try:
            self._writer.flush(self.context.final)
            self.context.committables.extend(self._writer.prepare_commit())
            if self._state is not None and self.context.keeps_state:
                self._state.update(self._writer.snapshot_state(self.context.epoch))
            self._in_epoch = False
        except Exception as error:
            raise self.failure(error, "flushing") from error

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def write_each(operator: Operator, write: Any, context: SinkContext, batch: Batch) -> None:
    """Call a writer on each record."""
    stamps = repeat(None) if batch.timestamps is None else batch.timestamps
    records = zip(batch.values, stamps)  # noqa: B905 (repeat has no end)
    value = None
    while True:
        try:
            for value, context._timestamp in records:
                write(value, context)
            return
        except Exception as error:
            operator.bad_record(value, error)
