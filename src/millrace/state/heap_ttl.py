"""State with a time to live, on the heap: classes of their own, so that other state pays nothing for it.

What is stored is `(value, stamp)`: per key for value, reducing and aggregating state, per element of a list, per
entry of a map. An entry has expired when `stamp + ttl <= now`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millrace.state.heap_list import HeapListState
from millrace.state.heap_map import HeapMapState
from millrace.state.heap_value import HeapAggregatingState, HeapReducingState, HeapValueState, ValueTable
from millrace.state.tables import Clock, Columns, KeyedTable
from millrace.state.ttl import StateTtlConfig

# Keys looked at per epoch by the background clean-up: under a millisecond, and a million keys in a thousand epochs.
_BACKGROUND_BUDGET = 1000

_Stamped = tuple[Any, int]


class Expiry:
    """What a `StateTtlConfig` means for one state, and where its clean-up stands."""

    __slots__ = (
        "_clock",
        "_ttl",
        "_waiting",
        "in_background",
        "in_full_snapshot",
        "on_read",
        "per_access",
        "visible",
    )

    def __init__(self, config: StateTtlConfig, clock: Clock) -> None:
        self._clock = clock
        self._ttl = config.ttl_ms
        self._waiting: list[Any] = []
        self.on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self.visible = config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        cleanup = config.get_cleanup_strategies()
        incremental = cleanup.get_incremental_cleanup_strategy()
        self.in_background = cleanup.is_cleanup_in_background()
        self.in_full_snapshot = cleanup.in_full_snapshot()
        chosen = StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP in cleanup.chosen()
        self.per_access = incremental.get_cleanup_size() if incremental is not None and chosen else 0

    @property
    def now(self) -> int:
        return self._clock.now

    def expired(self, stamp: int) -> bool:
        return stamp + self._ttl <= self._clock.now

    def next_keys(self, count: int, some_keys: Callable[[], list[Any]]) -> list[Any]:
        """The next keys to look at, round and round."""
        if not self._waiting:
            self._waiting = some_keys()
        taken = self._waiting[-count:]
        del self._waiting[-count:]
        return taken


class _TtlTable(KeyedTable):
    """When expired entries go: on access, a few with each access, some per epoch, or all with a full snapshot."""

    __slots__ = ()

    expiry: Expiry

    def meta(self) -> dict[str, Any]:
        return {**super().meta(), "ttl": True}

    def prepare_snapshot(self, full: bool) -> None:
        if full and self.expiry.in_full_snapshot:
            last = False
            while not last:
                keys, last = self._keys_to_look_at()
                self._drop_expired(keys)
        elif self.expiry.in_background:
            self._look_at(_BACKGROUND_BUDGET)

    def _accessed(self) -> None:
        if self.expiry.per_access:
            self._look_at(self.expiry.per_access)

    def _look_at(self, count: int) -> None:
        self._drop_expired(self.expiry.next_keys(count, lambda: self._keys_to_look_at()[0]))

    def _keys_to_look_at(self) -> tuple[list[Any], bool]:
        """Keys for a clean-up, and whether they were the last: all of those in memory, some of those on disk."""
        if self.place is None:
            return self._units(list(self.storage_keys())), True
        keys, last = self.place.next_keys(_BACKGROUND_BUDGET)
        return ([*self._units(self.changed_keys()), *keys] if last else keys), last

    def _units(self, keys: list[Any]) -> list[Any]:
        """Storage keys as `_drop_expired` takes them."""
        return keys

    def _drop_expired(self, keys: list[Any]) -> None:
        raise NotImplementedError

    def _stamps(self, part: str, columns: Columns, count: int) -> list[int]:
        # State that had no time to live when it was written begins its life now.
        return columns.get(f"{part}.stamp") or [self.expiry.now] * count


def _unzip(stamped: Iterable[_Stamped]) -> tuple[list[Any], list[int]]:
    pairs = list(stamped)
    return [value for value, _ in pairs], [stamp for _, stamp in pairs]


class TtlValueTable(_TtlTable, ValueTable):
    """A stamped value per storage key."""

    __slots__ = ()

    def _rows(self, entries: dict[Any, Any]) -> Columns:
        values, stamps = _unzip(entries.values())
        return {**self._key_columns("put", list(entries)), "put.value": values, "put.stamp": stamps}

    def _stored(self, columns: Columns) -> Iterable[Any]:
        values = columns.get("put.value", [])
        return zip(values, self._stamps("put", columns, len(values)), strict=True)

    def _drop_expired(self, keys: list[Any]) -> None:
        for key in keys:
            stored = self._read(key)
            if stored is not None and self.expiry.expired(stored[1]):
                self._dirty[key] = None

    def _access(self, key: Any) -> Any:
        """What may be seen of a storage key, or None; removes it if it has expired."""
        stored = self._read(key)
        self._accessed()
        if stored is None:
            return None
        value, stamp = stored
        if self.expiry.expired(stamp):
            self._dirty[key] = None
            return value if self.expiry.visible else None
        if self.expiry.on_read and stamp != self.expiry.now:
            self._dirty[key] = (value, self.expiry.now)
        return value

    def _write(self, key: Any, value: Any) -> None:
        self._dirty[key] = None if value is None else (value, self.expiry.now)

    def _combined(self, combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def combine_stamped(left: _Stamped, right: _Stamped) -> _Stamped:
            fresh = [value for value, stamp in (left, right) if not self.expiry.expired(stamp)]
            if not fresh:
                return left
            return (fresh[0] if len(fresh) == 1 else combine(*fresh)), self.expiry.now

        return combine_stamped


class TtlValueState(TtlValueTable, HeapValueState):
    """`ValueState` whose values expire."""

    __slots__ = ()

    def value(self) -> Any:
        return self._access(self._context.key)

    def update(self, value: Any) -> None:
        self._accessed()
        self._write(self._context.key, value)


class TtlReducingState(TtlValueTable, HeapReducingState):
    """`ReducingState` whose values expire."""

    __slots__ = ()

    def get(self) -> Any:
        return self._access(self._context.key)

    def add(self, value: Any) -> None:
        key = self._context.key
        current = self._access(key)
        self._write(key, value if current is None else self._reduce(current, value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merge(target, sources, self._combined(self._reduce))


class TtlAggregatingState(TtlValueTable, HeapAggregatingState):
    """`AggregatingState` whose accumulators expire."""

    __slots__ = ()

    def get(self) -> Any:
        accumulator = self._access(self._context.key)
        return None if accumulator is None else self._result(accumulator)

    def add(self, value: Any) -> None:
        key = self._context.key
        accumulator = self._access(key)
        self._write(key, self._add(value, self._create() if accumulator is None else accumulator))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        self._merge(target, sources, self._combined(self._function.merge))


class TtlListState(_TtlTable, HeapListState):
    """`ListState` each of whose elements expires on its own."""

    __slots__ = ()

    def _item_columns(self, part: str, items: list[Any]) -> Columns:
        values, stamps = _unzip(items)
        return {f"{part}.item": values, f"{part}.stamp": stamps}

    def _stored(self, part: str, columns: Columns) -> list[Any]:
        values = columns.get(f"{part}.item", [])
        return list(zip(values, self._stamps(part, columns, len(values)), strict=True))

    def _drop_expired(self, keys: list[Any]) -> None:
        for key in keys:
            self._fresh(key)

    def _fresh(self, key: Any) -> tuple[list[_Stamped], list[_Stamped]]:
        """All elements, and those that have not expired; the others are removed."""
        items = self._read(key)
        fresh = [item for item in items if not self.expiry.expired(item[1])]
        if len(fresh) < len(items):
            self._replace(key, fresh)
        return items, fresh

    def get(self) -> list[Any]:
        key = self._context.key
        items, fresh = self._fresh(key)
        if fresh and self.expiry.on_read and any(stamp != self.expiry.now for _, stamp in fresh):
            self._replace(key, self._stamped(value for value, _ in fresh))
        self._accessed()
        return [value for value, _ in (items if self.expiry.visible else fresh)]

    def _stamped(self, values: Iterable[Any]) -> list[_Stamped]:
        now = self.expiry.now
        return [(value, now) for value in values]

    def add(self, value: Any) -> None:
        self._accessed()
        self._append(self._context.key, self._stamped((value,)))

    def add_all(self, values: Iterable[Any]) -> None:
        self._accessed()
        self._append(self._context.key, self._stamped(values))

    def update(self, values: Iterable[Any]) -> None:
        self._accessed()
        self._replace(self._context.key, self._stamped(values))


class TtlMapState(_TtlTable, HeapMapState):
    """`MapState` each of whose entries expires on its own."""

    __slots__ = ()

    def _value_columns(self, values: list[Any]) -> Columns:
        plain, stamps = _unzip(values)
        return {"put.value": plain, "put.stamp": stamps}

    def _stored(self, columns: Columns) -> list[Any]:
        values = columns.get("put.value", [])
        return list(zip(values, self._stamps("put", columns, len(values)), strict=True))

    def _units(self, keys: list[Any]) -> list[Any]:
        return [(key, None) for key in keys]

    def _drop_expired(self, keys: list[Any]) -> None:
        # With each key come its entries to look at, None for all: on disk, a map may be too large for that.
        for key, some in keys:
            stored = self._maps.get(key, {})
            looked_at = stored.items() if some is None else [(entry, stored.get(entry)) for entry in some]
            for entry in [entry for entry, found in looked_at if found is not None and self.expiry.expired(found[1])]:
                self._remove(key, entry)

    def get(self, key: Any) -> Any:
        found = self._access(key)
        return None if found is None else found[0]

    def contains(self, key: Any) -> bool:
        return self._access(key) is not None

    def _access(self, entry: Any) -> _Stamped | None:
        current = self._context.key
        self._accessed()
        stored: _Stamped | None = self._maps.get(current, {}).get(entry)
        if stored is None:
            return None
        if self.expiry.expired(stored[1]):
            self._remove(current, entry)
            return stored if self.expiry.visible else None
        if self.expiry.on_read and stored[1] != self.expiry.now:
            self._put(current, entry, (stored[0], self.expiry.now))
        return stored

    def put(self, key: Any, value: Any) -> None:
        self._accessed()
        self._put(self._context.key, key, (value, self.expiry.now))

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._visible())

    def keys(self) -> list[Any]:
        return [entry for entry, _ in self._visible()]

    def values(self) -> list[Any]:
        return [value for _, value in self._visible()]

    def is_empty(self) -> bool:
        return not self.items()

    def _visible(self) -> Iterator[tuple[Any, Any]]:
        for entry in list(self._maps.get(self._context.key, ())):
            found = self._access(entry)
            if found is not None:
                yield entry, found[0]
