"""Operators that join a stream with a broadcast one: the broadcast side writes broadcast state, the other reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millrace.common.errors import ProgramError
from millrace.runtime.batch import Batch
from millrace.runtime.contexts import ElementContext, KeyedTimerService, TimerService
from millrace.runtime.operators.base import Operator
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.operators.process import process_keyed, process_records
from millrace.runtime.time_domain import TimeDomain

BROADCAST_SIDE = 1


class ReadOnlyBroadcastView:
    """Broadcast state as the side that is not broadcast sees it: to read only.

    Each subtask has its own copy of the state, and they agree because all of them see the same broadcast
    records; a write from the other side would make them differ.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        """The value under a key, or None."""
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        """Whether there is a value under the key."""
        return bool(self._state.contains(key))

    def items(self) -> Iterable[tuple[Any, Any]]:
        """All entries."""
        return self._state.items()  # type: ignore[no-any-return]

    def keys(self) -> Iterable[Any]:
        """All keys."""
        return self._state.keys()  # type: ignore[no-any-return]

    def values(self) -> Iterable[Any]:
        """All values."""
        return self._state.values()  # type: ignore[no-any-return]

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return bool(self._state.is_empty())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def _refuse(self, *args: Any) -> None:
        raise ProgramError(
            "Broadcast state can be written in process_broadcast_element only.",
            action="Move the write there: each subtask has its own copy, and only broadcast records reach all of them.",
        )

    put = put_all = remove = clear = __setitem__ = _refuse


class BroadcastContext(ElementContext):
    """`ctx` of the two sides of a broadcast process function."""

    def __init__(self, operator: Any, timers: Any, writable: bool) -> None:
        super().__init__(operator, timers)
        self._writable = writable

    def get_broadcast_state(self, state_descriptor: Any) -> Any:
        """The broadcast state of this descriptor, which must be one of those given to `broadcast(...)`."""
        operator = self._operator
        known = [descriptor.name for descriptor in operator.descriptors]  # type: ignore[attr-defined]
        if state_descriptor.name not in known:
            raise ProgramError(
                f"There is no broadcast state {state_descriptor.name!r} here; known: {', '.join(known) or 'none'}.",
                action="Give its MapStateDescriptor to stream.broadcast(...).",
            )
        state = operator.context.backends.operator.get_broadcast_state(state_descriptor)
        return state if self._writable else ReadOnlyBroadcastView(state)

    def apply_to_keyed_state(self, state_descriptor: Any, function: Callable[[Any, Any], None]) -> None:
        """Call `function(key, state)` for every key that has state under the descriptor."""
        if not self._writable or not self._operator.keyed:
            raise ProgramError("apply_to_keyed_state is for process_broadcast_element of a keyed stream.")
        self._operator.backends.keyed.apply_to_all(state_descriptor, function)  # type: ignore[attr-defined]


class BroadcastProcessOperator(Operator):
    """Runs a BroadcastProcessFunction."""

    def __init__(self, function: Any, descriptors: tuple[Any, ...]) -> None:
        super().__init__(function)
        self.descriptors = descriptors

    def open(self) -> None:
        super().open()
        service = TimerService(self)
        self._reader = BroadcastContext(self, service, writable=False)
        self._writer = BroadcastContext(self, service, writable=True)

    def process(self, batch: Batch, side: int) -> None:
        if side == BROADCAST_SIDE:
            process_records(self, self.function.process_broadcast_element, self._writer, batch)
        else:
            process_records(self, self.function.process_element, self._reader, batch)


class KeyedBroadcastProcessOperator(KeyedOperator):
    """Runs a KeyedBroadcastProcessFunction. Only the side that is not broadcast has a key and may set timers."""

    def __init__(self, function: Any, descriptors: tuple[Any, ...]) -> None:
        super().__init__(function)
        self.descriptors = descriptors

    def open(self) -> None:
        super().open()
        self._reader = BroadcastContext(self, KeyedTimerService(self), writable=False)
        self._writer = BroadcastContext(self, TimerService(self), writable=True)

    def process(self, batch: Batch, side: int) -> None:
        if side == BROADCAST_SIDE:
            process_records(self, self.function.process_broadcast_element, self._writer, batch)
        else:
            process_keyed(self, self.function.process_element, self._reader, batch, self.selectors[0])

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        on_timer = getattr(self.function, "on_timer", None)
        if on_timer is None:
            return
        found = on_timer(timestamp, self._reader.for_timer(timestamp, domain))
        if found is not None:
            results.extend(found)
