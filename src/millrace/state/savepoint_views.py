"""What a savepoint's state looks like to whoever reads it: rows to walk over, or a table of Arrow, pandas or Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from millrace.state.arrow import Shape, int64, list_of, map_of, shape_of, text, to_arrow
from millrace.state.errors import StateCorruptedError
from millrace.state.fragments import where
from millrace.state.key_groups import key_group
from millrace.state.manifest import OperatorMeta, StateMeta
from millrace.state.tables import Columns, Table, split

# The types of a state by role (key, ns, value, item, entry).
Types = dict[str, Any]

# The tables of one state, those of one subtask after those of the other; read anew each time it is called.
ReadTables = Callable[[], Iterator[Table]]


class StateView(ABC):
    """State of an operator, as it was when the savepoint was taken. Files are read each time something is asked for."""

    operator: OperatorMeta

    @abstractmethod
    def columns(self) -> dict[str, tuple[Shape, list[Any]]]:
        """The columns by name: how they look in Arrow, and their values."""

    @abstractmethod
    def items(self) -> Iterator[tuple[Any, ...]]:
        """The rows, as Python has them."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self.items()

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`. Rows, tuples and dataclasses are structs, enums the names of their members."""
        import pyarrow as pa

        return pa.table({name: to_arrow(shape, values) for name, (shape, values) in self.columns().items()})

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def to_spark(self, spark: Any) -> Any:
        """A Spark DataFrame with the columns of `to_arrow`, of this SparkSession."""
        return spark.createDataFrame(self.to_arrow())


@dataclass
class KeyedRows:
    """Keyed state of any kind, one row per key and namespace.

    `stamps` say when an entry that has a time to live was last written (or read), in milliseconds: an int for a value,
    a list for a list, and for a map one per entry in the order of its entries; None where that is not known.
    """

    keys: list[Any] = field(default_factory=list)
    namespaces: list[Any] | None = None
    values: list[Any] = field(default_factory=list)
    stamps: list[Any] | None = None

    def extend(self, other: KeyedRows) -> None:
        """Take in the rows of another subtask."""
        self.keys += other.keys
        self.values += other.values
        for name in ("namespaces", "stamps"):
            theirs = getattr(other, name)
            if theirs is not None:
                setattr(self, name, [*(getattr(self, name) or []), *theirs])


def keyed_rows(kind: str, columns: Columns) -> KeyedRows:
    """The rows in the columns of a keyed table's `full`."""
    part = "set" if kind == "list" else "put"
    keys, namespaces = columns.get(f"{part}.key", []), columns.get(f"{part}.ns")
    stamps = columns.get(f"{part}.stamp")
    counts = columns.get(f"{part}.count", [])
    values: list[Any]
    if kind == "list":
        values = list(split(columns.get("set.item", []), counts))
    elif kind == "map":
        pairs = list(zip(columns.get("put.entry", []), columns.get("put.value", []), strict=True))
        values = list(map(dict, split(pairs, counts)))
    else:
        values = columns.get("put.value", [])
    if stamps is not None and kind in ("list", "map"):
        stamps = list(split(stamps, counts))
    return KeyedRows(keys, namespaces, values, stamps)


class KeyedStateView(StateView):
    """Keyed state: one row per key, and per namespace (such as a window) where it has them.

        for key, total in savepoint.keyed_state("totals", "total").items(): ...

    Columns: `key`, `namespace` if there are any; `value`, `items` or `entries` by the kind of state; `stamp` (`stamps`
    for lists and maps) if it has a time to live: when an entry was last written, in milliseconds; and `key_group`.
    What an aggregating state holds is its accumulator.
    """

    def __init__(self, operator: OperatorMeta, meta: StateMeta, types: Types, read: ReadTables) -> None:
        self.operator = operator
        self.meta = meta
        self.types = types
        self._read = read

    @property
    def value_column(self) -> str:
        """The name of the column that holds what is kept under a key."""
        return {"list": "items", "map": "entries"}.get(self.meta.kind, "value")

    @property
    def value_shape(self) -> Shape:
        """What is kept under a key, as Arrow sees it."""
        types = self.types
        if self.meta.kind == "list":
            return list_of(shape_of(types.get("item")))
        if self.meta.kind == "map":
            return map_of(shape_of(types.get("entry")), shape_of(types.get("value")))
        return shape_of(types.get("value"))

    def __len__(self) -> int:
        return sum(len(rows.keys) for rows in self.batches())

    def batches(self) -> Iterator[KeyedRows]:
        """The rows, those of one subtask at a time."""
        for table in self._read():
            rows = keyed_rows(self.meta.kind, table.full())
            if not self.meta.ttl:
                rows.stamps = None
            elif rows.stamps is None:  # not written since it was given a time to live
                rows.stamps = [None] * len(rows.keys)
            yield rows

    def rows(self) -> KeyedRows:
        """All rows."""
        empty = KeyedRows(namespaces=[] if self.meta.namespaced else None, stamps=[] if self.meta.ttl else None)
        for batch in self.batches():
            empty.extend(batch)
        if empty.namespaces is not None and len(empty.namespaces) != len(empty.keys):
            place = where(self.operator.uid, self.meta.name)
            raise StateCorruptedError(f"{place} has namespaces in some files and not in others")
        return empty

    def items(self) -> Iterator[tuple[Any, ...]]:
        """`(key, value)`, or `(key, namespace, value)`; the value is a list for list state and a dict for map state."""
        for rows in self.batches():
            if rows.namespaces is None:
                yield from zip(rows.keys, rows.values, strict=True)
            else:
                yield from zip(rows.keys, rows.namespaces, rows.values, strict=True)

    def columns(self) -> dict[str, tuple[Shape, list[Any]]]:
        rows = self.rows()
        found = {"key": (shape_of(self.types.get("key")), rows.keys)}
        if rows.namespaces is not None:
            found["namespace"] = (shape_of(self.types.get("ns")), rows.namespaces)
        found[self.value_column] = (self.value_shape, rows.values)
        if rows.stamps is not None:
            nested = self.meta.kind in ("list", "map")
            found["stamps" if nested else "stamp"] = (list_of(int64()) if nested else int64(), rows.stamps)
        groups = [key_group(key, self.operator.max_parallelism) for key in rows.keys]
        found["key_group"] = (int64(), groups)
        return found


class OperatorStateView(StateView):
    """Operator state: the items of a list (of all subtasks, one after the other), or the entries of a broadcast map.

    Columns: `item`, or `key` and `value`.
    """

    def __init__(self, operator: OperatorMeta, meta: StateMeta, types: Types, read: ReadTables) -> None:
        self.operator = operator
        self.meta = meta
        self.types = types
        self._read = read

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def items(self) -> Iterator[Any]:
        """The items of a list; `(key, value)` of a broadcast map."""
        for table in self._read():
            columns = table.full()
            if self.meta.kind == "broadcast":
                yield from zip(columns["put.entry"], columns["put.value"], strict=True)
                return  # every subtask has the same
            yield from columns["all.item"]

    def columns(self) -> dict[str, tuple[Shape, list[Any]]]:
        items = list(self.items())
        if self.meta.kind == "broadcast":
            keys, values = (list(column) for column in zip(*items, strict=True)) if items else ([], [])
            key, value = shape_of(self.types.get("entry")), shape_of(self.types.get("value"))
            return {"key": (key, keys), "value": (value, values)}
        return {"item": (shape_of(self.types.get("item")), items)}


class TimersView(StateView):
    """The timers of an operator that have not fired.

    Columns: `domain` (event or processing), `timestamp` in milliseconds, `key`, `namespace`, `key_group`.
    """

    def __init__(self, operator: OperatorMeta, types: Types, read: Iterable[tuple[str, ReadTables]]) -> None:
        self.operator = operator
        self.types = types
        self._domains = list(read)

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def items(self) -> Iterator[tuple[str, int, Any, Any]]:
        """`(domain, timestamp, key, namespace)`, in the order in which they are due."""
        for domain, read in self._domains:
            timers = [
                (time, key, namespace)
                for table in read()
                for time, key, namespace in _timers_of(table.full())
            ]
            for time, key, namespace in sorted(timers, key=lambda timer: timer[0]):
                yield domain, time, key, namespace

    def columns(self) -> dict[str, tuple[Shape, list[Any]]]:
        items = list(self.items())
        domains, times, keys, namespaces = (list(c) for c in zip(*items, strict=True)) if items else ([], [], [], [])
        return {
            "domain": (text(), domains),
            "timestamp": (int64(), times),
            "key": (shape_of(self.types.get("key")), keys),
            "namespace": (shape_of(self.types.get("ns")), namespaces),
            "key_group": (int64(), [key_group(key, self.operator.max_parallelism) for key in keys]),
        }


def _timers_of(columns: Columns) -> Iterator[tuple[int, Any, Any]]:
    return zip(columns["put.time"], columns["put.key"], columns["put.ns"], strict=True)
