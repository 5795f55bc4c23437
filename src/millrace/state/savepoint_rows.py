"""From rows, or a table of Arrow, pandas or Spark, to the fragments of a savepoint's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from millrace.common.errors import MillraceError, short_repr
from millrace.state.arrow import Shape, shape_of
from millrace.state.codec import ColumnCodec
from millrace.state.delta import Fragment
from millrace.state.errors import StateError, StateTypeError
from millrace.state.fragments import encode_columns, where
from millrace.state.hashing import stable_hash
from millrace.state.key_groups import key_group, subtask_of
from millrace.state.manifest import OperatorMeta, StateMeta
from millrace.state.operator_state import redistribute_list
from millrace.state.savepoint_views import KeyedRows, KeyedStateView, Types
from millrace.state.tables import INT64, Columns

# By role; those without a type are pickled unless they are plain.
Codecs = dict[str, ColumnCodec]


def codecs_of(types: Types) -> Codecs:
    """The codecs of a state's columns."""
    codecs = {role: ColumnCodec(kind) for role, kind in types.items()}
    return {**codecs, "count": INT64, "stamp": INT64, "time": INT64, "seq": INT64}


# -- reading what the user gives --------------------------------------------------------------------------------------


def rows_given(given: Any, view: KeyedStateView) -> KeyedRows:
    """Keyed rows out of a frame with the columns of `KeyedStateView.to_arrow`, or out of tuples as `items` gives them.

    Values may be as the program has them or as Arrow, pandas or Spark hand them over.
    """
    columns = _columns_of_frame(given)
    place = where(view.operator.uid, view.meta.name)
    named = {"key", "namespace"} if view.meta.namespaced else {"key"}
    if columns is None:
        rows = _rows_of_tuples(given, view.meta.namespaced, place)
    else:
        missing = sorted((named | {view.value_column}) - set(columns))
        if missing:
            raise StateError(
                f"{place}: the table has no column {', '.join(missing)}; it has {', '.join(columns) or 'none'}",
                action=f"Name its columns as to_arrow() does: {', '.join([*sorted(named), view.value_column])}.",
            )
        namespaces = columns.get("namespace") if view.meta.namespaced else None
        values = columns[view.value_column]
        stamps = _stamps_given(columns.get("stamp", columns.get("stamps")), values, place) if view.meta.ttl else None
        rows = KeyedRows(columns["key"], namespaces, values, stamps)
    return _settled(rows, view, place)


def _stamps_given(stamps: list[Any] | None, values: list[Any], place: str) -> list[Any] | None:
    """Stamps as ints; None where a table has none, or NaN as pandas has it."""

    def as_int(stamp: Any) -> Any:
        if hasattr(stamp, "__iter__"):
            return list(map(as_int, stamp))
        return None if stamp is None or stamp != stamp else int(stamp)  # noqa: PLR0124 - how a NaN is told

    if stamps is None:
        return None
    found = list(map(as_int, stamps))
    for value, stamp in zip(values, found, strict=True):
        if isinstance(stamp, list) and (len(stamp) != len(value) or None in stamp):
            raise StateError(
                f"{place}: {short_repr(stamp)} are not the stamps of {short_repr(value)}",
                action="Give each item or entry its stamp, or leave the column out.",
            )
    return found


def _columns_of_frame(given: Any) -> dict[str, list[Any]] | None:
    """The columns of a table of Arrow, pandas or Spark; None for anything else."""
    for method in ("toArrow", "to_arrow"):  # Spark's DataFrame; a view of another savepoint
        if hasattr(given, method):
            given = getattr(given, method)()
            break
    if hasattr(given, "column_names"):  # Arrow
        return {name: given.column(name).to_pylist() for name in given.column_names}
    if hasattr(given, "to_records"):  # pandas
        return {str(name): given[name].tolist() for name in given.columns}
    return None


