"""Fields of records, by position or by name: over tuples, Rows, lists, dicts, dataclasses and plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.typeinfo import DataclassTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from millrace.common.types import Row, make_row

from ._checks import at_site, require_instance
from .functions import KeySelector

_PLAIN = (int, float, complex, str, bytes, bool)


def key_selector(selector: Any, record_type: TypeInformation | None) -> Callable[[Any], Any]:
    """What `key_by` was given as a plain callable, in C where that can be.

    >>> key_selector(1, None)(("a", "b"))
    'b'
    >>> key_selector("user.name", None)({"user": {"name": "Ann"}})
    'Ann'
    """
    require_instance(selector, "key_by")
    if isinstance(selector, KeySelector):
        return selector.get_key
    if isinstance(selector, (list, tuple)) and selector:
        return FieldTuple(tuple(key_selector(part, record_type) for part in selector))
    if isinstance(selector, str):
        return _by_name(selector, record_type)
    if type(selector) is int:
        _require_position(selector, record_type)
        return itemgetter(selector)
    if callable(selector):
        return selector  # type: ignore[no-any-return]
    raise ProgramError(
        at_site(f"key_by takes a callable, a KeySelector, or fields, not {short_repr(selector)}."),
        action='Write key_by(lambda record: ...), key_by(0) or key_by("name").',
    )


def _require_position(position: int, record_type: TypeInformation | None) -> None:
    if isinstance(record_type, (TupleTypeInfo, RowTypeInfo)):
        arity = record_type.get_arity()
        if not -arity <= position < arity:
            raise ProgramError(at_site(f"There is no field {position} in {record_type}."))


def _by_name(path: str, record_type: TypeInformation | None) -> Callable[[Any], Any]:
    names = path.split(".")
    if not all(names):
        raise ProgramError(at_site(f"{path!r} is no field expression; write 'a' or 'a.b'."))
    if isinstance(record_type, TupleTypeInfo) and len(names) == 1:
        position = _tuple_position(path)
        if position is None or position >= record_type.get_arity():
            raise ProgramError(
                at_site(f"There is no field {path!r} in {record_type}."), action="The fields of a tuple are f0, f1, ..."
            )
        return itemgetter(position)
    if isinstance(record_type, (RowTypeInfo, DataclassTypeInfo)):
        known = list(record_type.get_field_names())
        if names[0] not in known:
            raise ProgramError(at_site(f"There is no field {names[0]!r} in {record_type}; it has {', '.join(known)}."))
        if isinstance(record_type, RowTypeInfo) and len(names) == 1:
            return itemgetter(known.index(path))
        if isinstance(record_type, DataclassTypeInfo) and len(names) == 1:
            return attrgetter(path)
    return FieldPath(tuple(names))


def _tuple_position(name: str) -> int | None:
    """`f2` -> 2."""
    return int(name[1:]) if name[:1] == "f" and name[1:].isdecimal() else None


@dataclasses.dataclass(frozen=True)
class FieldTuple:
    """Several fields as one key."""

    selectors: tuple[Callable[[Any], Any], ...]

    def __call__(self, record: Any) -> tuple[Any, ...]:
        return tuple(selector(record) for selector in self.selectors)


@dataclasses.dataclass(frozen=True)
class FieldPath:
    """A field by name, or a field of a field."""

    names: tuple[str, ...]

    def __call__(self, record: Any) -> Any:
        for name in self.names:
            record = get_field(record, name)
        return record


def get_field(record: Any, field: int | str) -> Any:
    """One field of a record; position 0 of a plain value is the value itself.

    >>> get_field(("a", 2), "f1"), get_field({"x": 1}, "x"), get_field(7, 0)
    (2, 1, 7)
    """
    if isinstance(field, int):
        if field == 0 and isinstance(record, _PLAIN):
            return record
        if dataclasses.is_dataclass(record):
            return getattr(record, dataclasses.fields(record)[field].name)
        return record[field]
    if isinstance(record, (dict, Row)):
        return record[field]
    found = getattr(record, field, _ABSENT)
    if found is not _ABSENT:
        return found
    position = _tuple_position(field)
    if position is not None and isinstance(record, (tuple, list)):
        return record[position]
    raise KeyError(f"there is no field {field!r} in {short_repr(record)}")


_ABSENT = object()


def with_field(record: Any, field: int | str, value: Any) -> Any:
    """The record with another value in one field; the record itself stays as it is.

    >>> with_field(("a", 2), 1, 3), with_field(7, 0, 8)
    (('a', 3), 8)
    """
    if field == 0 and isinstance(record, _PLAIN):
        return value
    if isinstance(record, Row):
        changed = make_row(list(record), record._fields, record.get_row_kind())
        changed[field] = value
        return changed
    if isinstance(record, dict):
        return {**record, field: value}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        name = dataclasses.fields(record)[field].name if isinstance(field, int) else field
        return dataclasses.replace(record, **{name: value})
    return _sequence_with(record, field, value)


def _sequence_with(record: Any, field: int | str, value: Any) -> Any:
    position = _position_in(record, field)
    values = list(record)
    values[position] = value
    if isinstance(record, list):
        return values
    make = getattr(type(record), "_make", tuple)  # A named tuple stays one.
    return make(values)


def _position_in(record: Any, field: int | str) -> int:
    if isinstance(field, int):
        return field
    names: Sequence[str] = getattr(record, "_fields", ())
    position = names.index(field) if field in names else _tuple_position(field)
    if position is None:
        raise KeyError(f"there is no field {field!r} in {short_repr(record)}")
    return position
