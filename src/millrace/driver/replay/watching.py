"""Watches one operator of a subtask while it runs: what comes, what goes, timers, and what becomes of its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from millrace.graph.stream_graph import StreamNode
from millrace.runtime.batch import Batch
from millrace.runtime.epoch import EpochInput
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.subtask import Subtask, open_state
from millrace.runtime.time_domain import TimeDomain
from millrace.state.files import JobFiles
from millrace.state.heap import KeyedStateBackend
from millrace.state.subtask import OperatorBackends, SubtaskState
from millrace.state.tables import KeyedTable, Table


class Listener(Protocol):
    """Is told what the operator does, as it does it."""

    def begins(self, watermark: int) -> None:
        """The epoch begins, at this event time."""

    def takes(self, side: int, batch: Batch) -> None:
        """Records come in."""

    def gives(self, tag: str | None, batch: Batch) -> None:
        """Records go out; `tag` names a side output."""

    def fires(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        """A timer fires."""


def watch(subtask: Subtask, node: StreamNode, listener: Listener) -> None:
    """Have the listener told. Only this one instance is changed, before its first epoch."""
    operator = subtask.operators[node.id]
    output = operator.output
    _tell_before(operator, "begin", lambda: listener.begins(operator.watermark))
    if isinstance(operator, SourceOperator):
        _tell_before(operator, "receive", lambda _, batch: listener.takes(0, batch))
    else:
        _tell_before(operator, "process", lambda batch, side: listener.takes(side, batch))
    if isinstance(operator, KeyedOperator):
        _tell_before(
            operator,
            "on_timer",
            lambda timestamp, namespace, domain, _: listener.fires(timestamp, operator.keys.key, namespace, domain),
        )
    _tell_before(output, "emit_side", listener.gives)
    # Ahead of the others: what one of them fails on has been told by then.
    output.main.insert(0, _MainOutput(listener))


def _tell_before(target: Any, method: str, tell: Callable[..., None]) -> None:
    original = getattr(target, method)

    def told(*arguments: Any) -> Any:
        tell(*arguments)
        return original(*arguments)

    setattr(target, method, told)


class _MainOutput:
    """A receiver of the main output, after its type was applied."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def emit(self, batch: Batch) -> None:
        """Take records."""
        self._listener.gives(None, batch)

    def watermark(self, watermark: int) -> None:
        """Event time is of no interest here."""

    def idle(self) -> None:
        """Nor is that there is none."""


# --- state --------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """What an epoch made of a state under a key; `key` is None for state of the whole subtask."""

    state: str
    key: Any
    namespace: Any
    before: Any
    after: Any


class NewTimer(NamedTuple):
    """A timer that the epoch set, and that has not fired in it."""

    timestamp: int
    key: Any
    namespace: Any
    domain: TimeDomain


@dataclass(frozen=True)
class _Asked:
    """A state as the operator asked for it: the same call on other backends gives its like there."""

    section: str
    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def of(self, backends: OperatorBackends) -> Table:
        """That state there."""
        table = getattr(getattr(backends, self.section), self.method)(*self.arguments, **self.options)
        assert isinstance(table, Table)
        return table


