"""The lookup join: a stream with a table that every subtask holds whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.common.typeinfo import TypeInformation, Types
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.stateless import emit_results
from millrace.state.descriptors import MapStateDescriptor

TABLE_SIDE = 1

Selector = Callable[[Any], Any]


def pair(record: Any, row: Any) -> tuple[Any, Any]:
    """What a join gives that has no function."""
    return record, row


class LookupJoinOperator(Operator):
    """Joins each record with the rows of a table that have its key; with `outer`, with None if there are none.

    The table comes whole in the job's first epoch, before the first record (`Broadcast(first=True)`). It is broadcast
    state from then on: a restart, and a start from a savepoint, go on with the same table.
    """

    def __init__(
        self,
        function: Any,
        selectors: tuple[Selector, Selector],
        row_type: TypeInformation | None,
        outer: bool,
    ) -> None:
        super().__init__(function)
        self.record_key, self.row_key = selectors
        self.row_type = row_type
        self.outer = outer

    def open(self) -> None:
        super().open()
        self._call = getattr(self.function, "join", self.function)
        # --- what is checkpointed: the rows, numbered
        descriptor = MapStateDescriptor("table", Types.LONG(), self.row_type)
        self._table = self.context.backends.operator.get_broadcast_state(descriptor)
        # --- what is not: the same rows by key
        self._rows: dict[Any, list[Any]] = {}
        self._count = 0
        self._last: Any = None

    def restore(self) -> None:
        """Rows only ever come in addition: when the last one is the very same and none is behind it, the index is
        right. The rows of an attempt that failed, or of another process, are other objects."""
        table, count = self._table, self._count
        if not table.contains(count) and (count == 0 or table.get(count - 1) is self._last):
            return
        self._rows = {}
        self._count = 0
        for row in table.values():
            self._index(row)

    def process(self, batch: Batch, side: int) -> None:
        if side == TABLE_SIDE:
            for row in batch.values:
                self._table.put(self._count, row)
                self._index(row)
        else:
            emit_results(self, self._joined, batch)

    def _index(self, row: Any) -> None:
        self._count += 1
        self._last = row
        try:
            key = self.row_key(row)
            if not _is_null(key):
                self._rows.setdefault(key, []).append(row)
        except Exception as error:
            raise UserCodeError.wrap(error, self.row_key, row, "the table's key selector") from error

    def _joined(self, record: Any) -> list[Any]:
        key = self.record_key(record)
        rows = () if _is_null(key) else self._rows.get(key, ())
        call = self._call
        if not rows and self.outer:
            return [call(record, None)]
        return [call(record, row) for row in rows]


def _is_null(key: Any) -> bool:
    """As in SQL, what is not known is equal to nothing."""
    return key is None or (type(key) is tuple and None in key)
