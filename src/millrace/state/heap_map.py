"""Map state on the heap: a delta holds only the entries that were touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from millrace.state.api import MapState
from millrace.state.codec import ColumnCodec
from millrace.state.tables import (
    INT64,
    Columns,
    KeyContext,
    KeyedTable,
    NamespacedContext,
    flatten,
    split,
    spread,
    weighed_pieces,
)

# What is known about an entry that this epoch touched: it was not there before; it was, and stayed; it was, and
# was removed at some time (it may be there again, and then stands behind the others).
_NEW, _KEPT, _REMOVED = 0, 1, 2


class HeapMaps(dict[Any, dict[Any, Any]]):
    """A dict per storage key. Those that are empty are tidied away when an epoch is settled."""

    def __init__(self) -> None:
        super().__init__()
        self._created: set[Any] = set()

    def opened(self, key: Any) -> dict[Any, Any]:
        """The map of a key, to be changed."""
        entries = self.get(key)
        if entries is None:
            entries = self[key] = {}
            self._created.add(key)
        return entries

    def wipe(self, key: Any) -> bool:
        """Make the map of a key empty. Returns whether it was there before this epoch."""
        self[key] = {}
        return key not in self._created

    def tidy(self, keys: Iterable[Any]) -> None:
        """Remove the maps of these keys that are empty."""
        for key in keys:
            if not self.get(key, True):
                del self[key]

    def settled(self) -> None:
        """An epoch ends here: what was created belongs to the next one's past."""
        self._created.clear()

    def live(self) -> Iterator[Any]:
        """The storage keys whose maps have entries."""
        return (key for key, entries in self.items() if entries)