class StateWatch:
    """What the operator has changed in its state since the epoch began, also when the epoch fails.

    What a state held before is read from the files once more, into a copy, so that nothing of the running operator is
    touched.
    """

    def __init__(self, subtask: Subtask, node: StreamNode, files: JobFiles) -> None:
        self._subtask = subtask
        self._node = node
        self._files = files
        self._backends = subtask.backends(node)
        self._asked: dict[str, _Asked] = {}
        self._after: list[tuple[str, Any, Any]] | None = None
        # The key that the operator had when it ended or failed.
        self.last_key: Any = None
        self._timers: list[NewTimer] = []
        for section in ("keyed", "operator"):
            backend = getattr(self._backends, section)
            for method in ("get_state", "get_list_state", "get_union_list_state", "get_broadcast_state"):
                if hasattr(backend, method):
                    self._note_asking(section, backend, method)
        _tell_before(subtask.state, "snapshot", lambda *_: self._settle())

    def _note_asking(self, section: str, backend: Any, method: str) -> None:
        original = getattr(backend, method)

        def noted(*arguments: Any, **options: Any) -> Any:
            table = original(*arguments, **options)
            self._asked.setdefault(table.name, _Asked(section, method, arguments, options))
            return table

        setattr(backend, method, noted)

    def _settle(self) -> None:
        """Take what there is now: once the epoch's snapshot is written, nobody knows what it changed."""
        if self._after is None:
            self.last_key = self._backends.keyed.context.key
            self._after = list(self._touched())
            timers = self._backends.timers
            self._timers = [
                NewTimer(*timer, domain)
                for table, domain in (
                    (timers.event, TimeDomain.EVENT_TIME),
                    (timers.processing, TimeDomain.PROCESSING_TIME),
                )
                for timer in _put(table.delta() or {})
            ]

    def _touched(self) -> Iterator[tuple[str, Any, Any]]:
        """State name, storage key and content of what this epoch has touched."""
        for name, asked in list(self._asked.items()):
            table = asked.of(self._backends)
            if name.startswith("@"):
                continue
            if isinstance(table, KeyedTable):
                for key in _touched_keys(table):
                    yield name, key, _content_under(self._backends.keyed, table, key)
            else:
                yield name, None, _content(table)

    def new_timers(self) -> list[NewTimer]:
        """The timers that wait since this epoch, in the order of their time."""
        self._settle()
        return sorted(self._timers, key=lambda timer: timer.timestamp)

    def changes(self, epoch: EpochInput) -> Iterator[Change]:
        """What is different now, or was when the epoch ended."""
        self._settle()
        assert self._after is not None
        vertex = self._subtask.vertex
        earlier = SubtaskState(self._files, str(vertex.id), self._subtask.index, allow_pickle=True)
        earlier.clock.now = epoch.processing_time
        open_state(earlier, vertex, self._subtask.index, epoch)
        backends = earlier.operator(self._node.state_id, key_type=self._node.key_type)
        for name, storage_key, after in self._after:
            table = self._asked[name].of(backends)
            if not isinstance(table, KeyedTable):
                key = namespace = None
                before = _content(table)
            else:
                key, namespace = storage_key if table.namespaced else (storage_key, None)
                before = _content_under(backends.keyed, table, storage_key)
            if before != after:
                yield Change(name, key, namespace, before, after)


def _put(columns: dict[str, list[Any]]) -> Iterator[tuple[int, Any, Any]]:
    names = ("put.time", "put.key", "put.ns")
    return zip(*(columns.get(name, []) for name in names), strict=True)


def _touched_keys(table: KeyedTable) -> list[Any]:
    columns = table.delta() or {}
    found: dict[Any, None] = {}
    for name, keys in columns.items():
        part, _, role = name.partition(".")
        if role == "key":
            names = zip(keys, columns[f"{part}.ns"], strict=True) if table.namespaced else keys
            found.update(dict.fromkeys(names))
    return list(found)


def _content_under(backend: KeyedStateBackend, table: KeyedTable, storage_key: Any) -> Any:
    """What a state holds under a key. The operator goes on with the key that it had."""
    context: Any = table._context
    key, namespace = backend.context.key, getattr(context, "namespace", None)
    try:
        if table.namespaced:
            backend.context.key, context.namespace = storage_key
        else:
            backend.context.key = storage_key
        return _content(table)
    finally:
        backend.context.key = key
        if table.namespaced:
            context.namespace = namespace


def _content(table: Any) -> Any:
    """None where there is nothing."""
    if hasattr(table, "items"):
        return dict(table.items()) or None
    found = table.value() if hasattr(table, "value") else table.get()
    return found if found != [] else None
