"""Value, reducing and aggregating state on the heap: one object per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from millrace.state.api import AggregatingState, ReducingState, ValueState
from millrace.state.codec import ColumnCodec
from millrace.state.tables import Columns, KeyContext, KeyedTable, NamespacedContext, pieces


class ValueTable(KeyedTable):
    """One object per storage key, as of the last epoch (`_base`) and of this one (`_dirty`, None: removed).

    `_base` is a dict, or stands for what lies on disk (`disk_tables.py`).
    """

    __slots__ = ("_base", "_dirty")

    def __init__(self, name: str, codecs: dict[str, ColumnCodec], context: KeyContext | NamespacedContext) -> None:
        super().__init__(name, codecs, context)
        self._base: Any = {}
        self._dirty: dict[Any, Any] = {}

    def keep_in(self, place: Any) -> None:
        self._base = self.place = place

    def changed_keys(self) -> list[Any]:
        return list(self._dirty)

    def clear(self) -> None:
        key = self._context.key
        if key in self._base:
            self._dirty[key] = None
        else:
            self._dirty.pop(key, None)

    def storage_keys(self) -> Iterator[Any]:
        dirty, base = self._dirty, self._base
        yield from (key for key in base if key not in dirty or dirty[key] is not None)
        yield from (key for key, value in dirty.items() if value is not None and key not in base)

    def delta(self) -> Columns | None:
        base = self._base
        live = {key: value for key, value in self._dirty.items() if value is not None}
        if len(live) == len(self._dirty):
            gone = []
        else:
            gone = [key for key, value in self._dirty.items() if value is None and key in base]
        if not live and not gone:
            return None
        return {**self._key_columns("gone", gone), **self._rows(live)}

    def commit(self, columns: Columns | None, coerced: bool) -> None:
        if columns is not None:
            self.apply(columns)
        self._dirty.clear()

    def full(self) -> Columns:
        return self._rows(dict(self._base.items()))

    def chunks(self, rows: int) -> Iterator[Columns]:
        return (self._rows(dict(piece)) for piece in pieces(self._base.items(), rows))

    def _rows(self, entries: dict[Any, Any]) -> Columns:
        return {**self._key_columns("put", list(entries)), "put.value": list(entries.values())}

    def apply(self, columns: Columns) -> None:
        for key in self._keys_of("gone", columns):
            self._base.pop(key, None)
        self._base.update(zip(self._keys_of("put", columns), self._stored(columns), strict=True))

    def _stored(self, columns: Columns) -> Iterable[Any]:
        return columns.get("put.value", [])

    def reset(self) -> None:
        self._base.clear()
        self._dirty.clear()

    def _read(self, key: Any) -> Any:
        return self._dirty[key] if key in self._dirty else self._base.get(key)

    def _merge(self, target: Any, sources: Iterable[Any], combine: Callable[[Any, Any], Any]) -> None:
        context = self._namespaces()
        target_key = context.under(target)
        merged = None
        for source in sources:
            key = context.under(source)
            if key == target_key:
                continue
            stored = self._read(key)
            if stored is not None:
                merged = stored if merged is None else combine(merged, stored)
                self._dirty[key] = None
        if merged is not None:
            present = self._read(target_key)
            self._dirty[target_key] = merged if present is None else combine(present, merged)


class HeapValueState(ValueTable, ValueState[Any]):
    """`ValueState` in two dicts."""

    __slots__ = ()

    kind: ClassVar[str] = "value"

    def value(self) -> Any:
        key = self._context.key
        # Two subscripts of a dict are cheaper than one call of `get` with a default.
        if key in self._dirty:
            return self._dirty[key]
        return self._base.get(key)

    def update(self, value: Any) -> None:
        self._dirty[self._context.key] = value


class HeapReducingState(ValueTable, ReducingState[Any]):
    """`ReducingState`: the value so far."""

    __slots__ = ("_reduce",)

    kind: ClassVar[str] = "reducing"

    def __init__(
        self,
        name: str,
        codecs: dict[str, ColumnCodec],
        context: KeyContext | NamespacedContext,
        reduce: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__(name, codecs, context)
        self._reduce = reduce

    def get(self) -> Any:
        return self._read(self._context.key)

    def add(self, value: Any) -> None:
        key = self._context.key
        dirty = self._dirty
        current = dirty[key] if key in dirty else self._base.get(key)
        dirty[key] = value if current is None else self._reduce(current, value)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the source namespaces into the target's, and remove the sources."""
        self._merge(target, sources, self._reduce)


class HeapAggregatingState(ValueTable, AggregatingState[Any, Any]):
    """`AggregatingState`: the accumulator so far."""

    __slots__ = ("_add", "_create", "_function", "_result")

    kind: ClassVar[str] = "aggregating"

    def __init__(
        self,
        name: str,
        codecs: dict[str, ColumnCodec],
        context: KeyContext | NamespacedContext,
        function: Any,
    ) -> None:
        super().__init__(name, codecs, context)
        self._function = function
        self._create = function.create_accumulator
        self._add = function.add
        self._result = function.get_result

    def get(self) -> Any:
        accumulator = self._read(self._context.key)
        return None if accumulator is None else self._result(accumulator)

    def add(self, value: Any) -> None:
        key = self._context.key
        dirty = self._dirty
        accumulator = dirty[key] if key in dirty else self._base.get(key)
        dirty[key] = self._add(value, self._create() if accumulator is None else accumulator)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the source namespaces into the target's, and remove the sources."""
        self._merge(target, sources, self._function.merge)