def _rows_of_tuples(given: Iterable[Any], namespaced: bool, place: str) -> KeyedRows:
    width = 3 if namespaced else 2
    rows = [*(given.items() if isinstance(given, dict) else given)]
    for row in rows:
        if not isinstance(row, tuple) or len(row) != width:
            shape = "(key, namespace, value)" if namespaced else "(key, value)"
            raise StateError(f"{place}: {short_repr(row)} is not a tuple {shape}", action=f"Give tuples {shape}.")
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
    return KeyedRows(columns[0], columns[1] if namespaced else None, columns[-1])


def _settled(rows: KeyedRows, view: KeyedStateView, place: str) -> KeyedRows:
    """The rows as the state's types have them: no key twice, nothing that is None or empty."""
    types = view.types
    keys = _converted(types.get("key"), shape_of(types.get("key")), rows.keys, f"{place}, keys")
    namespaces = rows.namespaces
    if namespaces is not None:
        namespaces = _converted(types.get("ns"), shape_of(types.get("ns")), namespaces, f"{place}, namespaces")
    values = _converted(None, view.value_shape, rows.values, place)
    kept = [place for place, value in enumerate(values) if value is not None and not _is_empty(view, value)]
    settled = KeyedRows(
        [keys[n] for n in kept],
        None if namespaces is None else [namespaces[n] for n in kept],
        [values[n] for n in kept],
        [rows.stamps[n] for n in kept] if rows.stamps is not None else None,
    )
    for key in settled.keys:
        stable_hash(key)  # says why, if it cannot be a key
    owners = settled.keys if settled.namespaces is None else list(zip(settled.keys, settled.namespaces, strict=True))
    if len(set(owners)) < len(owners):
        twice = next(owner for owner in owners if owners.count(owner) > 1)
        raise StateError(f"{place}: the key {short_repr(twice)} is there twice", action="Give each key one row.")
    return settled


def _is_empty(view: KeyedStateView, value: Any) -> bool:
    return view.meta.kind in ("list", "map") and not len(value)


