"""Between tables and files: columns to bytes and back."""

from __future__ import annotations

from typing import Any

from millrace.state.codec import ColumnCodec, EncodedColumn
from millrace.state.delta import Fragment
from millrace.state.errors import StateCorruptedError, StateError, StateTypeError
from millrace.state.tables import Columns, Table


def where(uid: str, name: str) -> str:
    """How messages speak of a state."""
    return f"state {name!r} of operator {uid!r}"


def encode_columns(codecs: dict[str, ColumnCodec], columns: Columns) -> tuple[Columns, dict[str, EncodedColumn]]:
    """Columns as a reader will see them, and their bytes. Empty columns have none."""
    settled: Columns = {}
    encoded: dict[str, EncodedColumn] = {}
    for name, values in columns.items():
        settled[name] = values
        if values:
            settled[name], encoded[name] = codecs[name.partition(".")[2]].encode(values)
    return settled, encoded


def decode_columns(codecs: dict[str, ColumnCodec], fragment: Fragment, *, allow_pickle: bool) -> Columns:
    """The columns of a fragment. Roles that the codecs do not know are left out."""
    roles = ((name, name.partition(".")[2], column) for name, column in fragment.columns.items())
    return {
        name: codecs[role].decode(column, allow_pickle=allow_pickle, role=role)
        for name, role, column in roles
        if role in codecs
    }


def apply_fragment(table: Table, fragment: Fragment, *, allow_pickle: bool) -> None:
    """Settle in a table what a file says about it; an error names the operator and the state."""
    uid, _, name = fragment.address
    place = where(uid, name)
    check_shape(place, fragment.meta, table.meta())
    try:
        table.apply(decode_columns(table.codecs, fragment, allow_pickle=allow_pickle))
    except StateError as error:
        error.message = f"{place}: {error.message}"
        raise
    except (KeyError, ValueError, TypeError) as error:
        raise StateCorruptedError(f"{place} does not follow from what was read before it: {error!r}") from error


def check_shape(place: str, written: dict[str, Any], declared: dict[str, Any]) -> None:
    """`StateTypeError` unless a state was written as what it is now."""
    if shape(written) != shape(declared):
        raise StateTypeError(
            f"{place} was written as {shape(written)}, and the program declares {shape(declared)}",
            action="Give the changed state a new name, or declare it as before.",
        )


def shape(meta: dict[str, Any]) -> str:
    """What of a table must not change: its kind, and whether it has namespaces."""
    return f"{meta['kind']} state{' by namespace' if meta.get('namespaced') else ''}"
