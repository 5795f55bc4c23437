"""List state on the heap: appending costs what is appended, however long the list is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from millrace.state.api import ListState
from millrace.state.codec import ColumnCodec
from millrace.state.tables import (
    INT64,
    Columns,
    KeyContext,
    KeyedTable,
    NamespacedContext,
    flatten,
    split,
    weighed_pieces,
)


class HeapLists(dict[Any, list[Any]]):
    """A list per storage key. None of them is empty."""

    def append(self, key: Any, items: list[Any]) -> None:
        """Put items at the end of a list, which is this very one where there was none."""
        if key in self:
            self[key].extend(items)
        else:
            self[key] = items


class ListTable(KeyedTable):
    """A list per storage key: `_base` of the last epoch, `_replaced` whole in this one, `_added` at its end."""

    __slots__ = ("_added", "_base", "_replaced")

    kind: ClassVar[str] = "list"

    def __init__(self, name: str, codecs: dict[str, ColumnCodec], context: KeyContext | NamespacedContext) -> None:
        super().__init__(name, {**codecs, "count": INT64}, context)
        self._base: Any = HeapLists()
        self._replaced: dict[Any, list[Any]] = {}
        self._added: dict[Any, list[Any]] = {}

    def keep_in(self, place: Any) -> None:
        self._base = self.place = place

    def changed_keys(self) -> list[Any]:
        return [*self._replaced, *(key for key in self._added if key not in self._replaced)]

    def clear(self) -> None:
        self._replace(self._context.key, [])

    def _read(self, key: Any) -> list[Any]:
        """A new list of the elements of a storage key."""
        items: list[Any] = self._replaced[key] if key in self._replaced else self._base.get(key, [])
        return items + self._added.get(key, [])

    def _replace(self, key: Any, items: list[Any]) -> None:
        self._added.pop(key, None)
        if items or key in self._base:
            self._replaced[key] = items
        else:
            self._replaced.pop(key, None)

    def _append(self, key: Any, items: list[Any]) -> None:
        if items:
            self._added.setdefault(key, []).extend(items)

    def storage_keys(self) -> Iterator[Any]:
        base, replaced, added = self._base, self._replaced, self._added
        yield from (key for key in base if key in added or key not in replaced or replaced[key])
        yield from (key for key in self.changed_keys() if (key in added or replaced[key]) and key not in base)

    def delta(self) -> Columns | None:
        gone = [key for key, items in self._replaced.items() if not items]
        whole = {key: items for key, items in self._replaced.items() if items}
        if not (gone or whole or self._added):
            return None
        return {
            **self._key_columns("gone", gone),
            **self._rows("set", whole),
            **self._rows("add", self._added),
        }

    def commit(self, columns: Columns | None, coerced: bool) -> None:
        if columns is not None:
            self.apply(columns)
        self._replaced.clear()
        self._added.clear()

    def full(self) -> Columns:
        return self._rows("set", dict(self._base.items()))

    def chunks(self, rows: int) -> Iterator[Columns]:
        return (self._rows("set", piece) for piece in weighed_pieces(self._base.items(), rows))

    def _rows(self, part: str, lists: dict[Any, list[Any]]) -> Columns:
        return {
            **self._key_columns(part, list(lists)),
            f"{part}.count": list(map(len, lists.values())),
            **self._item_columns(part, flatten(lists.values())),
        }

    def _item_columns(self, part: str, items: list[Any]) -> Columns:
        return {f"{part}.item": items}

    def apply(self, columns: Columns) -> None:
        base = self._base
        for key in self._keys_of("gone", columns):
            base.pop(key, None)
        base.update(self._lists_of("set", columns))
        for key, items in self._lists_of("add", columns):
            base.append(key, items)

    def _lists_of(self, part: str, columns: Columns) -> Iterator[tuple[Any, list[Any]]]:
        lists = split(self._stored(part, columns), columns.get(f"{part}.count", []))
        return zip(self._keys_of(part, columns), lists, strict=True)

    def _stored(self, part: str, columns: Columns) -> list[Any]:
        return columns.get(f"{part}.item", [])

    def reset(self) -> None:
        self._base.clear()
        self._replaced.clear()
        self._added.clear()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the lists of the source namespaces to the target's, and remove the sources."""
        context = self._namespaces()
        target_key = context.under(target)
        for source in sources:
            key = context.under(source)
            if key != target_key:
                self._append(target_key, self._read(key))
                self._replace(key, [])


class HeapListState(ListTable, ListState[Any]):
    """`ListState`. What `get` returns is a copy, what `update` and `add_all` take is copied."""

    __slots__ = ()

    def get(self) -> list[Any]:
        return self._read(self._context.key)

    def add(self, value: Any) -> None:
        key = self._context.key
        added = self._added
        if key in added:
            added[key].append(value)
        else:
            added[key] = [value]

    def add_all(self, values: Iterable[Any]) -> None:
        self._append(self._context.key, list(values))

    def update(self, values: Iterable[Any]) -> None:
        self._replace(self._context.key, list(values))
