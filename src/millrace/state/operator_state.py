"""State that belongs to a subtask, not to a key: lists, union lists, and broadcast maps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar

from millrace.state.api import BroadcastState, ListState, OperatorStateStore
from millrace.state.codec import ColumnCodec
from millrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from millrace.state.errors import StateDescriptorError
from millrace.state.heap import Attach, value_codecs
from millrace.state.heap_map import MapOperations
from millrace.state.tables import Columns, KeyContext, Table


class OperatorListState(Table, ListState[Any]):
    """A list of the subtask; an epoch that changed it writes it whole. Rescaling deals its elements out."""

    __slots__ = ("_changed", "_items")

    kind: ClassVar[str] = "operator-list"

    def __init__(self, name: str, codecs: dict[str, ColumnCodec]) -> None:
        super().__init__(name, codecs)
        self._items: list[Any] = []
        self._changed = False

    def get(self) -> list[Any]:
        return list(self._items)

    def add(self, value: Any) -> None:
        self._items.append(value)
        self._changed = True

    def add_all(self, values: Iterable[Any]) -> None:
        self._items.extend(values)
        self._changed = True

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list. The same plain values again count as no change, and cost no file."""
        items = list(values)
        self._changed = self._changed or not _same(items, self._items)
        self._items = items

    def clear(self) -> None:
        self.update([])

    def delta(self) -> Columns | None:
        return self.full() if self._changed else None

    def commit(self, columns: Columns | None, coerced: bool) -> None:
        if coerced and columns is not None:
            self.apply(columns)
        self._changed = False

    def full(self) -> Columns:
        return {"all.item": self._items}

    def apply(self, columns: Columns) -> None:
        self._items = list(columns.get("all.item", []))

    def reset(self) -> None:
        self._items = []
        self._changed = False

    def entry_count(self) -> int:
        return len(self._items)


# Values that cannot have been changed in place since they were last written.
_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes})


def _same(new: list[Any], old: list[Any]) -> bool:
    if len(new) != len(old):
        return False
    return all(type(a) is type(b) and type(a) in _IMMUTABLE and a == b for a, b in zip(new, old, strict=True))


class UnionListState(OperatorListState):
    """A list of which every subtask gets the elements of all subtasks after rescaling."""

    __slots__ = ()

    kind: ClassVar[str] = "union-list"


class HeapBroadcastState(MapOperations, BroadcastState[Any, Any]):
    """A map that every subtask holds alike: map state under one key that never changes."""

    __slots__ = ()

    kind: ClassVar[str] = "broadcast"


class OperatorStateBackend(OperatorStateStore):
    """Hands out the operator state of one subtask of one operator.

    >>> offsets = OperatorStateBackend("source").get_list_state(ListStateDescriptor("offsets"))
    >>> offsets.add(7)
    >>> offsets.get()
    [7]
    """

    def __init__(self, uid: str, attach: Attach | None = None) -> None:
        self.uid = uid
        self._attach = attach
        self._tables: dict[str, Table] = {}

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        table = self._get(state_descriptor, OperatorListState)
        assert isinstance(table, OperatorListState)
        return table

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> UnionListState:
        table = self._get(state_descriptor, UnionListState)
        assert isinstance(table, UnionListState)
        return table

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> HeapBroadcastState:
        table = self._get(state_descriptor, HeapBroadcastState)
        assert isinstance(table, HeapBroadcastState)
        return table

    def tables(self) -> list[Table]:
        """The states that were asked for so far."""
        return list(self._tables.values())

    def _get(self, descriptor: StateDescriptor, cls: type[OperatorListState | HeapBroadcastState]) -> Table:
        if descriptor.is_queryable():
            raise StateDescriptorError(
                f"operator {self.uid!r} asked for state {descriptor.name!r} as {cls.kind}, which cannot be queried",
                action="Leave out set_queryable: only keyed state has a key to ask for.",
            )
        codecs = value_codecs(descriptor)
        known = self._tables.get(descriptor.name)
        if known is None:
            known = self._create(descriptor.name, cls, codecs)
            if self._attach is not None:
                self._attach("operator", known)
            self._tables[descriptor.name] = known
        elif type(known) is not cls or any(
            known.codecs[role].type_json != codec.type_json for role, codec in codecs.items()
        ):
            raise StateDescriptorError(
                f"operator {self.uid!r} asked for state {descriptor.name!r} as {cls.kind} of {descriptor!r}, "
                f"after {known.kind} with other types",
                action="Give each state of an operator a name of its own.",
            )
        return known

    def _create(self, name: str, cls: type[Any], codecs: dict[str, ColumnCodec]) -> Table:
        if cls is HeapBroadcastState:
            return HeapBroadcastState(name, {"key": ColumnCodec(), **codecs}, KeyContext())
        table: Table = cls(name, codecs)
        return table


def redistribute_list(lists: Iterable[Iterable[Any]], parallelism: int) -> list[list[Any]]:
    """Deal the elements of all old subtasks out to the new ones: evenly, in order, the first ones get one more.

    >>> redistribute_list([[1, 2, 3], [4, 5]], 3)
    [[1, 2], [3, 4], [5]]
    """
    items = [item for one in lists for item in one]
    share, extra = divmod(len(items), parallelism)
    starts = [subtask * share + min(subtask, extra) for subtask in range(parallelism + 1)]
    return [items[start:end] for start, end in pairwise(starts)]


def redistribute_union(lists: Iterable[Iterable[Any]], parallelism: int) -> list[list[Any]]:
    """Give every new subtask the elements of all old ones.

    >>> redistribute_union([[1], [2]], 2)
    [[1, 2], [1, 2]]
    """
    items = [item for one in lists for item in one]
    return [list(items) for _ in range(parallelism)]