def _converted(type_info: Any, shape: Shape, values: list[Any], place: str) -> list[Any]:
    try:
        done = [None if value is None else shape.from_arrow(value) for value in values]
        return done if type_info is None else list(type_info.coerce_batch(done))
    except (MillraceError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise StateTypeError(
            f"{place}: a value does not fit the state's type: {error}", action="Convert the values before."
        ) from error


# -- writing ----------------------------------------------------------------------------------------------------------


def keyed_fragments(rows: KeyedRows, view: KeyedStateView) -> list[Fragment | None]:
    """What the rows are in the file of each subtask of their operator; None where a subtask has none."""
    operator, meta = view.operator, view.meta
    subtasks = [
        subtask_of(key_group(key, operator.max_parallelism), operator.parallelism, operator.max_parallelism)
        for key in rows.keys
    ]
    stamps = _stamps(meta.kind, rows) if meta.ttl else None
    fragments = []
    for subtask in range(operator.parallelism):
        mine = [place for place, owner in enumerate(subtasks) if owner == subtask]
        own = KeyedRows(
            [rows.keys[n] for n in mine],
            None if rows.namespaces is None else [rows.namespaces[n] for n in mine],
            [rows.values[n] for n in mine],
            None if stamps is None else [stamps[n] for n in mine],
        )
        fragments.append(_fragment(operator.uid, "keyed", meta, view.types, keyed_columns(meta, own)) if mine else None)
    return fragments


def _stamps(kind: str, rows: KeyedRows) -> list[Any]:
    """When entries were written; now, where nothing says so."""
    now = int(time.time() * 1000)
    fresh = [[now] * len(value) for value in rows.values] if kind in ("list", "map") else [now] * len(rows.values)
    known = rows.stamps or fresh
    return [new if old is None else old for old, new in zip(known, fresh, strict=True)]


def keyed_columns(meta: StateMeta, rows: KeyedRows) -> Columns:
    """Rows as the columns of a keyed table's `full`."""
    part = "set" if meta.kind == "list" else "put"
    columns: Columns = {f"{part}.key": rows.keys}
    if rows.namespaces is not None:
        columns[f"{part}.ns"] = rows.namespaces
    stamps = rows.stamps
    if meta.kind in ("list", "map"):
        columns[f"{part}.count"] = list(map(len, rows.values))
        stamps = None if stamps is None else list(chain.from_iterable(stamps))
    if meta.kind == "list":
        columns["set.item"] = list(chain.from_iterable(rows.values))
    elif meta.kind == "map":
        columns["put.entry"] = list(chain.from_iterable(rows.values))
        columns["put.value"] = list(chain.from_iterable(entries.values() for entries in rows.values))
    else:
        columns["put.value"] = rows.values
    if meta.ttl and stamps is not None:
        columns[f"{part}.stamp"] = stamps
    return columns


def operator_fragments(
    operator: OperatorMeta, meta: StateMeta, types: Types, given: Any
) -> tuple[int, list[Fragment | None]]:
    """The number of items given, and what they are in the file of each subtask: lists are dealt out, the first
    subtask has all of a union list, and every subtask all of a broadcast map."""
    place = where(operator.uid, meta.name)
    frame = _columns_of_frame(given)
    if meta.kind == "broadcast":
        pairs = list(given.items() if isinstance(given, dict) else given) if frame is None else None
        keys = [key for key, _ in pairs] if pairs is not None else (frame or {})["key"]
        values = [value for _, value in pairs] if pairs is not None else (frame or {})["value"]
        keys = _converted(None, shape_of(types.get("entry")), keys, place)
        values = _converted(None, shape_of(types.get("value")), values, place)
        columns: Columns = {"put.key": [None], "put.count": [len(keys)], "put.entry": keys, "put.value": values}
        fragment = _fragment(operator.uid, "operator", meta, types, columns) if keys else None
        return len(keys), [fragment] * operator.parallelism
    items = _converted(None, shape_of(types.get("item")), frame["item"] if frame is not None else list(given), place)
    shares = redistribute_list([items], operator.parallelism)
    if meta.kind == "union-list":
        shares = [items, *([] for _ in shares[1:])]
    return len(items), [
        _fragment(operator.uid, "operator", meta, types, {"all.item": share}) if share else None for share in shares
    ]


def _fragment(uid: str, section: str, meta: StateMeta, types: Types, columns: Columns) -> Fragment:
    header: dict[str, Any] = {"name": meta.name, "kind": meta.kind}
    if section == "keyed":
        header["namespaced"] = meta.namespaced
    if meta.ttl:
        header["ttl"] = True
    codecs = codecs_of(types)
    for role in {name.partition(".")[2] for name in columns}:
        codecs.setdefault(role, ColumnCodec())
    try:
        return Fragment(uid, section, header, encode_columns(codecs, columns)[1])
    except StateError as error:
        error.message = f"{where(uid, meta.name)}: {error.message}"
        raise


def transformed(view: KeyedStateView, function: Callable[[Any, Any], Any]) -> KeyedRows:
    """The rows of a state with each value replaced by `function(key, value)`; None removes the row.

    Where state has a time to live, what stays keeps its stamp, and what is new gets the newest of its key.
    """
    rows = KeyedRows(namespaces=[] if view.meta.namespaced else None, stamps=[] if view.meta.ttl else None)
    for batch in view.batches():
        for place, (key, old) in enumerate(zip(batch.keys, batch.values, strict=True)):
            stamps = batch.stamps[place] if batch.stamps is not None else None
            before = list(old) if view.meta.kind in ("list", "map") else None
            value = function(key, old)
            if value is None:
                continue
            rows.keys.append(key)
            rows.values.append(value)
            if rows.namespaces is not None and batch.namespaces is not None:
                rows.namespaces.append(batch.namespaces[place])
            if rows.stamps is not None:
                rows.stamps.append(_carried(stamps, before, value))
    return _settled(rows, view, where(view.operator.uid, view.meta.name))


def _carried(stamps: Any, before: list[Any] | None, value: Any) -> Any:
    if before is None or stamps is None:
        return stamps
    newest = max(stamps)
    if isinstance(value, dict):
        known = dict(zip(before, stamps, strict=True))
        return [known.get(entry, newest) for entry in value]
    return [stamps[place] if place < len(stamps) else newest for place in range(len(value))]
