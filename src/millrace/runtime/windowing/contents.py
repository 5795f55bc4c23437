"""What a window holds until it fires: its records, or what an incremental function has made of them.

All of it is state under (key, namespace); the current key is the operator's, the namespace that of the window or, where
windows merge, of the window whose state the session took over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from millrace.common.typeinfo import TypeInformation, Types
from millrace.runtime.failure import resolve
from millrace.state.descriptors import ListStateDescriptor, ValueStateDescriptor

from .namespaces import Namespace

# The state's name in Flink.
WINDOW_CONTENTS = "window-contents"

# What sliding windows share: see fast_sliding.py.
WINDOW_PANES = "window-panes"

CONTENTS_OF_SLIDING = (WINDOW_CONTENTS, WINDOW_PANES)


class Contents(Protocol):
    """The contents of all windows of an operator."""

    def add(self, namespace: Namespace, value: Any, timestamp: int) -> None:
        """Add a record to a window."""

    def get(self, namespace: Namespace) -> list[Any]:
        """What the window's function is given; empty where there is nothing."""

    def clear(self, namespace: Namespace) -> None:
        """Forget a window."""

    def merge(self, target: Namespace, sources: Iterable[Namespace]) -> None:
        """Move the contents of windows into another's."""


@dataclass(frozen=True)
class Incremental:
    """A ReduceFunction or an AggregateFunction, and the type of what it keeps."""

    function: Any
    aggregates: bool
    type_info: TypeInformation | None = None

    def descriptor(self, name: str) -> ValueStateDescriptor:
        """The state that accumulators are in."""
        return ValueStateDescriptor(name, self.type_info)

    def methods(self) -> Methods:
        """The function as callables, in the process that runs it."""
        function = self.function
        if self.aggregates:
            return Methods(function.create_accumulator, function.add, function.get_result, function.merge)
        reduce = resolve(function, "reduce")
        return Methods(None, lambda value, before: reduce(before, value), lambda value: value, reduce)


@dataclass(frozen=True)
class Methods:
    """What an incremental function does: `create` a beginning (None: the first record is one), `add` a record to an
    accumulator, make the `result` of one, `merge` two."""

    create: Any
    add: Any
    result: Any
    merge: Any


class AccumulatedContents:
    """One accumulator for each window."""

    def __init__(self, incremental: Incremental, keyed: Any, namespace_type: Any, name: str) -> None:
        self.methods = incremental.methods()
        self.state = keyed.get_state(incremental.descriptor(name), namespaced=True, namespace_type=namespace_type)

    def add(self, namespace: Namespace, value: Any, timestamp: int) -> None:
        state, methods = self.state, self.methods
        state.set_namespace(namespace)
        before = state.value()
        if before is None:
            if methods.create is None:
                state.update(value)
                return
            before = methods.create()
        state.update(methods.add(value, before))

    def get(self, namespace: Namespace) -> list[Any]:
        self.state.set_namespace(namespace)
        accumulator = self.state.value()
        return [] if accumulator is None else [self.methods.result(accumulator)]

    def clear(self, namespace: Namespace) -> None:
        self.state.set_namespace(namespace)
        self.state.clear()

    def merge(self, target: Namespace, sources: Iterable[Namespace]) -> None:
        state = self.state
        state.set_namespace(target)
        merged = state.value()
        for source in sources:
            state.set_namespace(source)
            accumulator = state.value()
            if accumulator is not None:
                merged = accumulator if merged is None else self.methods.merge(merged, accumulator)
                state.clear()
        state.set_namespace(target)
        state.update(merged)


class ListedContents:
    """All records of each window."""

    def __init__(self, type_info: TypeInformation | None, keyed: Any, namespace_type: Any) -> None:
        descriptor = ListStateDescriptor(WINDOW_CONTENTS, type_info)
        self.state = keyed.get_state(descriptor, namespaced=True, namespace_type=namespace_type)

    def add(self, namespace: Namespace, value: Any, timestamp: int) -> None:
        self.state.set_namespace(namespace)
        self.state.add(value)

    def get(self, namespace: Namespace) -> list[Any]:
        self.state.set_namespace(namespace)
        return self.state.get()  # type: ignore[no-any-return]

    def clear(self, namespace: Namespace) -> None:
        self.state.set_namespace(namespace)
        self.state.clear()

    def merge(self, target: Namespace, sources: Iterable[Namespace]) -> None:
        self.state.merge_namespaces(target, sources)


class TimestampedContents(ListedContents):
    """All records of each window with their timestamps, as (record, timestamp): what an evictor needs."""

    def __init__(self, type_info: TypeInformation | None, keyed: Any, namespace_type: Any) -> None:
        pairs = None if type_info is None else Types.TUPLE([type_info, Types.LONG()])
        super().__init__(pairs, keyed, namespace_type)

    def add(self, namespace: Namespace, value: Any, timestamp: int) -> None:
        self.state.set_namespace(namespace)
        self.state.add((value, timestamp))

    def replace(self, namespace: Namespace, pairs: list[tuple[Any, int]]) -> None:
        """What is left of a window."""
        self.state.set_namespace(namespace)
        self.state.update(pairs)
