"""Redistribution of state: from the files of all old subtasks to what one new subtask begins with.

Nothing here knows the program: tables are built from what the files say, so that state which the program does not
ask for is carried along as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

from millrace.state.codec import ColumnCodec, type_of_column
from millrace.state.delta import Fragment, Part
from millrace.state.errors import StateCorruptedError, StateError
from millrace.state.fragments import apply_fragment, encode_columns, where
from millrace.state.heap_list import HeapListState
from millrace.state.heap_map import HeapMapState
from millrace.state.heap_ttl import Expiry, TtlListState, TtlMapState, TtlValueState
from millrace.state.heap_value import HeapValueState
from millrace.state.key_groups import key_group
from millrace.state.operator_state import (
    HeapBroadcastState,
    OperatorListState,
    UnionListState,
    redistribute_list,
)
from millrace.state.tables import (
    INT64,
    Clock,
    Columns,
    KeyContext,
    KeyedTable,
    NamespacedContext,
    Table,
    spread,
)
from millrace.state.timers import TimerTable
from millrace.state.ttl import StateTtlConfig

# (the key groups that a subtask owns, of how many) by operator uid
KeyGroupsOf = Callable[[str], tuple[range, int]]

_Address = tuple[str, str, str]

_KEYED: dict[str, tuple[type[KeyedTable], type[KeyedTable]]] = {
    "value": (HeapValueState, TtlValueState),
    "reducing": (HeapValueState, TtlValueState),
    "aggregating": (HeapValueState, TtlValueState),
    "list": (HeapListState, TtlListState),
    "map": (HeapMapState, TtlMapState),
}

# Tables that are only read never expire anything; the config is a formality.
_FORMALITY = StateTtlConfig.new_builder(1).build()

_ONE_PER_KEY = frozenset({"key", "ns", "count"})


def open_tables(parts: list[Part], clock: Clock, *, allow_pickle: bool) -> dict[_Address, Table]:
    """The tables of one subtask as its files describe them."""
    fragments: dict[_Address, list[Fragment]] = {}
    for part in parts:
        for fragment in part.fragments:
            fragments.setdefault(fragment.address, []).append(fragment)
    tables = {}
    for address, chain in fragments.items():
        try:
            table = tables[address] = _table_of(chain, clock, trusted=allow_pickle)
        except StateError as error:
            error.message = f"{where(address[0], address[2])}: {error.message}"
            raise
        for fragment in chain:
            meta = {**fragment.meta, "kind": table.kind}
            apply_fragment(table, fragment._replace(meta=meta), allow_pickle=allow_pickle)
    return tables


def _table_of(chain: list[Fragment], clock: Clock, *, trusted: bool) -> Table:
    meta = chain[-1].meta
    name, kind = meta["name"], meta["kind"]
    codecs: dict[str, ColumnCodec] = {"stamp": INT64}
    for fragment in chain:
        for column_name, column in fragment.columns.items():
            codecs.setdefault(column_name.partition(".")[2], ColumnCodec(type_of_column(column, trusted)))
    if kind in _KEYED:
        ttl = any(fragment.meta.get("ttl") for fragment in chain)
        context = NamespacedContext(KeyContext()) if meta["namespaced"] else KeyContext()
        table = _KEYED[kind][ttl](name, _Untyped(codecs), context)
        if ttl:
            table.expiry = Expiry(_FORMALITY, clock)
        return table
    if kind == HeapBroadcastState.kind:
        return HeapBroadcastState(name, _Untyped(codecs), KeyContext())
    for cls in (OperatorListState, UnionListState, TimerTable):
        if kind == cls.kind:
            return cls(name, _Untyped(codecs))
    raise StateCorruptedError(f"state of the unknown kind {kind!r}")


class _Untyped(dict[str, ColumnCodec]):
    """Codecs of columns; one that no file has gets a codec without a type."""

    def __missing__(self, role: str) -> ColumnCodec:
        return ColumnCodec()


def rescaled_fragments(
    old_subtasks: list[list[Part]],
    key_groups: KeyGroupsOf,
    subtask: int,
    parallelism: int,
    clock: Clock,
    *,
    allow_pickle: bool,
) -> Iterator[Fragment]:
    """What subtask `subtask` of now `parallelism` begins with."""
    by_address: dict[_Address, list[Table]] = {}
    for parts in old_subtasks:
        for address, table in open_tables(parts, clock, allow_pickle=allow_pickle).items():
            by_address.setdefault(address, []).append(table)
    metas = {fragment.address: fragment.meta for parts in old_subtasks for part in parts for fragment in part.fragments}
    for address, tables in by_address.items():
        uid, section, _ = address
        for columns in _redistributed(uid, tables, key_groups, subtask, parallelism):
            yield Fragment(uid, section, metas[address], encode_columns(tables[0].codecs, columns)[1])


def _redistributed(
    uid: str, tables: list[Table], key_groups: KeyGroupsOf, subtask: int, parallelism: int
) -> Iterator[Columns]:
    match tables[0]:
        case UnionListState():
            yield {"all.item": _all_items(tables)}
        case OperatorListState():
            yield {"all.item": redistribute_list([_all_items(tables)], parallelism)[subtask]}
        case HeapBroadcastState():
            yield tables[subtask % len(tables)].full()
        case TimerTable():
            yield _renumbered([keep_owned(table.full(), *key_groups(uid)) for table in tables])
        case _:
            for table in tables:
                yield keep_owned(table.full(), *key_groups(uid))


def _all_items(tables: list[Table]) -> list[Any]:
    return [item for table in tables for item in table.full()["all.item"]]


def keep_owned(columns: Columns, owned: range, max_parallelism: int) -> Columns:
    """The rows of columns whose keys are of the owned key groups. Takes the columns of one `full`."""
    part = next(name for name in columns if name.endswith(".key")).partition(".")[0]
    keep = [key_group(key, max_parallelism) in owned for key in columns[f"{part}.key"]]
    counts = columns.get(f"{part}.count")
    keep_items = keep if counts is None else list(spread(keep, counts))
    kept = {}
    for name, values in columns.items():
        of_part, _, role = name.partition(".")
        if of_part != part:
            kept[name] = values
        else:
            per_key = counts is None or role in _ONE_PER_KEY
            kept[name] = list(compress(values, keep if per_key else keep_items))
    return kept


def _renumbered(all_columns: list[Columns]) -> Columns:
    """The timers of several subtasks, in the order of their sequence, which each subtask counted on its own."""
    names = ("put.seq", "put.time", "put.key", "put.ns")
    rows = [row for columns in all_columns for row in zip(*(columns[name] for name in names), strict=True)]
    rows.sort(key=lambda row: row[0])
    return {
        "put.seq": list(range(len(rows))),
        "put.time": [row[1] for row in rows],
        "put.key": [row[2] for row in rows],
        "put.ns": [row[3] for row in rows],
        "next.seq": [len(rows)],
    }
