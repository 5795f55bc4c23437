"""From messages to records: where a message that cannot be read meets the operator's policy."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.common.serialization import DeserializationSchema
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.base import Operator


def read_messages(
    operator: Operator, schema: DeserializationSchema, messages: Sequence[bytes], timestamps: list[int] | None
) -> Batch:
    """The records of messages. Those that cannot be read fail, are skipped, or go to a side output, as the policy of
    the operator says; what the schema leaves out is left out."""

    def bad(index: int, error: Exception) -> None:
        if operator.policy.action == "fail":
            raise UserCodeError.wrap(error, schema.deserialize, messages[index]) from error
        operator.bad_record(messages[index], error)

    records = schema.deserialize_batch(messages, bad)
    if None not in records:
        return Batch(records, timestamps)
    kept = [record is not None for record in records]
    stamps = None if timestamps is None else [stamp for stamp, here in zip(timestamps, kept, strict=True) if here]
    return Batch([record for record in records if record is not None], stamps)


class DeserializeOperator(Operator):
    """Reads messages by a DeserializationSchema, a list at a time."""

    def __init__(self, schema: DeserializationSchema) -> None:
        super().__init__()
        self._schema = schema

    def open(self) -> None:
        super().open()
        self._schema.open()

    def process(self, batch: Batch, side: int) -> None:
        done = read_messages(self, self._schema, batch.values, batch.timestamps)
        if done.values:
            self.output.emit(done)
