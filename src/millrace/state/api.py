"""The interfaces of state, with PyFlink's names.

A program is written against these; which backend keeps the entries behind them is the job's affair. Keyed state
always works on the key of the record or timer that is being processed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from millrace.state.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Anything that is kept per key, or per operator, across epochs."""

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove what is kept for the current key."""


class ValueState(State, Generic[T]):
    """One value per key.

    An object that was changed in place must be given to `update` again: only what passed through `update` is
    written to the checkpoint.
    """

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """The value of the current key, or None where there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value of the current key; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are added to one by one, and that is read as something else."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT | None:
        """What the added elements amount to, or None where nothing was added."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one element for the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of several namespaces (windows) that can be merged into one."""

    __slots__ = ()


class ReducingState(MergingState[T, T]):
    """One value per key, into which each added element is reduced."""

    __slots__ = ()


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key, into which elements are added; reading it gives the aggregate's result."""

    __slots__ = ()


class ListState(MergingState[T, Iterable[T]]):
    """A list per key. `get` returns a copy: changing it changes nothing until it is given to `update`."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> Iterable[T]:
        """The elements in the order in which they were added; an empty list where there are none."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace the list of the current key."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append several elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """Broadcast state as an element of the non-broadcast side sees it."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of `key`, or None where there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is an entry for `key`."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """The entries in the order of their insertion."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys in the order of their insertion."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """The values in the order of their insertion."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A map that every subtask of an operator holds alike; changed only by elements of the broadcast side."""

    __slots__ = ()

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set all entries of a dict."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove the entry of `key`, if there is one."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(State, Generic[K, V]):
    """A map per key. Reading and writing one entry costs one entry, however many the map has."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of the map's entry `key`, or None where there is none."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the map's entry `key`."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set all entries of a dict."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove the map's entry `key`, if there is one."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the map has an entry `key`."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """The entries in the order of their insertion."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys of the entries in the order of their insertion."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """The values of the entries in the order of their insertion."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the map of the current key has no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class KeyedStateStore(ABC):
    """Where a rich function gets its keyed state from, by descriptor."""

    __slots__ = ()

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]: ...

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]: ...

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]: ...

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]: ...

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]: ...


class OperatorStateStore(ABC):
    """Where a function gets state that belongs to the subtask and not to a key."""

    __slots__ = ()

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that all subtasks hold alike. Rescaling gives every subtask a copy."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list whose elements rescaling deals out evenly among the subtasks."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of which, after rescaling, every subtask gets the elements of all."""
