"""Tables: what every kind of state is to the checkpoint.

A table holds entries as of the last epoch and what this epoch changed. At the end of an epoch it hands over its
**delta**, columns of Python values; what another process makes of the delta with `apply` is exactly what `commit`
makes of it here.

Columns are named `part.role`: `put.key`, `put.value`, `gone.key`. The role decides the codec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Any, ClassVar, Protocol, TypeVar

from millrace.state.codec import ColumnCodec, Int64Codec

# Columns of equal length per part. A part without rows may be absent.
Columns = dict[str, list[Any]]

INT64 = Int64Codec()

T = TypeVar("T")


class Clock:
    """Processing time as state sees it, in milliseconds. Set once per epoch, so that a replay expires the same."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class KeyContext:
    """The current key of an operator; `key` is assigned for every record."""

    __slots__ = ("key",)

    key: Any

    def __init__(self) -> None:
        self.key = None


class NamespacedContext:
    """The current `(key, namespace)`: what namespaced state is stored under."""

    __slots__ = ("_context", "namespace")

    def __init__(self, context: KeyContext) -> None:
        self._context = context
        self.namespace: Any = None

    @property
    def key(self) -> Any:
        return (self._context.key, self.namespace)

    def under(self, namespace: Any) -> Any:
        """The storage key of the current key under some namespace."""
        return (self._context.key, namespace)


class Table(ABC):
    """Entries with a delta per epoch."""

    __slots__ = ("codecs", "name")

    kind: ClassVar[str] = ""

    def __init__(self, name: str, codecs: dict[str, ColumnCodec]) -> None:
        self.name = name
        self.codecs = codecs

    def meta(self) -> dict[str, Any]:
        """What a file's header says about this table."""
        return {"name": self.name, "kind": self.kind}

    def prepare_snapshot(self, full: bool) -> None:
        """Called before `delta`: the moment to drop what has expired."""
        return

    @abstractmethod
    def delta(self) -> Columns | None:
        """What changed since the last `commit`, or None."""

    @abstractmethod
    def commit(self, columns: Columns | None, coerced: bool) -> None:
        """Take what changed as settled. `columns` is the delta as readers will see it, `coerced` if that differs."""

    @abstractmethod
    def full(self) -> Columns:
        """All settled entries, as one delta on top of nothing. Called right after `commit`."""

    def chunks(self, rows: int) -> Iterator[Columns]:
        """All settled entries, as several deltas of about so many rows on top of nothing."""
        yield self.full()

    @abstractmethod
    def apply(self, columns: Columns) -> None:
        """Settle a delta that was written elsewhere."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything."""

    @abstractmethod
    def entry_count(self) -> int:
        """The number of keys (with namespaces) that have an entry. On disk, this reads them all."""

    def known_count(self) -> int:
        """The same where it costs little, else -1."""
        return self.entry_count()


class Place(Protocol):
    """Where a keyed table keeps what is settled, if not in memory."""

    def next_keys(self, count: int) -> tuple[list[Any], bool]:
        """The storage keys that follow those of the last call, and whether they were the last."""


class KeyedTable(Table):
    """A table whose rows belong to keys, and under a namespace if it is namespaced."""

    __slots__ = ("_context", "expiry", "namespaced", "place", "queryable")

    # Only for state with a time to live, set by whoever creates it.
    expiry: Any

    def __init__(
        self,
        name: str,
        codecs: dict[str, ColumnCodec],
        context: KeyContext | NamespacedContext,
    ) -> None:
        super().__init__(name, codecs)
        self._context = context
        self.namespaced = isinstance(context, NamespacedContext)
        # The name under which others may ask for it, set by whoever creates it.
        self.queryable: str | None = None
        self.place: Place | None = None

    @abstractmethod
    def keep_in(self, place: Any) -> None:
        """Keep what is settled in `place` and not in memory. Called before the table is used."""

    @abstractmethod
    def changed_keys(self) -> list[Any]:
        """The storage keys that this epoch has changed."""

    def meta(self) -> dict[str, Any]:
        meta = {**super().meta(), "namespaced": self.namespaced}
        return meta if self.queryable is None else {**meta, "queryable": self.queryable}

    @abstractmethod
    def storage_keys(self) -> Iterator[Any]:
        """The live storage keys: keys, or (key, namespace) pairs."""

    def live_keys(self) -> list[Any]:
        """The keys that have an entry, each once."""
        if not self.namespaced:
            return list(self.storage_keys())
        return list(dict.fromkeys(key for key, _ in self.storage_keys()))

    def namespaces_of(self, key: Any) -> list[Any]:
        """The namespaces under which a key has an entry. Looks at every entry of the table."""
        return [namespace for owner, namespace in self.storage_keys() if owner == key]

    def entry_count(self) -> int:
        return sum(1 for _ in self.storage_keys())

    def known_count(self) -> int:
        return self.entry_count() if self.place is None else -1

    def has_entries(self) -> bool:
        """Whether there is any entry."""
        return next(self.storage_keys(), None) is not None

    def set_namespace(self, namespace: Any) -> None:
        """Make `namespace` the current one."""
        self._namespaces().namespace = namespace

    def _namespaces(self) -> NamespacedContext:
        context = self._context
        assert isinstance(context, NamespacedContext), f"state {self.name!r} has no namespaces"
        return context

    def _key_columns(self, part: str, keys: list[Any]) -> Columns:
        if not self.namespaced:
            return {f"{part}.key": keys}
        return {f"{part}.key": [key for key, _ in keys], f"{part}.ns": [namespace for _, namespace in keys]}

    def _keys_of(self, part: str, columns: Columns) -> list[Any]:
        keys = columns.get(f"{part}.key", [])
        return list(zip(keys, columns.get(f"{part}.ns", []), strict=True)) if self.namespaced else keys


def pieces(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Items in lists of this length, the last one perhaps shorter."""
    iterator = iter(items)
    while piece := list(islice(iterator, size)):
        yield piece


def weighed_pieces(items: Iterable[tuple[Any, Any]], size: int) -> Iterator[dict[Any, Any]]:
    """Pairs of a key and a collection, in dicts whose collections have about so many members in all."""
    piece: dict[Any, Any] = {}
    weight = 0
    for key, members in items:
        piece[key] = members
        weight += len(members)
        if weight >= size:
            yield piece
            piece, weight = {}, 0
    if piece:
        yield piece


def flatten(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """All items of all lists, in order."""
    return [item for items in lists for item in items]


def split(items: list[Any], counts: list[int]) -> Iterator[list[Any]]:
    """Cut a flat list back into lists of these lengths."""
    start = 0
    for count in counts:
        yield items[start : start + count]
        start += count


def spread(keys: list[Any], counts: list[int]) -> Iterator[Any]:
    """Each key, as often as its count says."""
    for key, count in zip(keys, counts, strict=True):
        yield from repeat(key, count)
