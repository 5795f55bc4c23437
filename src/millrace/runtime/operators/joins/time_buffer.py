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

# Orders are kept from epoch to epoch while they have no more entries than this, about 100 MB of them: they only save
# the reading of a key's entries, and must not outgrow a state that is larger than memory.
_ENTRIES_KEPT = 1_000_000


class TimeBuffer:
    """The records of one input that wait, by key and time. Every call is about the current key.

    An entry for each record and not a list for each timestamp, so that a record costs the same however many share its
    key and its time.

    >>> from millrace.state.heap import KeyedStateBackend
    >>> backend = KeyedStateBackend("join")
    >>> buffer = TimeBuffer(backend.context, backend.get_state(TimeBuffer.descriptor("left", None)))
    >>> [buffer.add(timestamp, value) for timestamp, value in [(5, "a"), (9, "b"), (5, "c")]]
    [(5, 0), (9, 0), (5, 1)]
    >>> [buffer.get(entry) for entry in buffer.between(5, 8)]
    ['a', 'c']
    """

    def __init__(self, keys: KeyContext, state: MapState[Entry, Any]) -> None:
        self._keys = keys
        # --- what is checkpointed
        self._state = state
        # --- what is not: the entries of keys that were looked at, sorted
        self._orders: dict[Any, list[Entry]] = {}
        self._ordered = 0
        self.get = state.get

    @staticmethod
    def descriptor(name: str, record_type: TypeInformation | None) -> MapStateDescriptor:
        """The state that a buffer needs."""
        return MapStateDescriptor(name, ENTRY, record_type)

    def order(self) -> list[Entry]:
        """All entries, sorted. To be read only."""
        found = self._orders.get(self._keys.key)
        if found is not None:
            return found
        entries = sorted(self._state.keys())
        if entries:
            self._orders[self._keys.key] = entries
            self._ordered += len(entries)
        return entries

    def add(self, timestamp: int, value: Any) -> Entry:
        """Keep a record behind those of its time."""
        order = self.order()
        if not order:
            self._orders[self._keys.key] = order
        if not order or timestamp > order[-1][0]:
            entry = (timestamp, 0)
            order.append(entry)
        else:
            place = bisect_left(order, (timestamp + 1,))
            before = order[place - 1] if place else None
            entry = (timestamp, before[1] + 1 if before is not None and before[0] == timestamp else 0)
            order.insert(place, entry)
        self._ordered += 1
        self._state.put(entry, value)
        return entry

    def between(self, lowest: int, highest: int) -> list[Entry]:
        """The entries of these times, both ends included."""
        order = self.order()
        if not order or order[-1][0] < lowest or order[0][0] > highest:
            return []
        return order[bisect_left(order, (lowest,)) : bisect_left(order, (highest + 1,))]

    def until(self, timestamp: int) -> list[Entry]:
        """The entries up to a time, that one included."""
        order = self.order()
        if not order or order[0][0] > timestamp:
            return []
        return order[: bisect_left(order, (timestamp + 1,))]

    def last_until(self, timestamp: int) -> Entry | None:
        """The last entry up to a time."""
        order = self.order()
        place = bisect_left(order, (timestamp + 1,))
        return order[place - 1] if place else None

    def drop(self, count: int) -> None:
        """Remove the first entries."""
        order = self.order()
        remove = self._state.remove
        for entry in order[:count]:
            remove(entry)
        del order[:count]
        self._ordered -= count
        if not order:
            self._orders.pop(self._keys.key, None)

    # --- the life of the orders ---------------------------------------------------------------------------

    def forget(self) -> None:
        """The state is not what it was: read it again."""
        self._orders.clear()
        self._ordered = 0

    def end_of_epoch(self) -> None:
        """Keep the orders for the next epoch, unless they are too large."""
        if self._ordered > _ENTRIES_KEPT:
            self.forget()
