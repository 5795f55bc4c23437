"""Timers as state: the live timers of one operator in one time domain."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, ClassVar

from millrace.state.codec import ColumnCodec
from millrace.state.tables import INT64, Columns, Table

# (timestamp, sequence, key, namespace). No two have the same sequence, so that keys are never compared.
Timer = tuple[int, int, Any, Any]

_Identity = tuple[int, Any, Any]

# Below this many dead entries the heap is not worth tidying.
_DEAD_LIMIT = 1024


class TimerTable(Table):
    """Timers in the order of their time and, at the same time, of their registration.

    A heap whose removed entries stay until they come to the top, and a dict that knows which are live.

    >>> timers = TimerTable("event")
    >>> timers.add("key", None, 10), timers.add("key", None, 10)
    (True, False)
    >>> timers.pop_due(9) is None, timers.pop_due(10)
    (True, (10, 0, 'key', None))
    """

    __slots__ = ("_added", "_heap", "_live", "_next_sequence", "_removed")

    kind: ClassVar[str] = "timers"

    def __init__(self, name: str, codecs: dict[str, ColumnCodec] | None = None) -> None:
        defaults = {"key": ColumnCodec(), "ns": ColumnCodec()}
        super().__init__(name, {**defaults, **(codecs or {}), "time": INT64, "seq": INT64})
        self._live: dict[_Identity, int] = {}
        self._heap: list[Timer] = []
        self._added: dict[_Identity, int] = {}
        self._removed: dict[_Identity, None] = {}
        self._next_sequence = 0

    def add(self, key: Any, namespace: Any, timestamp: int) -> bool:
        """Register a timer; False if the same one is registered already (nothing happens then)."""
        identity = (timestamp, key, namespace)
        if identity in self._live:
            return False
        sequence = self._next_sequence
        self._next_sequence = sequence + 1
        self._live[identity] = sequence
        self._added[identity] = sequence
        heappush(self._heap, (timestamp, sequence, key, namespace))
        return True

    def remove(self, key: Any, namespace: Any, timestamp: int) -> bool:
        """Delete a timer; False if there is none."""
        identity = (timestamp, key, namespace)
        if self._live.pop(identity, None) is None:
            return False
        self._forget(identity)
        if len(self._heap) > 2 * len(self._live) + _DEAD_LIMIT:
            self._rebuild_heap()
        return True

    def pop_due(self, timestamp: int) -> Timer | None:
        """Take out the first timer that is due at `timestamp`, or None. Ask again: firing may register others."""
        heap = self._heap
        while heap and heap[0][0] <= timestamp:
            timer = heappop(heap)
            identity = (timer[0], timer[2], timer[3])
            if self._live.get(identity) == timer[1]:
                del self._live[identity]
                self._forget(identity)
                return timer
        return None

    def next_timestamp(self) -> int | None:
        """When the first timer is due, or None where there is none."""
        heap = self._heap
        while heap:
            timestamp, sequence, key, namespace = heap[0]
            if self._live.get((timestamp, key, namespace)) == sequence:
                return timestamp
            heappop(heap)
        return None

    def timers_of(self, key: Any) -> list[Timer]:
        """The live timers of a key, in order. Looks at every timer."""
        return sorted(
            ((ts, seq, owner, ns) for (ts, owner, ns), seq in self._live.items() if owner == key),
            key=lambda timer: timer[:2],
        )

    def __len__(self) -> int:
        return len(self._live)

    def __bool__(self) -> bool:
        return True  # a table without timers is still a table

    def entry_count(self) -> int:
        return len(self._live)

    def _forget(self, identity: _Identity) -> None:
        # A timer that comes and goes within an epoch leaves no trace in the checkpoint.
        if self._added.pop(identity, None) is None:
            self._removed[identity] = None

    def _rebuild_heap(self) -> None:
        self._heap = [(ts, seq, key, ns) for (ts, key, ns), seq in self._live.items()]
        heapify(self._heap)

    def delta(self) -> Columns | None:
        if not (self._added or self._removed):
            return None
        return {**_columns("gone", self._removed), **self._rows(self._added)}

    def _rows(self, timers: dict[_Identity, int]) -> Columns:
        return {
            **_columns("put", timers),
            "put.seq": list(timers.values()),
            "next.seq": [self._next_sequence],
        }

    def commit(self, columns: Columns | None, coerced: bool) -> None:
        self._added.clear()
        self._removed.clear()

    def full(self) -> Columns:
        return self._rows(self._live)

    def apply(self, columns: Columns) -> None:
        for identity in _identities("gone", columns):
            del self._live[identity]
        added = dict(zip(_identities("put", columns), columns.get("put.seq", []), strict=True))
        self._live.update(added)
        # Pushing costs the logarithm of the heap for each, building it anew costs all of it once.
        if len(added) * 8 > len(self._live):
            self._rebuild_heap()
        else:
            for (timestamp, key, namespace), sequence in added.items():
                heappush(self._heap, (timestamp, sequence, key, namespace))
        self._next_sequence = max([self._next_sequence, *columns.get("next.seq", [])])

    def reset(self) -> None:
        self._live.clear()
        self._heap.clear()
        self._added.clear()
        self._removed.clear()
        self._next_sequence = 0


class OperatorTimers:
    """The timers of one operator in both domains."""

    __slots__ = ("event", "processing")

    def __init__(self, event: TimerTable, processing: TimerTable) -> None:
        self.event = event
        self.processing = processing

    def tables(self) -> list[TimerTable]:
        return [self.event, self.processing]


def _columns(part: str, timers: dict[_Identity, Any]) -> Columns:
    return {
        f"{part}.key": [key for _, key, _ in timers],
        f"{part}.ns": [namespace for _, _, namespace in timers],
        f"{part}.time": [timestamp for timestamp, _, _ in timers],
    }


def _identities(part: str, columns: Columns) -> list[_Identity]:
    names = (f"{part}.time", f"{part}.key", f"{part}.ns")
    return list(zip(*(columns.get(name, []) for name in names), strict=True))
