"""The keyed state of one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.state.codec import BatchType, ColumnCodec
from millrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from millrace.state.errors import StateDescriptorError
from millrace.state.heap_list import HeapListState
from millrace.state.heap_map import HeapMapState
from millrace.state.heap_ttl import (
    Expiry,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)
from millrace.state.heap_value import HeapAggregatingState, HeapReducingState, HeapValueState
from millrace.state.tables import INT64, Clock, KeyContext, KeyedTable, NamespacedContext, Table

Attach = Callable[[str, Table], None]

# Gives a new table its place on disk.
Place = Callable[[KeyedTable], None]


class KeyedStateBackend:
    """Hands out the keyed state of one operator.

    Whoever runs the operator assigns `context.key` before each record or timer; every state works on that key. A
    namespaced state works on the key and the namespace that `set_namespace` gave it last.

    >>> backend = KeyedStateBackend("sum")
    >>> total = backend.get_state(ValueStateDescriptor("total"))
    >>> backend.context.key = "a"
    >>> total.update(3)
    >>> total.value()
    3
    >>> backend.context.key = "b"
    >>> total.value() is None
    True
    """

    def __init__(
        self,
        uid: str,
        clock: Clock | None = None,
        key_codec: ColumnCodec | None = None,
        attach: Attach | None = None,
        place: Place | None = None,
    ) -> None:
        self.uid = uid
        self.context = KeyContext()
        self.clock = clock or Clock()
        self.key_codec = key_codec or ColumnCodec()
        self._attach = attach
        self._place = place
        self._tables: dict[str, KeyedTable] = {}
        self._identities: dict[str, tuple[Any, ...]] = {}

    def get_state(
        self, descriptor: StateDescriptor, namespaced: bool = False, namespace_type: BatchType | None = None
    ) -> Any:
        """The state that a descriptor describes; the same object each time the same name is asked for."""
        name = descriptor.name
        identity = _identity(descriptor, namespaced)
        if name not in self._tables:
            table = self._create(descriptor, namespaced, namespace_type)
            if self._attach is not None:
                self._attach("keyed", table)
            self._tables[name] = table
            self._identities[name] = identity
        elif self._identities[name] != identity:
            raise StateDescriptorError(
                f"operator {self.uid!r} asked for state {name!r} as {identity}, after {self._identities[name]}",
                action="Give each state of an operator a name of its own.",
            )
        return self._tables[name]

    def _create(self, descriptor: StateDescriptor, namespaced: bool, namespace_type: BatchType | None) -> KeyedTable:
        context = NamespacedContext(self.context) if namespaced else self.context
        codecs = {"key": self.key_codec, **value_codecs(descriptor)}
        if namespaced:
            codecs["ns"] = ColumnCodec(namespace_type)
        ttl = descriptor.ttl_config
        if ttl is not None:
            codecs["stamp"] = INT64
        table = _new_table(descriptor, codecs, context, ttl is not None)
        table.queryable = descriptor.get_queryable_state_name()
        if ttl is not None:
            table.expiry = Expiry(ttl, self.clock)
        if self._place is not None:
            self._place(table)
        return table

    def tables(self) -> list[KeyedTable]:
        """The states that were asked for so far."""
        return list(self._tables.values())

    def keys(self, state_name: str) -> list[Any]:
        """The keys that have an entry in a state."""
        return self._tables[state_name].live_keys()

    def count(self, state_name: str) -> int:
        """The number of keys (with namespaces) that have an entry in a state."""
        return self._tables[state_name].entry_count()

    def apply_to_all(self, descriptor: StateDescriptor, function: Callable[[Any, Any], Any]) -> None:
        """Call `function(key, state)` for every key that has an entry, with that key as the current one."""
        state = self.get_state(descriptor)
        before = self.context.key
        try:
            for key in self.keys(descriptor.name):
                self.context.key = key
                function(key, state)
        finally:
            self.context.key = before


def value_codecs(descriptor: StateDescriptor) -> dict[str, ColumnCodec]:
    """The codecs of what a state of this descriptor keeps under a key."""
    if isinstance(descriptor, MapStateDescriptor):
        return {
            "entry": ColumnCodec(descriptor.key_type_info),
            "value": ColumnCodec(descriptor.value_type_info),
        }
    role = "item" if isinstance(descriptor, ListStateDescriptor) else "value"
    return {role: ColumnCodec(descriptor.type_info)}


def _identity(descriptor: StateDescriptor, namespaced: bool) -> tuple[Any, ...]:
    types = {role: codec.type_json for role, codec in value_codecs(descriptor).items()}
    return (descriptor.kind, "namespaced" if namespaced else "by key", types, repr(descriptor.ttl_config))


def _new_table(
    descriptor: StateDescriptor,
    codecs: dict[str, ColumnCodec],
    context: KeyContext | NamespacedContext,
    ttl: bool,
) -> KeyedTable:
    name = descriptor.name
    match descriptor:
        case ValueStateDescriptor():
            return (TtlValueState if ttl else HeapValueState)(name, codecs, context)
        case ListStateDescriptor():
            return (TtlListState if ttl else HeapListState)(name, codecs, context)
        case MapStateDescriptor():
            return (TtlMapState if ttl else HeapMapState)(name, codecs, context)
        case ReducingStateDescriptor():
            return (TtlReducingState if ttl else HeapReducingState)(name, codecs, context, descriptor.reducer())
        case AggregatingStateDescriptor():
            function = descriptor.get_agg_function()
            return (TtlAggregatingState if ttl else HeapAggregatingState)(name, codecs, context, function)
    raise StateDescriptorError(
        f"{descriptor!r} describes no keyed state",
        action="Use one of the five: value, list, map, reducing, aggregating.",
    )
