"""Timers as state: the live timers of one operator in one time domain."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar

from millrace.state.codec import ColumnCodec
from millrace.state.tables import INT64, Columns, Table

# (timestamp, sequence, key, namespace). No two live timers of a table have the same sequence.
Timer = tuple[int, int, Any, Any]

# (key, namespace): what tells timers of one timestamp apart.
_Owner = tuple[Any, Any]

# Below this many dead timestamps the heap is not worth tidying.
_DEAD_LIMIT = 1024


class TimerTable(Table):
    """Timers in the order of their time and, at the same time, of their registration.

    A bucket per timestamp, in the order of registration, and a heap of timestamps alone: comparing numbers is
    cheap, and windows of many keys end at the same time.

    >>> timers = TimerTable("event")
    >>> timers.add("key", None, 10), timers.add("key", None, 10)
    (True, False)
    >>> timers.pop_due(9) is None, timers.pop_due(10)
    (True, (10, 0, 'key', None))
    """

    __slots__ = ("_added", "_buckets", "_count", "_firing", "_next_sequence", "_removed", "_times")

    kind: ClassVar[str] = "timers"

    def __init__(self, name: str, codecs: dict[str, ColumnCodec] | None = None) -> None:
        defaults = {"key": ColumnCodec(), "ns": ColumnCodec()}
        super().__init__(name, {**defaults, **(codecs or {}), "time": INT64, "seq": INT64})
        self._buckets: dict[int, dict[_Owner, int]] = {}
        # Every timestamp that has a bucket at least once, and perhaps some that no longer have one.
        self._times: list[int] = []
        # Timestamp → what is left of its bucket, last first, once it began to fire: a dict has no cheap first item.
        self._firing: dict[int, list[tuple[_Owner, int]]] = {}
        self._count = 0
        self._next_sequence = 0
        self._added: dict[tuple[int, _Owner], int] = {}
        self._removed: dict[tuple[int, _Owner], None] = {}

    def add(self, key: Any, namespace: Any, timestamp: int) -> bool:
        """Register a timer; False if the same one is registered already (nothing happens then)."""
        owner = (key, namespace)
        sequence = self._next_sequence
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            self._buckets[timestamp] = {owner: sequence}
            heappush(self._times, timestamp)
        elif owner in bucket:
            return False
        else:
            bucket[owner] = sequence
        self._next_sequence = sequence + 1
        self._count += 1
        self._added[timestamp, owner] = sequence
        return True

    def remove(self, key: Any, namespace: Any, timestamp: int) -> bool:
        """Delete a timer; False if there is none."""
        bucket = self._buckets.get(timestamp)
        if bucket is None or bucket.pop((key, namespace), None) is None:
            return False
        self._took_out(timestamp, (key, namespace), bucket)
        if len(self._times) > 2 * len(self._buckets) + _DEAD_LIMIT:
            self._rebuild_heap()
        return True

    def pop_due(self, timestamp: int) -> Timer | None:
        """Take out the first timer that is due at `timestamp`, or None. Ask again: firing may register others."""
        first = self.next_timestamp()
        if first is None or first > timestamp:
            return None
        bucket = self._buckets[first]
        owner, sequence = bucket.popitem() if len(bucket) == 1 else self._pop_first(first, bucket)
        self._took_out(first, owner, bucket)
        return first, sequence, *owner

    def _pop_first(self, timestamp: int, bucket: dict[_Owner, int]) -> tuple[_Owner, int]:
        while True:
            waiting = self._firing.get(timestamp)
            if not waiting:
                waiting = self._firing[timestamp] = list(reversed(bucket.items()))
            owner, sequence = waiting.pop()
            if bucket.get(owner) == sequence:
                del bucket[owner]
                return owner, sequence

    def next_timestamp(self) -> int | None:
        """When the first timer is due, or None where there is none."""
        times = self._times
        while times:
            if times[0] in self._buckets:
                return times[0]
            heappop(times)
        return None

    def timers_of(self, key: Any) -> list[Timer]:
        """The live timers of a key, in order. Looks at every timer."""
        return sorted(timer for timer in self._live() if timer[2] == key)

    def _live(self) -> Iterator[Timer]:
        for timestamp, bucket in self._buckets.items():
            for (key, namespace), sequence in bucket.items():
                yield timestamp, sequence, key, namespace

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True  # a table without timers is still a table

    def entry_count(self) -> int:
        return self._count

    def _took_out(self, timestamp: int, owner: _Owner, bucket: dict[_Owner, int]) -> None:
        self._count -= 1
        if not bucket:
            del self._buckets[timestamp]
            self._firing.pop(timestamp, None)
        # A timer that comes and goes within an epoch leaves no trace in the checkpoint.
        if self._added.pop((timestamp, owner), None) is None:
            self._removed[timestamp, owner] = None

    def _add_times(self, times: list[int]) -> None:
        # Pushing costs the logarithm of the heap for each, building it anew costs all of it once.
        if len(times) * 8 > len(self._buckets):
            self._rebuild_heap()
        else:
            for timestamp in times:
                heappush(self._times, timestamp)

    def _rebuild_heap(self) -> None:
        self._times = list(self._buckets)
        heapify(self._times)

    def delta(self) -> Columns | None:
        if not (self._added or self._removed):
            return None
        added = [(timestamp, sequence, *owner) for (timestamp, owner), sequence in self._added.items()]
        return {
            "gone.time": [timestamp for timestamp, _ in self._removed],
            "gone.key": [key for _, (key, _) in self._removed],
            "gone.ns": [namespace for _, (_, namespace) in self._removed],
            **self._rows(added),
        }

    def _rows(self, timers: list[Timer]) -> Columns:
        return {
            "put.time": [timer[0] for timer in timers],
            "put.seq": [timer[1] for timer in timers],
            "put.key": [timer[2] for timer in timers],
            "put.ns": [timer[3] for timer in timers],
            "next.seq": [self._next_sequence],
        }

    def commit(self, columns: Columns | None, coerced: bool) -> None:
        self._added.clear()
        self._removed.clear()

    def full(self) -> Columns:
        return self._rows(list(self._live()))

    def apply(self, columns: Columns) -> None:
        for timestamp, key, namespace in _rows_of(columns, "gone.time", "gone.key", "gone.ns"):
            bucket = self._buckets[timestamp]
            del bucket[key, namespace]
            if not bucket:
                del self._buckets[timestamp]
            self._count -= 1
        times = []
        for timestamp, sequence, key, namespace in _rows_of(columns, "put.time", "put.seq", "put.key", "put.ns"):
            if timestamp not in self._buckets:
                self._buckets[timestamp] = {}
                times.append(timestamp)
            self._buckets[timestamp][key, namespace] = sequence
            self._count += 1
        self._firing.clear()
        self._add_times(times)
        self._next_sequence = max([self._next_sequence, *columns.get("next.seq", [])])

    def reset(self) -> None:
        self._buckets.clear()
        self._times.clear()
        self._firing.clear()
        self._added.clear()
        self._removed.clear()
        self._count = 0
        self._next_sequence = 0


class OperatorTimers:
    """The timers of one operator in both domains."""

    __slots__ = ("event", "processing")

    def __init__(self, event: TimerTable, processing: TimerTable) -> None:
        self.event = event
        self.processing = processing

    def tables(self) -> list[TimerTable]:
        return [self.event, self.processing]


def _rows_of(columns: Columns, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(columns.get(name, []) for name in names), strict=True)