class MapTable(KeyedTable):
    """A dict per storage key, changed in place, and beside it what this epoch touched.

    Not two dicts as for values: the order of insertion must not depend on where epochs end.
    """

    __slots__ = ("_cleared", "_maps", "_touched")

    kind: ClassVar[str] = "map"

    def __init__(self, name: str, codecs: dict[str, ColumnCodec], context: KeyContext | NamespacedContext) -> None:
        super().__init__(name, {**codecs, "count": INT64}, context)
        self._maps: Any = HeapMaps()
        # Storage key → (its map, what this epoch touched in the map, in the order of the map's insertions).
        self._touched: dict[Any, tuple[dict[Any, Any], dict[Any, int]]] = {}
        self._cleared: dict[Any, None] = {}

    def keep_in(self, place: Any) -> None:
        self._maps = self.place = place

    def changed_keys(self) -> list[Any]:
        return list(self._touched)

    def _touch(self, key: Any) -> tuple[dict[Any, Any], dict[Any, int]]:
        touched = self._touched[key] = (self._maps.opened(key), {})
        return touched

    def _put(self, key: Any, entry: Any, value: Any) -> None:
        found = self._touched.get(key)
        entries, touched = self._touch(key) if found is None else found
        if entry not in touched:
            touched[entry] = _KEPT if entry in entries else _NEW
        elif entry not in entries:
            touched[entry] = touched.pop(entry)
        entries[entry] = value

    def _remove(self, key: Any, entry: Any) -> None:
        entries = self._maps.get(key)
        if entries is None or entry not in entries:
            return
        found = self._touched.get(key)
        touched = self._touch(key)[1] if found is None else found[1]
        if touched.get(entry) == _NEW:
            del touched[entry]
        else:
            touched[entry] = _REMOVED
        del entries[entry]

    def clear(self) -> None:
        key = self._context.key
        if key in self._maps:
            if self._maps.wipe(key):
                self._cleared[key] = None
            self._touch(key)

    def storage_keys(self) -> Iterator[Any]:
        keys: Iterator[Any] = self._maps.live()
        return keys

    def delta(self) -> Columns | None:
        gone: dict[Any, list[Any]] = {}
        put: dict[Any, dict[Any, Any]] = {}
        for key, (entries, touched) in self._touched.items():
            removed = [entry for entry, what in touched.items() if what == _REMOVED]
            if removed:
                gone[key] = removed
            live = {entry: entries[entry] for entry in touched if entry in entries}
            if live:
                put[key] = live
        if not (gone or put or self._cleared):
            return None
        return {
            **self._key_columns("clear", list(self._cleared)),
            **self._key_columns("gone", list(gone)),
            "gone.count": list(map(len, gone.values())),
            "gone.entry": flatten(gone.values()),
            **self._rows(put),
        }

    def commit(self, columns: Columns | None, coerced: bool) -> None:
        if coerced and columns is not None:
            for entries, entry, value in self._entries_of(columns):
                entries[entry] = value
        self._maps.tidy(self._touched)
        self._maps.settled()
        self._forget_touched()

    def _forget_touched(self) -> None:
        self._touched.clear()
        self._cleared.clear()

    def full(self) -> Columns:
        return self._rows(dict(self._maps.items()))

    def chunks(self, rows: int) -> Iterator[Columns]:
        return (self._rows(piece) for piece in weighed_pieces(self._maps.items(), rows))

    def _rows(self, maps: dict[Any, dict[Any, Any]]) -> Columns:
        return {
            **self._key_columns("put", list(maps)),
            "put.count": list(map(len, maps.values())),
            "put.entry": flatten(maps.values()),
            **self._value_columns(flatten(entries.values() for entries in maps.values())),
        }

    def _value_columns(self, values: list[Any]) -> Columns:
        return {"put.value": values}

    def _stored(self, columns: Columns) -> list[Any]:
        return columns.get("put.value", [])

    def apply(self, columns: Columns) -> None:
        maps = self._maps
        cleared = self._keys_of("clear", columns)
        for key in cleared:
            maps.wipe(key)
        gone_keys = self._keys_of("gone", columns)
        gone_entries = split(columns.get("gone.entry", []), columns.get("gone.count", []))
        for key, removed in zip(gone_keys, gone_entries, strict=True):
            entries = maps.opened(key)
            for entry in removed:
                del entries[entry]
        for entries, entry, value in self._entries_of(columns):
            entries[entry] = value
        maps.tidy((*cleared, *gone_keys))
        maps.settled()

    def _entries_of(self, columns: Columns) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
        opened = self._maps.opened
        keys = spread(self._keys_of("put", columns), columns.get("put.count", []))
        for key, entry, value in zip(keys, columns.get("put.entry", []), self._stored(columns), strict=True):
            yield opened(key), entry, value

    def reset(self) -> None:
        self._maps.clear()
        self._maps.settled()
        self._forget_touched()


class MapOperations(MapTable):
    """The operations on the map of the current key, as `MapState` and `BroadcastState` share them.

    `items`, `keys` and `values` are copies, so that a program may change the map while it walks over it.
    """

    __slots__ = ()

    def get(self, key: Any) -> Any:
        entries = self._maps.get(self._context.key)
        return None if entries is None else entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        # `_put`, written out: this is the hot path.
        current = self._context.key
        found = self._touched.get(current)
        entries, touched = self._touch(current) if found is None else found
        if key not in touched:
            touched[key] = _KEPT if key in entries else _NEW
        elif key not in entries:
            touched[key] = touched.pop(key)
        entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._remove(self._context.key, key)

    def contains(self, key: Any) -> bool:
        return key in self._maps.get(self._context.key, ())

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._maps.get(self._context.key, {}).items())

    def keys(self) -> list[Any]:
        return list(self._maps.get(self._context.key, ()))

    def values(self) -> list[Any]:
        return list(self._maps.get(self._context.key, {}).values())

    def is_empty(self) -> bool:
        return not self._maps.get(self._context.key)


class HeapMapState(MapOperations, MapState[Any, Any]):
    """`MapState` in a dict of dicts."""

    __slots__ = ()
