"""State that expires."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.common.time import Time
from millrace.state import (
    AggregatingStateDescriptor,
    BackendSpec,
    KeyedStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateHandles,
    StateTtlConfig,
    SubtaskState,
    ValueStateDescriptor,
    open_files,
)


def config(*settings: str, ttl: Any = 10) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(ttl)
    for setting in settings:
        getattr(builder, setting)()
    return builder.build()


def state_of(keyed: KeyedStateBackend, descriptor: StateDescriptor, ttl: StateTtlConfig) -> Any:
    descriptor.enable_time_to_live(ttl)
    keyed.context.key = "k"
    return keyed.get_state(descriptor)


class Sum:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, left: int, right: int) -> int:
        return left + right


@pytest.fixture
def keyed(backend: BackendSpec, tmp_path: Path) -> KeyedStateBackend:
    state = SubtaskState(open_files(tmp_path), "v", 0, backend=backend, allow_pickle=True)
    state.open(None)
    return state.operator("op").keyed


@pytest.mark.parametrize("ttl", [timedelta(seconds=1), Time.seconds(1), 1000], ids=lambda ttl: type(ttl).__name__)
def test_a_time_to_live_is_a_timedelta_a_time_or_milliseconds(ttl: Any) -> None:
    assert config(ttl=ttl).ttl_ms == 1000


def test_a_config_survives_pickling_and_knows_its_defaults() -> None:
    copy = pickle.loads(pickle.dumps(config("cleanup_full_snapshot")))
    assert copy.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert copy.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    cleanup = copy.get_cleanup_strategies()
    assert cleanup.in_full_snapshot()
    assert cleanup.is_cleanup_in_background()
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 5
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries() == 1000


def test_a_disabled_time_to_live_is_none_at_all(keyed: KeyedStateBackend) -> None:
    ttl = StateTtlConfig.new_builder(10).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    state = state_of(keyed, ValueStateDescriptor("v"), ttl)
    state.update(1)
    keyed.clock.now = 1000
    assert state.value() == 1


def test_a_value_expires_at_the_end_of_its_life_and_not_before(keyed: KeyedStateBackend) -> None:
    state = state_of(keyed, ValueStateDescriptor("v"), config())
    state.update("x")
    keyed.clock.now = 9
    assert state.value() == "x"
    keyed.clock.now = 10
    assert state.value() is None
    assert keyed.count("v") == 0


def test_reading_prolongs_a_life_only_where_asked_for(keyed: KeyedStateBackend) -> None:
    read = state_of(keyed, ValueStateDescriptor("r"), config("update_ttl_on_read_and_write"))
    written = state_of(keyed, ValueStateDescriptor("w"), config())
    read.update(1)
    written.update(1)
    keyed.clock.now = 9
    assert (read.value(), written.value()) == (1, 1)
    keyed.clock.now = 18
    assert (read.value(), written.value()) == (1, None)


def test_an_expired_value_that_was_not_cleaned_up_is_returned_once_where_asked_for(
    keyed: KeyedStateBackend,
) -> None:
    state = state_of(keyed, ValueStateDescriptor("v"), config("return_expired_if_not_cleaned_up"))
    state.update(1)
    keyed.clock.now = 50
    assert state.value() == 1
    assert state.value() is None


def test_each_element_of_a_list_has_its_own_life(keyed: KeyedStateBackend) -> None:
    state = state_of(keyed, ListStateDescriptor("l"), config())
    state.add(1)
    keyed.clock.now = 5
    state.add_all([2, 3])
    keyed.clock.now = 10
    assert state.get() == [2, 3]
    keyed.clock.now = 15
    assert state.get() == []
    assert keyed.count("l") == 0


def test_each_entry_of_a_map_has_its_own_life(keyed: KeyedStateBackend) -> None:
    state = state_of(keyed, MapStateDescriptor("m"), config())
    state.put("a", 1)
    keyed.clock.now = 5
    state.put_all({"b": 2, "c": None})
    keyed.clock.now = 10
    assert list(state.items()) == [("b", 2), ("c", None)]
    assert (state.get("a"), state.contains("a"), state.contains("c")) == (None, False, True)
    keyed.clock.now = 15
    assert state.is_empty()


def test_reducing_and_aggregating_begin_anew_after_they_expired(keyed: KeyedStateBackend) -> None:
    reducing = state_of(keyed, ReducingStateDescriptor("r", lambda a, b: a + b), config())
    aggregating = state_of(keyed, AggregatingStateDescriptor("a", Sum()), config())
    for state in (reducing, aggregating):
        state.add(1)
        state.add(2)
    assert (reducing.get(), aggregating.get()) == (3, 3)
    keyed.clock.now = 10
    for state in (reducing, aggregating):
        state.add(5)
    assert (reducing.get(), aggregating.get()) == (5, 5)


def test_incremental_cleanup_removes_expired_entries_with_every_access(keyed: KeyedStateBackend) -> None:
    ttl = StateTtlConfig.new_builder(10).cleanup_incrementally(2, False).build()
    state = state_of(keyed, ValueStateDescriptor("v"), ttl)
    for key in range(10):
        keyed.context.key = key
        state.update(key)
    keyed.clock.now = 10
    keyed.context.key = "other"
    for _ in range(20):
        state.value()
    assert keyed.count("v") == 0


@pytest.mark.parametrize(
    ("settings", "left"),
    [((), 0), (("disable_cleanup_in_background",), 1), (("disable_cleanup_in_background", "cleanup_full_snapshot"), 0)],
)
def test_clean_up_at_the_end_of_an_epoch(
    tmp_path: Path, backend: BackendSpec, settings: tuple[str, ...], left: int
) -> None:
    def start() -> tuple[SubtaskState, KeyedStateBackend, Any]:
        subtask = SubtaskState(open_files(tmp_path), "v", 0, backend=backend)
        keyed = subtask.operator("op").keyed
        return subtask, keyed, state_of(keyed, ListStateDescriptor("l"), config(*settings))

    subtask, keyed, state = start()
    subtask.open(None)
    state.add(1)
    handles = subtask.snapshot(1, "a")
    subtask.open(handles)
    subtask.clock.now = 10
    subtask._base_wanted = True
    handles = subtask.snapshot(2, "a")
    restored, restored_keyed, _ = start()
    restored.open(handles)
    assert keyed.count("l") == restored_keyed.count("l") == left


def test_stamps_survive_and_state_without_them_begins_its_life_on_restore(tmp_path: Path, backend: BackendSpec) -> None:
    def start(descriptor: StateDescriptor, ttl: StateTtlConfig | None, now: int, handles: StateHandles | None) -> Any:
        # Each on a machine of its own: in a database that stays, the life of "a" would have begun at 100.
        here = replace(backend, directory=f"{backend.directory}/{now}")
        subtask = SubtaskState(open_files(tmp_path), "v", 0, backend=here)
        subtask.clock.now = now
        keyed = subtask.operator("op").keyed
        if ttl is not None:
            descriptor.enable_time_to_live(ttl)
        state = keyed.get_state(descriptor)
        subtask.open(handles)
        keyed.context.key = "k"
        return subtask, state

    subtask, state = start(MapStateDescriptor("m"), None, 0, None)
    state.put("a", 1)
    handles = subtask.snapshot(1, "a")
    subtask, state = start(MapStateDescriptor("m"), config(), 100, handles)
    state.put("b", 2)
    subtask.clock.now = 105
    state.put("c", 3)
    handles = subtask.snapshot(2, "a")
    subtask, state = start(MapStateDescriptor("m"), config(), 112, handles)
    assert state.items() == [("a", 1), ("c", 3)]  # "a" has no stamp in its file: its life began at 112
    _, state = start(MapStateDescriptor("m"), None, 1000, handles)
    assert state.items() == [("a", 1), ("b", 2), ("c", 3)]
