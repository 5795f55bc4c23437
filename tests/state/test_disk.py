"""State on disk: what the database holds and when, and which files a checkpoint of it has."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common.typeinfo import Types
from millrace.common.types import Row
from millrace.state import (
    BackendSpec,
    ListStateDescriptor,
    MapStateDescriptor,
    StateCorruptedError,
    StateDescriptor,
    StateHandles,
    StateTtlConfig,
    StateTypeError,
    SubtaskState,
    ValueStateDescriptor,
    open_files,
)
from millrace.state import subtask as module
from millrace.state.disk_keys import identity

LONG = Types.LONG()


class OnDisk:
    """A subtask with one state, in a process of its own."""

    def __init__(self, root: Path, descriptor: StateDescriptor | None = None, local: str = "local") -> None:
        spec = BackendSpec("rocksdb", str(root / local), lock_timeout=0.05)
        self.database = root / local / "v" / "0"
        self.state = SubtaskState(open_files(root / "job"), "v", 0, backend=spec)
        backends = self.state.operator("op", Types.STRING())
        self.keyed, self.timers = backends.keyed, backends.timers.event
        self.n = self.keyed.get_state(descriptor or ValueStateDescriptor("n", LONG))

    def at(self, key: str) -> Any:
        self.keyed.context.key = key
        return self.n

    def epoch(self, number: int, handles: StateHandles, attempt: str = "a", **values: int) -> StateHandles:
        self.state.open(handles)
        for key, value in values.items():
            self.at(key).update(value)
        return self.state.snapshot(number, attempt)

    def read(self, handles: StateHandles, *keys: str) -> list[Any]:
        self.state.open(handles)
        found = [self.at(key).value() for key in keys]
        self.state.release()
        return found


def many(count: int, value: int = 0) -> dict[str, int]:
    return {f"key-{n}": value + n for n in range(count)}


@pytest.fixture
def small_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SMALL_BASE", 0)


def test_a_snapshot_that_no_manifest_names_leaves_no_trace_in_the_database(tmp_path: Path) -> None:
    first = OnDisk(tmp_path)
    handles = first.epoch(1, StateHandles(), x=1)
    first.epoch(2, handles, "lost", x=99, y=99)
    other = OnDisk(tmp_path)
    assert other.read(handles, "x", "y") == [1, None]
    assert first.read(handles, "x", "y") == [1, None]


@pytest.mark.usefixtures("small_bases")
def test_files_of_the_database_that_did_not_change_are_named_again_and_not_written_again(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(1, StateHandles(), **many(20_000))
    bases = []
    for number in range(2, 60):
        handles = process.epoch(number, handles, **many(400, number))
        if handles.files[-1].kind == "base":
            bases.append(handles)
    shared = {handle.path for handle in bases[0].database} & {handle.path for handle in bases[1].database}
    assert shared
    assert all(path.endswith(".sst") for path in shared)
    fresh = OnDisk(tmp_path, local="elsewhere")
    assert fresh.read(handles, "key-0", "key-399", "key-19999") == [59, 458, 19_999]


@pytest.mark.usefixtures("small_bases")
def test_the_two_newest_checkpoints_stay_within_three_times_the_state(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(0, StateHandles(), **many(20_000))
    live = handles.size
    for number in range(1, 60):
        before = {handle.path: handle.size for handle in handles.chain}
        touched = dict(list(many(20_000, number).items())[number % 20 :: 20])
        handles = process.epoch(number, handles, **touched)
        assert sum({**before, **{handle.path: handle.size for handle in handles.chain}}.values()) <= 3 * live


def test_a_process_whose_database_was_lost_rebuilds_it_from_the_files(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(1, StateHandles(), x=1)
    process.state._base_wanted = True
    handles = process.epoch(2, handles, y=2)
    handles = process.epoch(3, handles, z=3)
    shutil.rmtree(process.database / "db")
    assert process.read(handles, "x", "y", "z") == [1, 2, 3]


def test_a_database_that_cannot_be_read_is_no_loss(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(1, StateHandles(), x=1)
    process.read(handles)
    (process.database / "db" / "CURRENT").write_bytes(b"nonsense")
    assert process.read(handles, "x") == [1]


def test_a_process_that_keeps_the_database_open_does_not_stop_another_one(tmp_path: Path) -> None:
    zombie, process = OnDisk(tmp_path), OnDisk(tmp_path)
    handles = zombie.epoch(1, StateHandles(), x=1)
    zombie.state.open(handles)
    zombie.at("x").value()  # and hangs here, with the database open
    handles = process.epoch(2, handles, x=2)
    assert process.read(handles, "x") == [2]
    assert zombie.at("x").value() == 1
    zombie.at("x").update(99)
    zombie.state.snapshot(2, "late")
    assert OnDisk(tmp_path).read(handles, "x") == [2]


@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_file_of_a_database_is_named(tmp_path: Path, damage: str) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(1, StateHandles(), x=1)
    process.state._base_wanted = True
    handles = process.epoch(2, handles, y=2)
    victim = tmp_path / "job" / next(handle.path for handle in handles.database if handle.path.endswith(".sst"))
    victim.write_bytes(victim.read_bytes()[:-1]) if damage == "cut" else victim.unlink()
    with pytest.raises(StateCorruptedError, match=r"@\d+\.sst"):
        OnDisk(tmp_path, local="elsewhere").read(handles, "x")


def test_a_forged_handle_cannot_put_a_file_elsewhere(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(1, StateHandles(), x=1)
    process.state._base_wanted = True
    handles = process.epoch(2, handles, y=2)
    forged = replace(handles.chain[0], path=handles.chain[0].path.partition("@")[0] + "@../evil")
    with pytest.raises(StateCorruptedError, match="no file of a database"):
        OnDisk(tmp_path, local="elsewhere").read(StateHandles((forged, *handles.chain[1:])))


def test_an_epoch_that_touches_nothing_on_disk_does_not_open_the_database(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    handles = process.epoch(1, StateHandles(), x=1)
    handles = process.epoch(2, handles)
    shutil.rmtree(process.database)
    process.state.open(handles)
    process.timers.add("x", None, 5)  # timers are in memory
    handles = process.state.snapshot(3, "a")
    assert not process.database.exists()
    assert process.read(handles, "x") == [1]


def test_an_entry_of_a_large_map_is_read_and_written_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = OnDisk(tmp_path, MapStateDescriptor("m", LONG, LONG))
    process.state.open(None)
    process.at("k").put_all({n: n for n in range(30_000)})
    handles = process.state.snapshot(1, "a")
    process.state.open(handles)
    monkeypatch.setattr("millrace.state.disk_maps.DiskEntries._whole", lambda self: pytest.fail("read whole"))
    state = process.at("k")
    state.put(5, -5)
    state.remove(7)
    state.put(7, -7)
    assert (state.get(29_999), state.contains(30_000), state.is_empty()) == (29_999, False, False)
    delta = process.state.snapshot(2, "a").chain[-1]
    assert delta.size < 1000


def test_a_map_keeps_the_order_of_its_insertions_over_epochs(tmp_path: Path) -> None:
    process, handles = OnDisk(tmp_path, MapStateDescriptor("m", LONG, LONG)), StateHandles()
    expected: dict[int, int] = {}
    for number, (put, removed) in enumerate([([9, 1, 5], []), ([7, 1], [9]), ([9, 3], [1]), ([1], [])]):
        process.state.open(handles)
        for entry in removed:
            process.at("k").remove(entry)
            del expected[entry]
        process.at("k").put_all(dict.fromkeys(put, number))
        expected.update(dict.fromkeys(put, number))
        assert list(process.n.items()) == list(expected.items())
        handles = process.state.snapshot(number, "a")
    fresh = OnDisk(tmp_path, MapStateDescriptor("m", LONG, LONG), local="elsewhere")
    fresh.state.open(handles)
    assert list(fresh.at("k").items()) == list(expected.items())


def test_what_is_appended_to_a_long_list_is_written_alone(tmp_path: Path) -> None:
    process = OnDisk(tmp_path, ListStateDescriptor("l", LONG))
    process.state.open(None)
    process.at("k").add_all(range(20_000))
    handles = process.state.snapshot(1, "a")
    process.state.open(handles)
    process.at("k").add(-1)
    handles = process.state.snapshot(2, "a")
    assert handles.chain[-1].size < 1000
    process.state.open(handles)
    assert process.at("k").get() == [*range(20_000), -1]


def test_a_database_of_a_narrower_type_is_rewritten_and_one_of_another_kind_refused(tmp_path: Path) -> None:
    handles = OnDisk(tmp_path).epoch(1, StateHandles(), x=1)
    OnDisk(tmp_path).read(handles)
    wider = OnDisk(tmp_path, ValueStateDescriptor("n", Types.DOUBLE()))
    assert type(wider.read(handles, "x")[0]) is float
    with pytest.raises(StateTypeError, match="written as value state, and the program declares list state"):
        OnDisk(tmp_path, ListStateDescriptor("n", LONG)).state.open(handles)


def test_expired_entries_leave_a_database_without_being_asked_for(tmp_path: Path) -> None:
    descriptor = MapStateDescriptor("m", LONG, LONG)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(10).build())
    process, handles = OnDisk(tmp_path, descriptor), StateHandles()
    process.state.open(handles)
    process.at("k").put_all({n: n for n in range(2500)})
    handles = process.state.snapshot(0, "a")
    for number in range(1, 6):
        process.state.open(handles)
        process.state.clock.now = 10
        handles = process.state.snapshot(number, "a")
    process.state.open(handles)
    assert process.keyed.count("m") == 0


def test_counts_of_states_on_disk_are_not_known(tmp_path: Path) -> None:
    process = OnDisk(tmp_path)
    process.epoch(1, StateHandles(), x=1)
    assert [meta.entries for meta in process.state.describe()["op"]] == [0, 0, -1]


# -- keys ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    x: int
    y: float


class Color(Enum):
    RED = 1
    BLUE = 2


KEYS = st.recursive(
    st.one_of(
        st.integers(-(2**70), 2**70),
        st.integers(-3, 3),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False),
        st.sampled_from([0.0, -0.0, 0.5, Decimal("0.5"), Decimal("1.0"), Fraction(1, 2), Fraction(1, 3), 1 + 0j, 2j]),
        st.text(),
        st.binary(),
        st.uuids(),
        st.datetimes(),
        st.dates(),
        st.timedeltas(),
        st.sampled_from(Color),
        st.builds(Point, st.integers(0, 2), st.sampled_from([0.0, 1.0])),
        st.builds(Row, st.integers(0, 2), st.text(max_size=1)),
    ),
    lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=2)),
    max_leaves=4,
)


@given(left=KEYS, right=KEYS)
def test_keys_are_equal_exactly_where_their_bytes_are(left: Any, right: Any) -> None:
    assert (identity(left) == identity(right)) == (left == right)


def test_the_same_moment_in_two_zones_is_one_key() -> None:
    here = datetime(2024, 1, 1, 12, tzinfo=UTC)
    there = here.astimezone(timezone(timedelta(hours=2)))
    assert identity(here) == identity(there)
    assert identity(here) != identity(here.replace(tzinfo=None))
    assert identity(UUID(int=1)) != identity(1)


def test_a_reader_in_memory_opens_what_a_job_on_disk_has_left(tmp_path: Path) -> None:
    files = open_files(tmp_path / "job")
    on_disk = SubtaskState(files, "1", 0, backend=BackendSpec("rocksdb", str(tmp_path / "local")))
    total = on_disk.operator("sum", Types.LONG()).keyed.get_state(ValueStateDescriptor("total", Types.LONG()))
    handles = StateHandles()
    for epoch in range(1, 6):
        on_disk.open(handles)
        on_disk._base_wanted = epoch == 3
        for key in range(epoch):
            on_disk.operator("sum").keyed.context.key = key
            total.update((total.value() or 0) + 1)
        handles = on_disk.snapshot(epoch, "a")
    assert handles.database
    in_memory = SubtaskState(files, "1", 0)
    copy = in_memory.operator("sum", Types.LONG()).keyed.get_state(ValueStateDescriptor("total", Types.LONG()))
    in_memory.open(handles)
    found = {}
    for key in range(6):
        in_memory.operator("sum").keyed.context.key = key
        found[key] = copy.value()
    assert found == {0: 5, 1: 4, 2: 3, 3: 2, 4: 1, 5: None}
