"""Rows and the kinds of change that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from .errors import ProgramError

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """What a row means in a changelog."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


_KINDS = tuple(RowKind)
_INSERT = RowKind.INSERT


class Row:
    """A record of fields, reached by position, by name or as attributes.

    Built from values alone it has no names; built from keywords it has them, sorted (as PyFlink does). A
    row of strings can be called to make rows that have those strings as names.

    >>> row = Row(name="Alice", age=11)
    >>> row
    Row(age=11, name='Alice')
    >>> row["name"], row.age, row[0]
    ('Alice', 11, 11)
    >>> Row(1, "a")
    <Row(1, 'a')>
    >>> Person = Row("name", "age")
    >>> Person("Bob", 12)
    Row(name='Bob', age=12)
    >>> Row.of_kind(RowKind.DELETE, 1).get_row_kind()
    <RowKind.DELETE: 3>
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ProgramError(
                    "a Row takes either values or named values, not both",
                    action="Write Row(1, 'a') or Row(id=1, name='a').",
                )
            self._fields = tuple(sorted(kwargs))
            self._values = [kwargs[name] for name in self._fields]
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields by name; with ``recursive``, rows inside become dicts too.

        >>> Row(key=1, value=Row(a=2)).as_dict(recursive=True)
        {'key': 1, 'value': {'a': 2}}
        """
        if self._fields is None:
            raise TypeError("Cannot convert a Row without field names into dict")
        values = map(_unrow, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        self._row_kind = row_kind

    def set_field_names(self, field_names: Iterable[str]) -> None:
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """The values of the named fields, in the order of the names; all values when the row has no names."""
        if self._fields is None or tuple(names) == self._fields:
            return self._values
        unknown = [name for name in names if name not in self._fields]
        if unknown:
            raise ProgramError(
                f"the row has no field {', '.join(map(repr, unknown))}; it has {', '.join(map(repr, self._fields))}"
            )
        return [self._values[self._fields.index(name)] for name in names]

    def _is_retract_msg(self) -> bool:
        return self._row_kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)

    def _is_accumulate_msg(self) -> bool:
        return not self._is_retract_msg()

    def __call__(self, *args: Any) -> Row:
        if len(args) > len(self._values):
            raise ProgramError(f"{self!r} makes rows of {len(self._values)} values, but got {len(args)}")
        return make_row(list(args), tuple(self._values), self._row_kind)

    def __contains__(self, item: object) -> bool:
        return item in self._values

    def __getitem__(self, item: Any) -> Any:
        return self._values[item if isinstance(item, (int, slice)) else self._position(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key if isinstance(key, (int, slice)) else self._position(key)] = value

    def _position(self, name: Any) -> int:
        if self._fields is not None and name in self._fields:
            return self._fields.index(name)
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fields = self._fields
        if fields is not None and name in fields:
            return self._values[fields.index(name)]
        known = "no names" if fields is None else f"the fields {', '.join(map(repr, fields))}"
        raise AttributeError(f"the row has no field {name!r}; it has {known}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Row)
            and self._values == other._values
            and self._fields == other._fields
            and self._row_kind is other._row_kind
        )

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=False))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_row, (self._values, self._fields, self._row_kind.value)

    def __copy__(self) -> Row:
        return make_row(list(self._values), self._fields, self._row_kind)


def make_row(values: list[Any], fields: tuple[str, ...] | None, kind: RowKind = _INSERT) -> Row:
    """A row around ``values`` itself, not a copy: the cheap way for code that just made the list."""
    row = Row.__new__(Row)
    row._values = values
    row._fields = fields
    row._row_kind = kind
    return row


def _unpickle_row(values: list[Any], fields: tuple[str, ...] | None, kind: int) -> Row:
    return make_row(values, fields, _KINDS[kind])


def _unrow(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_unrow(item) for item in value]
    if isinstance(value, dict):
        return {key: _unrow(item) for key, item in value.items()}
    return value
