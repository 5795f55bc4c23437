"""Random programs on every kind of state, over epochs, two processes, and attempts that fail."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.common.typeinfo import Types
from millrace.state import (
    AggregatingStateDescriptor,
    BackendSpec,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateHandles,
    SubtaskState,
    ValueStateDescriptor,
    open_files,
)

KEYS = ["a", "b", "c"]
NAMESPACES = [None, 1]
keys = st.sampled_from(KEYS)
small = st.integers(0, 5)

OPERATIONS = st.one_of(
    st.tuples(st.just("value"), st.sampled_from(["update", "clear"]), small),
    st.tuples(st.just("list"), st.sampled_from(["add", "update", "add_all", "clear"]), small),
    st.tuples(st.just("map"), st.sampled_from(["put", "remove", "clear", "put_all"]), small),
    st.tuples(st.just("reducing"), st.sampled_from(["add", "clear"]), small),
    st.tuples(st.just("aggregating"), st.sampled_from(["add", "clear"]), small),
    st.tuples(st.just("windowed"), st.sampled_from(["add", "clear", "merge"]), small),
    st.tuples(st.just("timer"), st.sampled_from(["add", "remove", "pop"]), small),
    st.tuples(st.just("broadcast"), st.sampled_from(["put", "remove", "clear"]), small),
    st.tuples(st.just("operator list"), st.sampled_from(["add", "update", "clear"]), small),
)
EPOCH = st.tuples(
    st.lists(st.tuples(keys, OPERATIONS), max_size=12),
    st.booleans(),  # which of the two processes runs it
    st.booleans(),  # whether an attempt fails before it (having done half of the work)
    st.booleans(),  # whether a base is forced
)


class Average:
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return (left[0] + right[0], left[1] + right[1])


class Process:
    """One worker process that hosts the subtask now and then."""

    def __init__(self, root: Path, typed: bool, backend: BackendSpec) -> None:
        self.state = SubtaskState(open_files(root), "vertex", 0, allow_pickle=not typed, backend=backend)
        string, number = (Types.STRING(), Types.LONG()) if typed else (None, None)
        pair = Types.TUPLE([Types.LONG(), Types.LONG()]) if typed else None
        backends = self.state.operator("op", string, number)
        self.keyed, self.timers = backends.keyed, backends.timers.event
        get = self.keyed.get_state
        self.value = get(ValueStateDescriptor("v", number))
        self.list = get(ListStateDescriptor("l", number))
        self.map = get(MapStateDescriptor("m", number, number))
        self.reducing = get(ReducingStateDescriptor("r", lambda a, b: a + b, number))
        self.aggregating = get(AggregatingStateDescriptor("a", Average(), pair))
        self.windowed = get(ListStateDescriptor("w", number), namespaced=True, namespace_type=number)
        self.broadcast = backends.operator.get_broadcast_state(MapStateDescriptor("b", string, number))
        self.operator_list = backends.operator.get_list_state(ListStateDescriptor("o", number))

    def run(self, key: str, operation: tuple[str, str, int]) -> None:
        self.keyed.context.key = key
        kind, name, n = operation
        if kind == "value":
            self.value.update(n) if name == "update" else self.value.clear()
        elif kind == "list":
            call(self.list, name, add=[n], update=[[n, n + 1][: n % 3]], add_all=[[n, n]])
        elif kind == "map":
            call(self.map, name, put=[n, n + 1], remove=[n], put_all=[{n: n, n + 1: n}])
        elif kind in ("reducing", "aggregating"):
            call(getattr(self, kind), name, add=[n])
        elif kind == "windowed":
            self.windowed.set_namespace(n)
            call(self.windowed, name.replace("merge", "merge_namespaces"), add=[n], merge_namespaces=[0, [n, 1]])
        elif kind == "timer":
            {"add": self.timers.add, "remove": self.timers.remove}.get(name, lambda *_: self.timers.pop_due(n))(
                key, n % 2, n
            )
        elif kind == "broadcast":
            call(self.broadcast, name, put=[key, n], remove=[key])
        else:
            call(self.operator_list, name, add=[n], update=[[n]])

    def seen(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key in KEYS:
            self.keyed.context.key = key
            windows = []
            for namespace in range(6):
                self.windowed.set_namespace(namespace)
                windows.append(self.windowed.get())
            result[key] = [
                self.value.value(),
                self.list.get(),
                list(self.map.items()),
                self.reducing.get(),
                self.aggregating.get(),
                windows,
                [timer[:1] + timer[2:] for timer in self.timers.timers_of(key)],
            ]
        result["live"] = [sorted(self.keyed.keys(name)) for name in "vlmra"]
        result["broadcast"] = self.broadcast.items()
        result["list"] = self.operator_list.get()
        result["next"] = self.timers.next_timestamp()
        self.state.release()
        return result


def call(state: Any, name: str, **arguments: list[Any]) -> None:
    getattr(state, name)(*arguments.get(name, []))


class Model:
    """The same in plain dicts."""

    def __init__(self) -> None:
        self.value: dict[str, int] = {}
        self.list: dict[str, list[int]] = {}
        self.map: dict[str, dict[int, int]] = {}
        self.reducing: dict[str, int] = {}
        self.aggregating: dict[str, tuple[int, int]] = {}
        self.windowed: dict[tuple[str, int], list[int]] = {}
        self.broadcast: dict[str, int] = {}
        self.operator_list: list[int] = []
        self.timers: list[tuple[int, str, int]] = []  # in the order of registration

    def run(self, key: str, operation: tuple[str, str, int]) -> None:  # noqa: C901, PLR0912
        match operation:
            case ("value", "update", n):
                self.value[key] = n
            case ("list", "add", n):
                self.list.setdefault(key, []).append(n)
            case ("list", "add_all", n):
                self.list.setdefault(key, []).extend([n, n])
            case ("list", "update", n):
                self.list[key] = [n, n + 1][: n % 3]
            case ("map", "put", n):
                self.map.setdefault(key, {})[n] = n + 1
            case ("map", "put_all", n):
                self.map.setdefault(key, {}).update({n: n, n + 1: n})
            case ("map", "remove", n):
                self.map.get(key, {}).pop(n, None)
            case ("reducing", "add", n):
                self.reducing[key] = self.reducing.get(key, 0) + n
            case ("aggregating", "add", n):
                total, count = self.aggregating.get(key, (0, 0))
                self.aggregating[key] = (total + n, count + 1)
            case ("windowed", "add", n):
                self.windowed.setdefault((key, n), []).append(n)
            case ("windowed", "clear", n):
                self.windowed.pop((key, n), None)
            case ("windowed", "merge", n):
                for source in (n, 1):
                    if source != 0:
                        moved = self.windowed.pop((key, source), [])
                        self.windowed.setdefault((key, 0), []).extend(moved)
            case ("timer", "add", n):
                if (n, key, n % 2) not in self.timers:
                    self.timers.append((n, key, n % 2))
            case ("timer", "remove", n):
                if (n, key, n % 2) in self.timers:
                    self.timers.remove((n, key, n % 2))
            case ("timer", "pop", n):
                due = sorted((timer for timer in self.timers if timer[0] <= n), key=lambda timer: timer[0])
                if due:
                    self.timers.remove(due[0])
            case ("broadcast", "put", n):
                self.broadcast[key] = n
            case ("broadcast", "remove", _):
                self.broadcast.pop(key, None)
            case ("operator list", "add", n):
                self.operator_list.append(n)
            case ("operator list", "update", n):
                self.operator_list = [n]
            case ("broadcast", "clear", _):
                self.broadcast.clear()
            case ("operator list", "clear", _):
                self.operator_list.clear()
            case (kind, "clear", _):
                getattr(self, kind).pop(key, None)

    def seen(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key in KEYS:
            result[key] = [
                self.value.get(key),
                self.list.get(key, []),
                list(self.map.get(key, {}).items()),
                self.reducing.get(key),
                self.aggregating.get(key),
                [self.windowed.get((key, namespace), []) for namespace in range(6)],
                sorted((timer for timer in self.timers if timer[1] == key), key=lambda timer: timer[0]),
            ]
        live: list[dict[str, Any]] = [self.value, self.list, self.map, self.reducing, self.aggregating]
        result["live"] = [sorted(key for key, value in one.items() if value not in ([], {})) for one in live]
        result["broadcast"] = list(self.broadcast.items())
        result["list"] = self.operator_list
        result["next"] = min((timer[0] for timer in self.timers), default=None)
        return result


def backends(kind: str, folder: str) -> list[BackendSpec]:
    """Of two processes, and of a third that comes last. On disk, the first two share a database."""
    if kind == "hashmap":
        return [BackendSpec()] * 3
    return [BackendSpec("rocksdb", f"{folder}/{place}", lock_timeout=0) for place in ("local", "local", "other")]


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@settings(max_examples=100, deadline=None)
@given(epochs=st.lists(EPOCH, max_size=8))
def test_state_equals_a_model_over_epochs_processes_and_failed_attempts(
    kind: str, typed: bool, epochs: list[tuple[list[tuple[str, Any]], bool, bool, bool]]
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        first, second, third = (Process(root, typed, backend) for backend in backends(kind, folder))
        processes, model = [first, second], Model()
        handles = StateHandles()
        for number, (operations, which, fails, force) in enumerate(epochs):
            process = processes[which]
            if fails:
                process.state.open(handles)
                for key, operation in operations[::2]:
                    process.run(key, operation)
                if force:  # it even wrote its file, but the manifest never named it
                    process.state.snapshot(number, "lost")
                process.state.release()
            restored = process.state.open(handles)
            assert restored == bool(handles.chain)
            assert process.seen() == model.seen()
            for key, operation in operations:
                process.run(key, operation)
                model.run(key, operation)
            assert process.seen() == model.seen()
            if force:
                process.state._base_wanted = True
            handles = process.state.snapshot(number, "won")
            assert process.seen() == model.seen()
        for process in (*processes, third):
            process.state.open(handles)
            assert process.seen() == model.seen()
