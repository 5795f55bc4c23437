"""The reductions behind sum, min, max, min_by, max_by, and the projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from millrace.common.types import Row, make_row

from ._checks import at_site
from ._fields import get_field, with_field
from .functions import MapFunction, ReduceFunction


@dataclass(frozen=True)
class RollingSum(ReduceFunction):
    """Adds up a field; the other fields stay those of the first record.

    >>> RollingSum(1).reduce(("a", 1), ("b", 2))
    ('a', 3)
    """

    field: int | str

    def reduce(self, value1: Any, value2: Any) -> Any:
        field = self.field
        if type(value1) is tuple and type(field) is int and field >= 0:  # The common case, and much quicker so.
            return (*value1[:field], value1[field] + value2[field], *value1[field + 1 :])
        return with_field(value1, field, get_field(value1, field) + get_field(value2, field))


@dataclass(frozen=True)
class RollingExtreme(ReduceFunction):
    """The least or greatest value of a field so far.

    With `whole` the record that has it is the result, else the first record with its field replaced. Of several
    equal ones the first stays.

    >>> RollingExtreme(1, greatest=False, whole=False).reduce(("a", 2), ("b", 1))
    ('a', 1)
    >>> RollingExtreme(1, greatest=False, whole=True).reduce(("a", 2), ("b", 1))
    ('b', 1)
    """

    field: int | str
    greatest: bool
    whole: bool

    def reduce(self, value1: Any, value2: Any) -> Any:
        old, new = get_field(value1, self.field), get_field(value2, self.field)
        if not (new > old if self.greatest else new < old):
            return value1
        return value2 if self.whole else with_field(value1, self.field, new)


def require_field(field: Any, operation: str) -> int | str:
    """A field's position or name."""
    if type(field) is int or (isinstance(field, str) and field):
        return field
    raise ProgramError(at_site(f"{operation} takes a field's position or name, not {field!r}."))


@dataclass(frozen=True)
class Projection(MapFunction):
    """Some fields of a tuple or a Row, in a new order.

    >>> Projection((2, 0)).map(("a", "b", "c"))
    ('c', 'a')
    """

    positions: tuple[int, ...]

    def map(self, value: Any) -> Any:
        if isinstance(value, Row):
            names = value._fields
            kept = None if names is None else tuple(names[position] for position in self.positions)
            return make_row([value[position] for position in self.positions], kept, value.get_row_kind())
        return tuple(value[position] for position in self.positions)


def projected_type(record_type: TypeInformation | None, positions: tuple[int, ...]) -> TypeInformation | None:
    """The type of the projected records, as far as that of the records tells."""
    if not isinstance(record_type, (TupleTypeInfo, RowTypeInfo)):
        return None
    types = record_type.get_field_types()
    beyond = [position for position in positions if position >= len(types)]
    if beyond:
        raise ProgramError(at_site(f"There is no field {beyond[0]} in {record_type}."))
    kept = [types[position] for position in positions]
    if isinstance(record_type, TupleTypeInfo):
        return TupleTypeInfo(kept)
    names = record_type.names
    return RowTypeInfo(kept, None if names is None else [names[position] for position in positions])
