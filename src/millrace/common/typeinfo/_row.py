"""Rows and tuples: a fixed number of fields, each of its own type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from ..errors import ProgramError
from ..types import Row, make_row
from ._base import Column, TypeInformation

_values_of = attrgetter("_values")
_names_of = attrgetter("_fields")


class _FieldsTypeInfo(TypeInformation):
    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        for position, field_type in enumerate(field_types):
            if not isinstance(field_type, TypeInformation):
                raise ProgramError(
                    f"the type of field {position} is {field_type!r}, which is no type information",
                    action="Call it: Types.STRING() and not Types.STRING.",
                )
        self._field_types = tuple(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def get_arity(self) -> int:
        return len(self._field_types)

    def uses_pickle(self) -> bool:
        return any(field_type.uses_pickle() for field_type in self._field_types)

    def need_conversion(self) -> bool:
        return True

    def _coerce_fields(self, records: Column) -> list[Column] | None:
        """The columns of ``records``, coerced; an empty list when no column changed."""
        columns = list(zip(*records, strict=True))
        done = [kind._column(column) for kind, column in zip(self._field_types, columns, strict=True)]
        if any(column is None for column in done):
            return None
        unchanged = all(new is old for new, old in zip(done, columns, strict=True))
        return [] if unchanged else [column for column in done if column is not None]

    def _convert_fields(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(kind.to_internal_type(value) for kind, value in zip(self._field_types, values, strict=False))

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None or isinstance(obj, (tuple, list)):
            return obj
        return tuple(kind.from_internal_type(value) for kind, value in zip(self._field_types, obj, strict=False))


class TupleTypeInfo(_FieldsTypeInfo):
    """Type information of a tuple. A list or a Row of the right length is taken and becomes a tuple.

    >>> from millrace.common import Types
    >>> info = TupleTypeInfo([Types.STRING(), Types.DOUBLE()])
    >>> info, str(info)
    (Tuple(String, Double), 'TupleTypeInfo(String, Double)')
    >>> info.coerce_batch([("a", 1), ("b", None)])
    [('a', 1.0), ('b', None)]
    """

    tag = "TUPLE"
    _exact = frozenset({tuple})

    def _args(self) -> tuple[Any, ...]:
        return (self._field_types,)

    def describe(self) -> str:
        return f"TUPLE({', '.join(kind.describe() for kind in self._field_types)})"

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "fields": [kind.to_json() for kind in self._field_types]}

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        if not isinstance(obj, (list, tuple, Row)):
            raise self._mismatch(obj)
        return self._convert_fields(obj)

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        if set(map(len, values)) != {len(self._field_types)}:
            return None
        columns = self._coerce_fields(values)
        if columns is None:
            return None
        return list(zip(*columns, strict=True)) if columns else values

    def _coerce_one(self, value: Any) -> Any:
        if not isinstance(value, (tuple, list, Row)):
            raise self._mismatch(value)
        if len(value) != len(self._field_types):
            raise self._mismatch(value, f"{len(value)} fields instead of {len(self._field_types)}")
        fields = zip(self._field_types, value, strict=True)
        return tuple(kind._coerce_part(item, f"f{position}") for position, (kind, item) in enumerate(fields))

    def __str__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self._field_types))})"


class RowTypeInfo(_FieldsTypeInfo):
    """Type information of a :class:`Row`.

    With field names, every row leaves with exactly these names in this order: a row without names, a tuple
    or a list is taken by position, a row with names and a dict by name (what a dict leaves out is None).
    Without field names, rows keep the names that they have.

    >>> from millrace.common import Types
    >>> info = RowTypeInfo([Types.STRING(), Types.INT()], ["name", "age"])
    >>> info, str(info)
    (Row(name: String, age: Integer), 'RowTypeInfo(name: String, age: Integer)')
    >>> info.coerce_batch([Row("Alice", 11), {"age": 12, "name": "Bob"}])
    [Row(name='Alice', age=11), Row(name='Bob', age=12)]
    """

    tag = "ROW"
    _exact = frozenset({Row})

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        super().__init__(field_types)
        self._names = None if field_names is None else tuple(field_names)
        self._check_names()
        self._shown_names = self._names or tuple(f"f{i}" for i in range(len(self._field_types)))

    def _check_names(self) -> None:
        if self._names is None:
            return
        if len(self._names) != len(self._field_types):
            raise ProgramError(f"a row type has {len(self._names)} names for {len(self._field_types)} types")
        if len(set(self._names)) != len(self._names):
            raise ProgramError(f"a row type has a field name twice: {', '.join(self._names)}")

    @property
    def names(self) -> tuple[str, ...] | None:
        """The declared names; None when there are none."""
        return self._names

    def get_field_names(self) -> list[str]:
        """The field names; ``f0``, ``f1`` and so on when none were declared."""
        return list(self._shown_names)

    def get_field_index(self, field_name: str) -> int:
        """The position of the field, -1 when there is none."""
        return self._shown_names.index(field_name) if field_name in self._shown_names else -1

    def _args(self) -> tuple[Any, ...]:
        return self._field_types, self._names

    def describe(self) -> str:
        return f"ROW({', '.join(self._list_fields(lambda kind: kind.describe()))})"

    def to_json(self) -> dict[str, Any]:
        fields = [kind.to_json() for kind in self._field_types]
        return {
            "type": self.tag,
            "names": None if self._names is None else list(self._names),
            "fields": fields,
        }

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        kind = obj.get_row_kind() if isinstance(obj, Row) else Row().get_row_kind()
        return (kind.value, *self._convert_fields(self._internal_values(obj)))

    def _internal_values(self, obj: Any) -> Iterable[Any]:
        if isinstance(obj, dict):
            return [obj.get(name) for name in self._shown_names]
        if isinstance(obj, Row):
            return obj.get_fields_by_names(self._names) if self._names else obj
        if isinstance(obj, (tuple, list)):
            return obj
        if hasattr(obj, "__dict__"):
            return [getattr(obj, name, None) for name in self._shown_names]
        raise self._mismatch(obj)

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        records = list(map(_values_of, values))
        if set(map(len, records)) != {len(self._field_types)}:
            return None
        relabel = False
        if self._names is not None:
            found = set(map(_names_of, values))
            if not found <= {self._names, None}:
                return None
            relabel = None in found
        columns = self._coerce_fields(records)
        if columns is None:
            return None
        if not columns and not relabel:
            return values
        rebuilt = map(list, zip(*columns, strict=True) if columns else records)
        if self._names is None:
            return [make_row(items, row._fields, row._row_kind) for items, row in zip(rebuilt, values, strict=True)]
        names = self._names
        return [make_row(items, names, row._row_kind) for items, row in zip(rebuilt, values, strict=True)]

    def _remade(self, row: Row, items: list[Any]) -> Row:
        return make_row(items, row._fields if self._names is None else self._names, row._row_kind)

    def _coerce_one(self, value: Any) -> Any:
        row = self._as_row(value)
        if len(row) != len(self._field_types):
            raise self._mismatch(value, f"{len(row)} fields instead of {len(self._field_types)}")
        fields = zip(self._field_types, row._values, self._shown_names, strict=True)
        items = [kind._coerce_part(item, name) for kind, item, name in fields]
        return self._remade(row, items)

    def _as_row(self, value: Any) -> Row:
        if isinstance(value, Row):
            if self._names is None or value._fields is None or value._fields == self._names:
                return value
            self._check_known(value, value._fields, complete=True)
            return make_row(value.get_fields_by_names(self._names), self._names, value._row_kind)
        if isinstance(value, (tuple, list)):
            return make_row(list(value), self._names)
        if isinstance(value, dict):
            self._check_known(value, value, complete=False)
            return make_row([value.get(name) for name in self._shown_names], self._names)
        raise self._mismatch(value)

    def _check_known(self, value: Any, names: Iterable[Any], complete: bool) -> None:
        given = list(names)
        unknown = [name for name in given if name not in self._shown_names]
        if unknown:
            raise self._mismatch(value, f"unknown field {', '.join(map(repr, unknown))}")
        missing = [name for name in self._shown_names if name not in given]
        if complete and missing:
            raise self._mismatch(value, f"missing field {', '.join(map(repr, missing))}")

    def _list_fields(self, show: Callable[[TypeInformation], str]) -> list[str]:
        if self._names is None:
            return [show(kind) for kind in self._field_types]
        return [f"{name}: {show(kind)}" for name, kind in zip(self._names, self._field_types, strict=True)]

    def __str__(self) -> str:
        return f"RowTypeInfo({', '.join(self._list_fields(str))})"

    def __repr__(self) -> str:
        return f"Row({', '.join(self._list_fields(repr))})"
