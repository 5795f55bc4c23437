"""Values and lists on disk, behind what the tables of `heap_value.py` and `heap_list.py` ask of a dict.

Each keeps in memory what was settled since the database was last written (`pending`), and what was read of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from millrace.state.codec import ColumnCodec
from millrace.state.disk_keys import framed, identity
from millrace.state.disk_rows import CellCodec, decode_row, encode_row
from millrace.state.disk_store import LocalStore, StoredTable, Writer
from millrace.state.fragments import shape
from millrace.state.tables import KeyedTable

# Entries that are remembered after they were read, per state, so that reading them again costs no look-up.
READ_CACHE = 10_000

# Items of one row of a list.
_SEGMENT = 4096

# What a scan for different keys reads on under one key before it looks for the next.
_PATIENCE = 64

_OWN_ROLES = frozenset({"stamp", "count"})


class DiskTable(Protocol):
    """What a kind of state keeps in the database."""

    rows: Rows

    def settle(self, writer: Writer) -> None:
        """Write what is pending."""

    def clear(self) -> None:
        """Forget what is not in the database."""

    def has_pending(self) -> bool: ...

    def next_keys(self, count: int) -> tuple[list[Any], bool]:
        """The storage keys that follow those of the last call, and whether they were the last."""


class Rows:
    """The rows of one state: their keys, and how they are made. `store` gives the database, opened and synced."""

    def __init__(self, store: Callable[[], LocalStore], table: KeyedTable, *, allow_pickle: bool) -> None:
        self.address = ("", "", table.name)
        self.meta = table.meta()
        self.types = {role: codec.type_json for role, codec in table.codecs.items() if role not in _OWN_ROLES}
        self.ttl = bool(self.meta.get("ttl"))
        self._store = store
        self._head: bytes | None = None
        self._complete = False
        self._namespaced = table.namespaced
        self._allow_pickle = allow_pickle
        self._codecs = table.codecs
        self.key_cells = [self.cell_codec(role) for role in (("key", "ns") if table.namespaced else ("key",))]

    def cell_codec(self, role: str) -> CellCodec:
        codec: ColumnCodec = self._codecs[role]
        return CellCodec(codec, allow_pickle=self._allow_pickle)

    def can_read(self, stored: StoredTable) -> bool:
        """Whether a table's rows are made as these are."""
        if shape(stored.meta) != shape(self.meta) or bool(stored.meta.get("ttl")) != self.ttl:
            return False
        return all(self.types.get(role, kind) == kind for role, kind in stored.types.items())

    def bind(self, stored: StoredTable | None) -> None:
        """Read and write under the number of a table in the database, or read nothing."""
        self._head = None if stored is None else stored.number.to_bytes(4, "big")
        self._complete = stored is not None and self.types.keys() <= stored.types.keys()

    def bind_for_writing(self, writer: Writer) -> None:
        """See to it that the database knows the table as it is here."""
        if not self._complete:
            self.bind(writer.add_table(self.address, self.meta, self.types))

    def prefix(self, key: Any) -> bytes:
        """What the keys of all rows of a storage key begin with."""
        assert self._head is not None
        if self._namespaced:
            return self._head + framed(identity(key[0])) + framed(identity(key[1]))
        return self._head + framed(identity(key))

    def key_of(self, cells: list[Any]) -> Any:
        """The storage key in a row."""
        if self._namespaced:
            return self.key_cells[0].unpack(cells[0]), self.key_cells[1].unpack(cells[1])
        return self.key_cells[0].unpack(cells[0])

    def parts(self, key: Any) -> list[Any]:
        """The storage key as the first values of a row."""
        return list(key) if self._namespaced else [key]

    def get(self, key: Any, suffix: bytes = b"") -> list[Any] | None:
        """The cells behind the key of one row."""
        store = self._store()
        if self._head is None:
            return None
        data = store.get(self.prefix(key) + suffix)
        return None if data is None else decode_row(data)[len(self.key_cells) :]

    def under(self, key: Any) -> Iterator[tuple[bytes, list[Any]]]:
        """The rows of a storage key, with their keys."""
        store = self._store()
        if self._head is not None:
            skip = len(self.key_cells)
            for row_key, data in store.scan(self.prefix(key)):
                yield row_key, decode_row(data)[skip:]

    def has(self, key: Any) -> bool:
        return next(self.under(key), None) is not None

    def storage_keys(self, after: bytes = b"") -> Iterator[tuple[bytes, Any]]:
        """The storage keys behind a place, each once, with the place: the end of a key's rows."""
        store = self._store()
        last, skipped = b"", 0
        rows = iter(()) if self._head is None else store.scan(self._head, after)
        while (row := next(rows, None)) is not None:
            if last and row[0].startswith(last):
                skipped += 1
                if skipped > _PATIENCE:
                    rows = self._store().scan(self._head or b"", last + b"\xff")
                continue
            last, skipped = self._prefix_in(row[0]), 0
            yield last + b"\xff", self.key_of(decode_row(row[1]))

    def _prefix_in(self, row_key: bytes) -> bytes:
        end = 4
        for _ in self.key_cells:
            end += 4 + int.from_bytes(row_key[end : end + 4], "big")
        return row_key[:end]

    def all(self, after: bytes = b"") -> Iterator[tuple[bytes, list[Any]]]:
        """All rows behind a place, whole."""
        store = self._store()
        if self._head is not None:
            for row_key, data in store.scan(self._head, after):
                yield row_key, decode_row(data)


