"""Which windows of a key are in flight, where windows merge, and under which window's namespace each has its state.

A window that others are merged into keeps the state where the first of them had it: contents are moved only where
two windows with contents meet. The mapping is state of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millrace.state.descriptors import MapStateDescriptor

from .assigners import MergingWindowAssigner
from .namespaces import Namespace, WindowNamespaces

# (the new window, the windows that became it, where its state is, the states that are to be moved there)
OnMerge = Callable[[Any, list[Any], Namespace, list[Namespace]], None]


class MergingWindowSet:
    """The windows in flight of the current key."""

    def __init__(
        self, assigner: MergingWindowAssigner[Any, Any], namespaces: WindowNamespaces, keyed: Any
    ) -> None:
        self._assigner = assigner
        self._namespaces = namespaces
        # The state's name in Flink.
        descriptor = MapStateDescriptor("merging-window-set", namespaces.type_info, namespaces.type_info)
        self._state_of = keyed.get_state(descriptor)

    def state_namespace(self, window: Any) -> Namespace | None:
        """Where the state of a window in flight is; None for any other window."""
        return self._state_of.get(self._namespaces.of(window))

    def retire(self, window: Any) -> None:
        """The window is no longer in flight."""
        self._state_of.remove(self._namespaces.of(window))

    def items(self) -> list[tuple[Namespace, Namespace]]:
        """The windows in flight with where their state is, all as namespaces."""
        return list(self._state_of.items())

    def remember(self, window: Namespace, state: Namespace) -> None:
        """A window is in flight."""
        self._state_of.put(window, state)

    def forget(self, window: Namespace) -> None:
        """A window is no longer in flight."""
        self._state_of.remove(window)

    def add_window(self, window: Any, on_merge: OnMerge) -> Any:
        """Put a window in flight, merging what it makes merge. Returns the window that it became part of."""
        namespaces = self._namespaces
        in_flight = [namespaces.window(namespace) for namespace in self._state_of.keys()]  # noqa: SIM118 (no dict)
        result = window
        for merged, parts in self._merges([*in_flight, window]):
            if window in parts:
                result = merged
            parts = [part for part in parts if part != window or part in in_flight]  # noqa: PLW2901
            if parts:
                self._merge(merged, parts, on_merge)
        if result == window and window not in in_flight:
            of_window = namespaces.of(window)
            if not self._state_of.contains(of_window):
                self._state_of.put(of_window, of_window)
        return result

    def _merges(self, windows: Iterable[Any]) -> list[tuple[Any, list[Any]]]:
        callback = _Merges()
        self._assigner.merge_windows(dict.fromkeys(windows), callback)
        return callback.found

    def _merge(self, merged: Any, parts: list[Any], on_merge: OnMerge) -> None:
        if parts == [merged]:
            return  # The new window lies within one that is in flight: nothing changes.
        states = []
        for part in parts:
            of_part = self._namespaces.of(part)
            state = self._state_of.get(of_part)
            if state is not None:
                states.append(state)
                self._state_of.remove(of_part)
        of_merged = self._namespaces.of(merged)
        target = states[0] if states else of_merged
        self._state_of.put(of_merged, target)
        on_merge(merged, parts, target, states[1:])


class _Merges(MergingWindowAssigner.MergeCallback[Any]):
    """Remembers what an assigner wants merged."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((merge_result, list(to_be_merged)))
