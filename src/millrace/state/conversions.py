"""Conversions of values from one type to another, column by column. What is to be converted into what is decided in
`evolution`; here it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from millrace.common.errors import TypeMismatchError
from millrace.state.errors import StateTypeError
from millrace.state.hashing import stable_hash

# From a list of values, none of them None, to what they become.
Convert = Callable[[list[Any]], list[Any]]

KEEP_THE_TYPE = "Declare the old type, or give the state a new name and let it begin empty."


@dataclass(frozen=True)
class FieldColumn:
    """Where a field of a new record comes from: an attribute of the old one, its place in it, or a default."""

    source: str | int | None
    convert: Convert | None
    default: Callable[[], Any] | None = None

    def values(self, records: list[Any]) -> list[Any]:
        if self.default is not None:
            return [self.default() for _ in records]
        if isinstance(self.source, str):
            column = [getattr(record, self.source) for record in records]
        else:
            column = [record[self.source] for record in records]
        return past_none(self.convert, column)


def new_records(columns: Iterable[FieldColumn], records: list[Any]) -> list[tuple[Any, ...]]:
    """The fields of the new records, one tuple per record."""
    values = [column.values(records) for column in columns]
    return list(zip(*values, strict=True)) if values else [()] * len(records)


def past_none(convert: Convert | None, values: list[Any]) -> list[Any]:
    """Convert what is not None; every None stays where it is."""
    if convert is None:
        return values
    present = [value for value in values if value is not None]
    following = iter(convert(present) if present else ())
    return [None if value is None else next(following) for value in values]


def over_lists(convert: Convert | None) -> Convert | None:
    """The conversion of lists by that of their elements."""
    if convert is None:
        return None

    def over(lists: list[list[Any]]) -> list[list[Any]]:
        following = iter(past_none(convert, [item for items in lists for item in items]))
        return [[next(following) for _ in items] for items in lists]

    return over


def over_maps(keys: Convert | None, items: Convert | None) -> Convert | None:
    """The conversion of dicts by those of their keys and values."""
    if keys is None and items is None:
        return None

    def over(maps: list[dict[Any, Any]]) -> list[dict[Any, Any]]:
        new_keys = iter(past_none(keys, [key for one in maps for key in one]))
        new_items = iter(past_none(items, [item for one in maps for item in one.values()]))
        return [{next(new_keys): next(new_items) for _ in one} for one in maps]

    return over


def coerced(declared: Any, values: list[Any], *, key: bool = False) -> list[Any]:
    """Values that had no type, as the declared type has them; `StateTypeError` if one does not fit, or if it is part
    of a key and would change its hash."""
    try:
        done: list[Any] = declared.coerce_batch(values)
    except TypeMismatchError as error:
        message = f"a value does not fit the declared type: {error.args[0]}"
        raise StateTypeError(message, action=KEEP_THE_TYPE) from error
    if key and done is not values:
        for old, new in zip(values, done, strict=True):
            if old is not new and (old != new or stable_hash(old) != stable_hash(new)):
                raise StateTypeError(
                    f"the key {old!r} would become {new!r}, which is another key",
                    action="Keep the type of the key, or start this operator's state anew under another uid.",
                )
    return done
