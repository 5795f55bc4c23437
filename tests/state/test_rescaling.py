"""State of the old subtasks, dealt out to another number of new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.common.typeinfo import Types
from millrace.state import (
    BackendSpec,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateHandles,
    StateTtlConfig,
    SubtaskState,
    ValueStateDescriptor,
    key_group,
    key_group_range,
    open_files,
    subtask_of,
)

GROUPS = 16
KEYS = [f"key-{n}" for n in range(60)]


class Subtask:
    def __init__(self, root: Path, index: int, backend: BackendSpec) -> None:
        self.state = SubtaskState(open_files(root), "v", index, backend=backend)
        backends = self.state.operator("op", Types.STRING(), Types.STRING())
        self.keyed, self.timers = backends.keyed, backends.timers.event
        number = Types.LONG()
        lasting = ListStateDescriptor("l", number)
        lasting.enable_time_to_live(StateTtlConfig.new_builder(1000).build())
        self.value = self.keyed.get_state(ValueStateDescriptor("v", number))
        self.list = self.keyed.get_state(lasting)
        self.map = self.keyed.get_state(MapStateDescriptor("m", number, number))
        self.windows = self.keyed.get_state(
            ReducingStateDescriptor("w", lambda a, b: a + b, number), namespaced=True, namespace_type=Types.STRING()
        )
        self.items = backends.operator.get_list_state(ListStateDescriptor("items", number))
        self.union = backends.operator.get_union_list_state(ListStateDescriptor("union", number))
        self.rules = backends.operator.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), number))

    def fill(self, index: int, parallelism: int) -> None:
        for n, key in enumerate(KEYS):
            if subtask_of(key_group(key, GROUPS), parallelism, GROUPS) == index:
                self.keyed.context.key = key
                self.value.update(n)
                self.list.add_all([n, n + 1])
                self.map.put_all({n: n, 0: -n})
                self.windows.set_namespace("win")
                self.windows.add(n)
                self.timers.add(key, "win", n // 10)
        self.items.add_all([index * 10, index * 10 + 1, index * 10 + 2])
        self.union.add(index)
        self.rules.put("rule", 7)

    def seen(self, key: str) -> list[Any]:
        self.keyed.context.key = key
        self.windows.set_namespace("win")
        timers = [(timer[0], timer[3]) for timer in self.timers.timers_of(key)]
        return [self.value.value(), self.list.get(), list(self.map.items()), self.windows.get(), timers]


def write(root: Path, parallelism: int, backend: BackendSpec) -> list[StateHandles]:
    handles = []
    for index in range(parallelism):
        subtask = Subtask(root, index, backend)
        subtask.state.open(None)
        subtask.fill(index, parallelism)
        first = subtask.state.snapshot(1, "a")
        subtask.state.open(first)
        subtask.rules.put("late", 8)
        handles.append(subtask.state.snapshot(2, "a"))
    return handles


@pytest.mark.parametrize(("old", "new"), [(2, 2), (2, 4), (4, 2), (3, 1), (1, 3)])
def test_every_key_arrives_whole_at_its_new_owner_and_nowhere_else(
    tmp_path: Path, backend: BackendSpec, old: int, new: int
) -> None:
    handles = write(tmp_path, old, backend)
    subtasks = []
    for index in range(new):
        subtask = Subtask(tmp_path, index, backend)
        subtask.state.restore_rescaled(handles, lambda _, i=index: (key_group_range(i, new, GROUPS), GROUPS), new)
        chain = subtask.state.snapshot(3, "b")
        assert [handle.kind for handle in chain.files] == ["base"]
        reader = Subtask(tmp_path, index, backend)  # the base that it wrote is all that a later process needs
        reader.state.open(chain)
        subtasks.append(reader)
    for n, key in enumerate(KEYS):
        owner = subtask_of(key_group(key, GROUPS), new, GROUPS)
        for index, subtask in enumerate(subtasks):
            whole = [n, [n, n + 1], list({n: n, 0: -n}.items()), n, [(n // 10, "win")]]
            assert subtask.seen(key) == (whole if index == owner else [None, [], [], None, []])
    items = [item for subtask in subtasks for item in subtask.items.get()]
    assert items == [index * 10 + n for index in range(old) for n in range(3)]
    assert max(len(s.items.get()) for s in subtasks) - min(len(s.items.get()) for s in subtasks) <= 1
    assert all(subtask.union.get() == list(range(old)) for subtask in subtasks)
    assert all(subtask.rules.items() == [("rule", 7), ("late", 8)] for subtask in subtasks)


def test_state_that_no_operator_asks_for_is_rescaled_as_well(tmp_path: Path, backend: BackendSpec) -> None:
    handles = write(tmp_path, 2, backend)
    forgetful = SubtaskState(open_files(tmp_path), "v", 0, backend=backend)
    forgetful.restore_rescaled(handles, lambda _: (key_group_range(0, 3, GROUPS), GROUPS), 3)
    chain = forgetful.snapshot(3, "b")
    reader = Subtask(tmp_path, 0, backend)
    reader.state.open(chain)
    owned = [key for key in KEYS if subtask_of(key_group(key, GROUPS), 3, GROUPS) == 0]
    assert sorted(reader.keyed.keys("v")) == sorted(owned)


def test_timers_of_several_subtasks_keep_an_order_at_the_same_time(tmp_path: Path, backend: BackendSpec) -> None:
    subtask = Subtask(tmp_path, 0, backend)
    subtask.state.restore_rescaled(write(tmp_path, 4, backend), lambda _: (range(GROUPS), GROUPS), 1)
    order = []
    while (timer := subtask.timers.pop_due(100)) is not None:
        order.append(timer)
    assert len(order) == len(KEYS)
    assert [timer[:2] for timer in order] == sorted(timer[:2] for timer in order)
