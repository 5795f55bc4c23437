"""Maps on disk, a row per entry: reading and writing one entry costs one entry, however many the map has.

A row carries a number that grows with every insertion, because rows lie in the order of their keys, and a map is
walked in the order of its insertions. Walking over a map reads and sorts it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace.state.disk_keys import identity
from millrace.state.disk_rows import encode_row
from millrace.state.disk_store import Writer
from millrace.state.disk_tables import READ_CACHE, Rows

_UNREAD = object()


class DiskMaps:
    """A map per storage key, as `HeapMaps` in `heap_map.py`."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.codecs = [*rows.key_cells, rows.cell_codec("entry"), rows.cell_codec("value")]
        self._opened: dict[Any, DiskEntries] = {}
        self._place = b""

    def get(self, key: Any, _default: Any = None) -> DiskEntries:
        return self.opened(key)

    def opened(self, key: Any) -> DiskEntries:
        """The map of a key, to be read or changed."""
        entries = self._opened.get(key)
        if entries is None:
            if len(self._opened) >= READ_CACHE:
                self._opened = {known: one for known, one in self._opened.items() if one.is_changed()}
            entries = self._opened[key] = DiskEntries(self, key)
        return entries

    def __contains__(self, key: Any) -> bool:
        return bool(self._opened.get(key)) or self.rows.has(key)

    def wipe(self, key: Any) -> bool:
        """Make the map of a key empty. Returns whether the database has one."""
        self._opened[key] = DiskEntries(self, key, wiped=True)
        return self.rows.has(key)

    def tidy(self, keys: Any) -> None:
        """Empty maps have no rows: nothing to do."""

    def settled(self) -> None:
        """Nor is anything remembered of an epoch."""

    def live(self) -> Iterator[Any]:
        """The storage keys whose maps have entries."""
        for _, key in self.rows.storage_keys():
            if key not in self._opened:
                yield key
        yield from [key for key, entries in self._opened.items() if entries]

    def items(self) -> Iterator[tuple[Any, dict[Any, Any]]]:
        """All maps, each read when it is asked for."""
        for key in self.live():
            entries = self._opened.get(key)
            yield key, dict((DiskEntries(self, key) if entries is None else entries).items())

    def clear(self) -> None:
        self._opened.clear()

    def has_pending(self) -> bool:
        return any(entries.is_changed() for entries in self._opened.values())

    def next_keys(self, count: int) -> tuple[list[tuple[Any, list[Any]]], bool]:
        """The next entries, by storage key, and whether the round is over."""
        found: list[tuple[Any, list[Any]]] = []
        entry_at = len(self.rows.key_cells)
        for seen, (place, cells) in enumerate(self.rows.all(self._place), 1):
            key = self.rows.key_of(cells)
            if not found or found[-1][0] != key:
                found.append((key, []))
            found[-1][1].append(self.codecs[entry_at].unpack(cells[entry_at]))
            self._place = place + b"\0"
            if seen == count:
                return found, False
        self._place = b""
        return found, True

    def settle(self, writer: Writer) -> None:
        self.rows.bind_for_writing(writer)
        for entries in self._opened.values():
            if entries.is_changed():
                entries.settle(writer)
        self.clear()


class DiskEntries:
    """The map of one storage key: a dict whose entries are read when they are asked for."""

    __slots__ = ("_gone", "_key", "_known", "_maps", "_put", "_wiped")

    def __init__(self, maps: DiskMaps, key: Any, *, wiped: bool = False) -> None:
        self._maps = maps
        self._key = key
        self._wiped = wiped
        # What was put since the database was written, new entries in their order; those of its entries that were
        # removed (also where they were put again, and so stand last); and what was read of it, None for nothing.
        self._put: dict[Any, Any] = {}
        self._gone: set[Any] = set()
        self._known: dict[Any, tuple[int, Any] | None] = {}

    def is_changed(self) -> bool:
        return bool(self._wiped or self._put or self._gone)

    def _stored(self, entry: Any) -> tuple[int, Any] | None:
        """The number and the value of an entry in the database, unless it has gone."""
        if self._wiped or entry in self._gone:
            return None
        found: Any = self._known.get(entry, _UNREAD)
        if found is _UNREAD:
            if len(self._known) >= READ_CACHE:
                self._known.clear()
            cells = self._maps.rows.get(self._key, identity(entry))
            found = self._known[entry] = None if cells is None else (cells[2], self._value_of(cells))
        return found  # type: ignore[no-any-return]

    def _value_of(self, cells: list[Any]) -> Any:
        value = self._maps.codecs[-1].unpack(cells[1])
        return (value, cells[3]) if self._maps.rows.ttl else value

    def _all_stored(self) -> dict[Any, Any]:
        """What the database has of the map, in order."""
        if self._wiped:
            return {}
        entry_codec = self._maps.codecs[-2]
        rows = [(cells[2], entry_codec.unpack(cells[0]), cells) for _, cells in self._maps.rows.under(self._key)]
        rows.sort(key=lambda row: row[0])
        return {entry: self._value_of(cells) for _, entry, cells in rows if entry not in self._gone}

    def __contains__(self, entry: Any) -> bool:
        return entry in self._put or self._stored(entry) is not None

    def __getitem__(self, entry: Any) -> Any:
        if entry in self._put:
            return self._put[entry]
        found = self._stored(entry)
        if found is None:
            raise KeyError(entry)
        return found[1]

    def get(self, entry: Any) -> Any:
        if entry in self._put:
            return self._put[entry]
        found = self._stored(entry)
        return None if found is None else found[1]

    def __setitem__(self, entry: Any, value: Any) -> None:
        self._put[entry] = value

    def __delitem__(self, entry: Any) -> None:
        if self._stored(entry) is not None:
            self._gone.add(entry)
            self._put.pop(entry, None)
        else:
            del self._put[entry]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole())

    def items(self) -> Any:
        return self._whole().items()

    def values(self) -> Any:
        return self._whole().values()

    def _whole(self) -> dict[Any, Any]:
        whole = self._all_stored()
        whole.update(self._put)
        return whole

    def __bool__(self) -> bool:
        if self._put:
            return True
        if self._wiped:
            return False
        rows = self._maps.rows.under(self._key)
        return any(self._maps.codecs[-2].unpack(cells[0]) not in self._gone for _, cells in rows)

    def settle(self, writer: Writer) -> None:
        rows, codecs = self._maps.rows, self._maps.codecs
        prefix = rows.prefix(self._key)
        if self._wiped:
            for row_key, _ in rows.under(self._key):
                writer.delete(row_key)
        for entry in self._gone:
            writer.delete(prefix + identity(entry))
        for entry, value in self._put.items():
            old = self._stored(entry)
            number = writer.number() if old is None else old[0]
            stored, stamp = (value[0], value[1:]) if rows.ttl else (value, ())
            row = encode_row(codecs, [*rows.parts(self._key), entry, stored], number, *stamp)
            writer.put(prefix + identity(entry), row)