class Walk:
    """Round and round over the storage keys of a table, a few at a time."""

    __slots__ = ("_place", "_rows")

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._place = b""

    def next_keys(self, count: int) -> tuple[list[Any], bool]:
        """The next keys, and whether the round is over."""
        found: list[Any] = []
        for place, key in self._rows.storage_keys(self._place):
            found.append(key)
            self._place = place
            if len(found) == count:
                return found, False
        self._place = b""
        return found, True


class DiskValues:
    """An object per storage key; None stands for none."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._value = rows.cell_codec("value")
        self._walk = Walk(rows)
        self._pending: dict[Any, Any] = {}
        self._seen: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        if key in self._pending:
            return self._pending[key]
        if key not in self._seen:
            if len(self._seen) >= READ_CACHE:
                self._seen.clear()
            cells = self.rows.get(key)
            self._seen[key] = None if cells is None else self._of(cells)
        return self._seen[key]

    def _of(self, cells: list[Any]) -> Any:
        value = self._value.unpack(cells[0])
        return (value, cells[1]) if self.rows.ttl else value

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries, read as they are asked for."""
        skip = len(self.rows.key_cells)
        for _, cells in self.rows.all():
            key = self.rows.key_of(cells)
            if key not in self._pending:
                yield key, self._of(cells[skip:])
        yield from [(key, value) for key, value in self._pending.items() if value is not None]

    def pop(self, key: Any, _default: Any = None) -> None:
        self._pending[key] = None

    def update(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._pending.update(pairs)

    def clear(self) -> None:
        self._pending.clear()
        self._seen.clear()

    def has_pending(self) -> bool:
        return bool(self._pending)

    def next_keys(self, count: int) -> tuple[list[Any], bool]:
        return self._walk.next_keys(count)

    def settle(self, writer: Writer) -> None:
        rows = self.rows
        rows.bind_for_writing(writer)
        codecs = [*rows.key_cells, self._value]
        for key, value in self._pending.items():
            if value is None:
                writer.delete(rows.prefix(key))
                continue
            stored, stamp = (value[0], value[1:]) if rows.ttl else (value, ())
            writer.put(rows.prefix(key), encode_row(codecs, [*rows.parts(key), stored], *stamp))
        self.clear()


class DiskLists:
    """A list per storage key, in segments: appending writes what is appended. There are no empty lists."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._item = rows.cell_codec("item")
        self._walk = Walk(rows)
        self._replaced: dict[Any, list[Any]] = {}
        self._added: dict[Any, list[Any]] = {}
        self._seen: dict[Any, list[Any]] = {}
        self._seen_items = 0

    def get(self, key: Any, default: Any = None) -> Any:
        found = self._replaced[key] if key in self._replaced else self._stored(key)
        added = self._added.get(key)
        return (found + added if added else found) or default

    def _stored(self, key: Any) -> list[Any]:
        found = self._seen.get(key)
        if found is None:
            found = [item for _, cells in self.rows.under(key) for item in self._of(cells)]
            if self._seen_items >= READ_CACHE:
                self._seen.clear()
                self._seen_items = 0
            self._seen[key] = found
            self._seen_items += len(found) + 1
        return found

    def _of(self, cells: list[Any]) -> list[Any]:
        items = self._item.unpack_all(cells[0])
        return list(zip(items, cells[1], strict=True)) if self.rows.ttl else items

    def __contains__(self, key: Any) -> bool:
        if key in self._added:
            return True
        return bool(self._replaced[key]) if key in self._replaced else self.rows.has(key)

    def __iter__(self) -> Iterator[Any]:
        pending = [*self._replaced, *(key for key in self._added if key not in self._replaced)]
        known = set(pending)
        for _, key in self.rows.storage_keys():
            if key not in known:
                yield key
        yield from (key for key in pending if key in self)

    def items(self) -> Iterator[tuple[Any, list[Any]]]:
        """All lists, each read when it is asked for."""
        for key in self:
            yield key, self.get(key)
            self._seen.pop(key, None)

    def pop(self, key: Any, _default: Any = None) -> None:
        self._added.pop(key, None)
        self._replaced[key] = []

    def update(self, pairs: Iterable[tuple[Any, list[Any]]]) -> None:
        for key, items in pairs:
            self._added.pop(key, None)
            self._replaced[key] = items

    def append(self, key: Any, items: list[Any]) -> None:
        self._added.setdefault(key, []).extend(items)

    def clear(self) -> None:
        self._replaced.clear()
        self._added.clear()
        self._seen.clear()
        self._seen_items = 0

    def has_pending(self) -> bool:
        return bool(self._replaced or self._added)

    def next_keys(self, count: int) -> tuple[list[Any], bool]:
        return self._walk.next_keys(count)

    def settle(self, writer: Writer) -> None:
        self.rows.bind_for_writing(writer)
        for key, items in self._replaced.items():
            for row_key, _ in self.rows.under(key):
                writer.delete(row_key)
            self._write(writer, key, items)
        for key, items in self._added.items():
            self._write(writer, key, items)
        self.clear()

    def _write(self, writer: Writer, key: Any, items: list[Any]) -> None:
        rows = self.rows
        for start in range(0, len(items), _SEGMENT):
            segment = items[start : start + _SEGMENT]
            values = [value for value, _ in segment] if rows.ttl else segment
            stamps = [[stamp for _, stamp in segment]] if rows.ttl else []
            row = encode_row(rows.key_cells, rows.parts(key), self._item.pack_all(values), *stamps)
            writer.put(rows.prefix(key) + writer.number().to_bytes(8, "big"), row)
