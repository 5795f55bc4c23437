"""A look into the state of a function under test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millrace.runtime.subtask import Subtask
from millrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from millrace.state.subtask import OperatorBackends
from millrace.state.timers import TimerTable


class StateInspection:
    """Reads state and timers as plain values. Nothing that is read here is a live object of the function's."""

    _subtask: Subtask

    @property
    def _backends(self) -> OperatorBackends:
        return self._subtask.backends(self._subtask.vertex.nodes[0])

    def state(self, descriptor: StateDescriptor, key: Any) -> Any:
        """The keyed state of a key: the value (or None), or a list, or a dict, as the descriptor says."""
        keyed = self._backends.keyed
        state = keyed.get_state(descriptor)
        before = keyed.context.key
        keyed.context.key = key
        try:
            return _plain(state, descriptor)
        finally:
            keyed.context.key = before

    def keys(self, descriptor: StateDescriptor) -> list[Any]:
        """The keys that have state under the descriptor, in the order in which they got it."""
        keyed = self._backends.keyed
        keyed.get_state(descriptor)
        return keyed.keys(descriptor.name)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> dict[Any, Any]:
        """The broadcast state, as a dict."""
        return dict(self._backends.operator.get_broadcast_state(descriptor).items())

    def operator_state(self, descriptor: ListStateDescriptor) -> list[Any]:
        """The subtask's list state. A CheckpointedFunction writes it at the end of an epoch: see `end_epoch`."""
        return self._backends.operator.get_list_state(descriptor).get()

    def union_state(self, descriptor: ListStateDescriptor) -> list[Any]:
        """The subtask's union list state."""
        return self._backends.operator.get_union_list_state(descriptor).get()

    @property
    def entries(self) -> dict[str, int]:
        """How many entries each keyed state has, and how many timers there are; what has none is left out.

        What an operator keeps in memory for the time of an epoch is not seen: see `end_epoch`.
        """
        keyed = {table.name: table.entry_count() for table in self._backends.keyed.tables()}
        timers = {f"{table.name} timers": table.entry_count() for table in self._backends.timers.tables()}
        return {name: count for name, count in {**keyed, **timers}.items() if count}

    @property
    def event_time_timers(self) -> list[tuple[Any, int]]:
        """The timers of event time that have not fired, as (key, timestamp), in the order in which they will."""
        return _timers(self._backends.timers.event)

    @property
    def processing_time_timers(self) -> list[tuple[Any, int]]:
        """The timers of processing time that have not fired, as (key, timestamp), in the order in which they will."""
        return _timers(self._backends.timers.processing)


def _plain(state: Any, descriptor: StateDescriptor) -> Any:
    if isinstance(descriptor, ValueStateDescriptor):
        return state.value()
    if isinstance(descriptor, MapStateDescriptor):
        return dict(state.items())
    found = state.get()
    if isinstance(descriptor, ListStateDescriptor):
        return list(found) if isinstance(found, Iterable) else []
    return found


def _timers(table: TimerTable) -> list[tuple[Any, int]]:
    rows = table.full()
    timers = zip(rows["put.time"], rows["put.seq"], rows["put.key"], strict=True)
    return [(key, timestamp) for timestamp, _, key in sorted(timers, key=lambda timer: timer[:2])]
