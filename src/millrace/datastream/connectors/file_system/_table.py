"""Records as columns and back: the work is done column by column, since a dict for each record costs twice as much."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from millrace.common.types import make_row
from millrace.state.arrow import shape_of, to_arrow

_ROW_VALUES = attrgetter("_values")

# Types whose values Arrow hands back as they are.
_SAME = frozenset(BasicType) - {BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}


class TableType:
    """A type of records that has columns: ROW, TUPLE or DATACLASS.

    >>> from millrace.common import Types
    >>> table_type = TableType(Types.TUPLE([Types.LONG(), Types.STRING()]))
    >>> table_type.records(table_type.table([(1, "a"), (2, None)]))
    [(1, 'a'), (2, None)]
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self.type = type_info
        kind = shape_of(type_info).type
        if kind is None or not isinstance(type_info, RowTypeInfo | TupleTypeInfo | DataclassTypeInfo):
            raise ProgramError(
                f"{type_info!r} has no columns.",
                action="Declare the records as Types.ROW_NAMED(...), Types.TUPLE(...) or Types.DATACLASS(...), "
                "with a type for each field.",
            )
        self.names = [field.name for field in kind]
        self._types = type_info.get_field_types()
        self._shapes = list(map(shape_of, self._types))
        self._values, self._make = _ways(type_info, self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return TableType, (self.type,)

    @property
    def schema(self) -> Any:
        """The Arrow schema."""
        import pyarrow as pa

        return pa.schema([(name, shape.type) for name, shape in zip(self.names, self._shapes, strict=True)])

    def table(self, records: list[Any]) -> Any:
        """An Arrow table of records that have been coerced."""
        import pyarrow as pa

        columns = zip(*map(self._values, records), strict=True)
        arrays = [to_arrow(shape, list(column)) for shape, column in zip(self._shapes, columns, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def records(self, batch: Any) -> list[Any]:
        """The records of an Arrow table or batch that has the columns, in any order."""
        columns = []
        exact = True
        for name, type_info, shape in zip(self.names, self._types, self._shapes, strict=True):
            column = batch.column(name)
            exact = exact and column.type == shape.type
            values = column.to_pylist()
            same = isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _SAME
            columns.append(values if same else list(map(shape.from_arrow, values)))
        records = list(map(self._make, zip(*columns, strict=True)))
        return records if exact else self.type.coerce_batch(records)


def _ways(type_info: TypeInformation, names: list[str]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """From a record to its values, and back."""
    if isinstance(type_info, RowTypeInfo):
        row_names = type_info.names
        return _ROW_VALUES, lambda values: make_row(list(values), row_names)
    if isinstance(type_info, DataclassTypeInfo):
        build = type_info.build
        values_of = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)
        return values_of, lambda values: build(list(values))
    return tuple, tuple
