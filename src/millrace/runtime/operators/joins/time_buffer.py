"""Records of each key in the order of their time: what the joins in event time wait with."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from millrace.common.typeinfo import TypeInformation, Types
from millrace.state.api import MapState
from millrace.state.descriptors import MapStateDescriptor
from millrace.state.tables import KeyContext

# (timestamp, number among the records of that timestamp): what a record is stored under.
Entry = tuple[int, int]

ENTRY = Types.TUPLE([Types.LONG(), Types.LONG()])

# Orders are forgotten when they have more entries and keys than this, about 100 MB of them: they only save the reading
# of a key's entries, and must not outgrow a state that is larger than memory.
_MOST_ORDERED = 1_000_000


class TimeBuffer:
    """The records of one input that wait, by key and time. Every call is about the current key.

    An entry for each record and not a list for each timestamp, so that a record costs the same however many share its
    key and its time.

    >>> from millrace.state.heap import KeyedStateBackend
    >>> backend = KeyedStateBackend("join")
    >>> buffer = TimeBuffer(backend.context, backend.get_state(TimeBuffer.descriptor("left", None)))
    >>> [buffer.add(timestamp, value) for timestamp, value in [(5, "a"), (9, "b"), (5, "c")]]
    [0, 1, 1]
    >>> [buffer.get(entry) for entry in buffer.between(5, 8)]
    ['a', 'c']
    """

    def __init__(self, keys: KeyContext, state: MapState[Entry, Any]) -> None:
        self._keys = keys
        # --- what is checkpointed
        self._state = state
        self.get = state.get
        # --- what is not: the sorted entries of the keys that were looked at
        self._orders = _Orders(state)

    @staticmethod
    def descriptor(name: str, record_type: TypeInformation | None) -> MapStateDescriptor:
        """The state that a buffer needs."""
        return MapStateDescriptor(name, ENTRY, record_type)

    def order(self) -> list[Entry]:
        """All entries, sorted. To be read only."""
        return self._orders[self._keys.key]

    def add(self, timestamp: int, value: Any) -> int:
        """Keep a record behind those of its time; tells its place in the order."""
        order = self._orders[self._keys.key]
        place = len(order)
        if not order or timestamp > order[-1][0]:
            entry = (timestamp, 0)
            order.append(entry)
        else:
            place = bisect_left(order, (timestamp + 1,))
            before = order[place - 1] if place else None
            entry = (timestamp, before[1] + 1 if before is not None and before[0] == timestamp else 0)
            order.insert(place, entry)
        self._state.put(entry, value)
        return place

    def between(self, lowest: int, highest: int) -> list[Entry]:
        """The entries of these times, both ends included."""
        order = self._orders[self._keys.key]
        if not order or order[-1][0] < lowest or order[0][0] > highest:
            return []
        return order[bisect_left(order, (lowest,)) : bisect_left(order, (highest + 1,))]

    def count_until(self, timestamp: int) -> int:
        """How many entries there are up to a time, that one included."""
        order = self._orders[self._keys.key]
        return bisect_left(order, (timestamp + 1,)) if order and order[0][0] <= timestamp else 0

    def drop(self, count: int) -> None:
        """Remove the first entries."""
        order = self._orders[self._keys.key]
        remove = self._state.remove
        for entry in order[:count]:
            remove(entry)
        del order[:count]

    def forget(self) -> None:
        """The state is not what it was: read it again."""
        self._orders.clear()


class _Orders(dict[Any, list[Entry]]):
    """key -> its entries, sorted; read from the state when they are asked for. A key without entries is remembered too:
    in most joins most keys are on one side only."""

    def __init__(self, state: MapState[Entry, Any]) -> None:
        self._state = state
        self._room = _MOST_ORDERED

    def __missing__(self, key: Any) -> list[Entry]:
        """Only the current key is ever asked for."""
        if self._room < 0:
            self._room = _MOST_ORDERED - sum(map(len, self.values())) - len(self)
            if self._room < _MOST_ORDERED // 2:
                self.clear()
                self._room = _MOST_ORDERED
        order = self[key] = sorted(self._state.keys())
        self._room -= len(order) + 1
        return order
