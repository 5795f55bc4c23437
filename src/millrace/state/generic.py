"""Tables that are built from what files say, for state that no operator has asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millrace.state.codec import BatchType, ColumnCodec, EncodedColumn, type_of_column
from millrace.state.delta import Fragment
from millrace.state.errors import StateCorruptedError
from millrace.state.heap_list import HeapListState
from millrace.state.heap_map import HeapMapState
from millrace.state.heap_ttl import Expiry, TtlListState, TtlMapState, TtlValueState
from millrace.state.heap_value import HeapValueState
from millrace.state.operator_state import HeapBroadcastState, OperatorListState, UnionListState
from millrace.state.tables import INT64, Clock, KeyContext, KeyedTable, NamespacedContext, Table
from millrace.state.timers import TimerTable
from millrace.state.ttl import StateTtlConfig

TypesByRole = dict[str, BatchType | None]

_KEYED: dict[str, tuple[type[KeyedTable], type[KeyedTable]]] = {
    "value": (HeapValueState, TtlValueState),
    "reducing": (HeapValueState, TtlValueState),
    "aggregating": (HeapValueState, TtlValueState),
    "list": (HeapListState, TtlListState),
    "map": (HeapMapState, TtlMapState),
}

# What a program's values can be to a state, and what are numbers, whatever the state's type.
_ROLES = ("key", "ns", "value", "item", "entry")
_NUMBERS = frozenset({"stamp", "count", "time", "seq"})

# Tables that are only read never expire anything; the config is a formality.
_FORMALITY = StateTtlConfig.new_builder(1).build()


def types_of(fragments: Iterable[Fragment], trusted: bool) -> TypesByRole:
    """The types that columns were written with, the first of each role."""
    types: TypesByRole = {}
    for fragment in fragments:
        for name, column in fragment.columns.items():
            role = name.partition(".")[2]
            if role not in types and role not in _NUMBERS:
                types[role] = type_of_column(column, trusted)
    return types


def json_types(types: dict[str, dict[str, Any] | None], trusted: bool) -> TypesByRole:
    """Types by their descriptions."""
    return {role: type_of_column(EncodedColumn("typed", kind, False, b""), trusted) for role, kind in types.items()}


def generic_table(meta: dict[str, Any], types: TypesByRole, clock: Clock) -> Table:
    """A table of that kind. Reducing and aggregating state becomes value state."""
    codecs = {**dict.fromkeys(_ROLES, ColumnCodec()), **{role: ColumnCodec(kind) for role, kind in types.items()}}
    codecs["stamp"] = INT64
    name, kind = meta["name"], meta["kind"]
    if kind in _KEYED:
        ttl = bool(meta.get("ttl"))
        context = NamespacedContext(KeyContext()) if meta["namespaced"] else KeyContext()
        table = _KEYED[kind][ttl](name, codecs, context)
        if ttl:
            table.expiry = Expiry(_FORMALITY, clock)
        return table
    if kind == HeapBroadcastState.kind:
        return HeapBroadcastState(name, codecs, KeyContext())
    for cls in (OperatorListState, UnionListState, TimerTable):
        if kind == cls.kind:
            return cls(name, codecs)
    raise StateCorruptedError(f"state of the unknown kind {kind!r}")
