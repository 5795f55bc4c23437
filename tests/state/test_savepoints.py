"""Savepoints: written by one backend, into another directory, and read by either."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millrace.common.typeinfo import DataclassTypeInfo, Types
from millrace.state import (
    BackendSpec,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateHandles,
    StatePickleError,
    StateTtlConfig,
    SubtaskState,
    ValueStateDescriptor,
    key_group,
    key_group_range,
    open_files,
    subtask_of,
)
from millrace.state import savepoints as module

GROUPS = 16
KEYS = list(range(200))
LONG = Types.LONG()
KINDS = ["hashmap", "rocksdb"]


@dataclass
class Account:
    owner: str


def backend(kind: str, root: Path) -> BackendSpec:
    return BackendSpec() if kind == "hashmap" else BackendSpec("rocksdb", str(root / "local"), lock_timeout=0)


class Job:
    """One subtask of a job with a directory of its own, and every kind of state."""

    def __init__(self, root: Path, kind: str, index: int = 0, *, uids: tuple[str, ...] = ("a", "b")) -> None:
        self.root = root
        self.state = SubtaskState(open_files(root / "job"), "v", index, backend=backend(kind, root))
        self.operators = {uid: self.states_of(uid) for uid in uids}

    def states_of(self, uid: str) -> Any:
        lasting = ListStateDescriptor("l", LONG)
        lasting.enable_time_to_live(StateTtlConfig.new_builder(1000).build())
        backends = self.state.operator(uid, LONG, Types.STRING())
        get = backends.keyed.get_state
        windows = ReducingStateDescriptor("w", lambda left, right: left + right, LONG)
        keyed = [
            get(ValueStateDescriptor("v", LONG)),
            get(lasting),
            get(MapStateDescriptor("m", LONG, LONG)),
            get(windows, namespaced=True, namespace_type=Types.STRING()),
        ]
        items = backends.operator.get_list_state(ListStateDescriptor("items", LONG))
        return backends, keyed, items

    def fill(self, owns: Any = lambda key: True) -> None:
        for backends, (value, items, entries, windows), numbers in self.operators.values():
            for key in filter(owns, KEYS):
                backends.keyed.context.key = key
                value.update(key)
                items.add_all([key, key + 1])
                entries.put_all({key: 1, 0: 2})
                windows.set_namespace("w")
                windows.add(key)
                backends.timers.event.add(key, "w", key)
            numbers.add(1)

    def change(self, owns: Any = lambda key: True) -> None:
        for backends, (value, items, entries, windows), _ in self.operators.values():
            for key in filter(owns, KEYS[::7]):
                backends.keyed.context.key = key
                value.clear()
                items.add(-1)
                entries.remove(0)
                windows.set_namespace("other")
                windows.add(1)

    def seen(self, uid: str, key: int) -> list[Any]:
        backends, (value, items, entries, windows), _ = self.operators[uid]
        backends.keyed.context.key = key
        reduced = []
        for namespace in ("w", "other"):
            windows.set_namespace(namespace)
            reduced.append(windows.get())
        timers = [timer[0] for timer in backends.timers.event.timers_of(key)]
        return [value.value(), items.get(), list(entries.items()), reduced, timers]


NOTHING = [None, [], [], [None, None], []]


def expected(key: int) -> list[Any]:
    entries = {key: 1, 0: 2}
    if key % 7:
        return [key, [key, key + 1], list(entries.items()), [key, None], [key]]
    entries.pop(0)
    return [None, [key, key + 1, -1], list(entries.items()), [key, 1], [key]]


def run(job: Job, owns: Any = lambda key: True) -> StateHandles:
    job.state.open(None)
    job.fill(owns)
    handles = job.state.snapshot(1, "a")
    job.state.open(handles)
    job.state._base_wanted = True
    handles = job.state.snapshot(2, "a")
    job.state.open(handles)
    job.change(owns)
    return job.state.snapshot(3, "a")


def everywhere(_uid: str) -> tuple[range, int]:
    return range(GROUPS), GROUPS


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 150)
    monkeypatch.setattr("millrace.state.disk_reading.CHUNK", 150)


@pytest.mark.parametrize("old", KINDS)
def test_a_savepoint_is_read_by_the_plain_reader_and_needs_nothing_else(tmp_path: Path, old: str) -> None:
    job = Job(tmp_path / "old", old)
    run(job)
    handles = job.state.write_savepoint(open_files(tmp_path / "savepoint"), 7, "run.1")
    kinds = [handle.kind for handle in handles.chain]
    assert kinds == ["base", *["delta"] * (len(kinds) - 1)]
    assert len(kinds) > 5
    (tmp_path / "new").mkdir()
    (tmp_path / "savepoint").rename(tmp_path / "new" / "job")
    copy = Job(tmp_path / "new", "hashmap")
    copy.state.open(handles)
    assert [copy.seen("b", key) for key in KEYS] == [expected(key) for key in KEYS]


@pytest.mark.parametrize("claimed_first", [True, False])
@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_a_checkpoint_or_savepoint_of_any_backend_is_restored_by_any(
    tmp_path: Path, old: str, new: str, claimed_first: bool
) -> None:
    jobs = [Job(tmp_path / f"old-{index}", old, index) for index in range(2)]
    chains = []
    for index, job in enumerate(jobs):
        run(job, lambda key, index=index: subtask_of(key_group(key, GROUPS), 2, GROUPS) == index)
        chains.append(job.state.write_savepoint(open_files(tmp_path / "savepoint"), 7, "s"))
    for index in range(3):
        subtask = Job(tmp_path / f"new-{index}", new, index, uids=("a", "b") if claimed_first else ())
        subtask.state.restore_rescaled(
            chains,
            lambda _, index=index: (key_group_range(index, 3, GROUPS), GROUPS),
            3,
            files=open_files(tmp_path / "savepoint"),
        )
        if not claimed_first:
            subtask.operators = {uid: subtask.states_of(uid) for uid in ("a", "b")}
        own = [key for key in KEYS if subtask_of(key_group(key, GROUPS), 3, GROUPS) == index]
        for key in KEYS:
            assert subtask.seen("a", key) == (expected(key) if key in own else NOTHING)
        handles = subtask.state.snapshot(1, "b")
        assert handles.files[0].kind == "base"
        subtask.state.open(handles)
        fresh = Job(tmp_path / f"fresh-{index}", new, index)
        fresh.state._files = open_files(tmp_path / f"new-{index}" / "job")
        fresh.state.open(handles)
        assert [fresh.seen("b", key) for key in own] == [expected(key) for key in own]


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_a_checkpoint_is_restored_from_the_directory_of_the_old_job(tmp_path: Path, old: str, new: str) -> None:
    chain = run(Job(tmp_path / "old", old))
    assert bool(chain.database) == (old == "rocksdb")
    job = Job(tmp_path / "new", new)
    job.state.restore_rescaled([chain], everywhere, 1, files=open_files(tmp_path / "old" / "job"))
    assert [job.seen("a", key) for key in KEYS] == [expected(key) for key in KEYS]


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_only_the_operators_that_are_named_are_restored(tmp_path: Path, old: str, new: str) -> None:
    chain = run(Job(tmp_path / "old", old))
    job = Job(tmp_path / "new", new)
    job.state.restore_rescaled([chain], everywhere, 1, files=open_files(tmp_path / "old" / "job"), uids={"b"})
    assert job.seen("a", 1) == NOTHING
    assert job.seen("b", 1) == expected(1)
    assert [job.operators[uid][2].get() for uid in "ab"] == [[], [1]]


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_that_fails_after_a_restore_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    chain = run(Job(tmp_path / "old", kind))
    job = Job(tmp_path / "new", kind)
    for _ in range(2):
        job.state.restore_rescaled([chain], everywhere, 1, files=open_files(tmp_path / "old" / "job"))
        job.operators["a"][0].keyed.context.key = 1
        job.operators["a"][1][0].update(99)
    job.state.restore_rescaled([chain], everywhere, 1, files=open_files(tmp_path / "old" / "job"))
    assert job.seen("a", 1) == expected(1)


@pytest.mark.parametrize("kind", KINDS)
def test_state_that_nobody_asks_for_is_in_the_savepoint_too(tmp_path: Path, kind: str) -> None:
    chain = run(Job(tmp_path / "old", kind))
    forgetful = SubtaskState(open_files(tmp_path / "old" / "job"), "v", 0, backend=backend(kind, tmp_path / "other"))
    forgetful.open(chain)
    forgetful.snapshot(4, "a")
    saved = forgetful.write_savepoint(open_files(tmp_path / "savepoint"), 4, "a")
    job = Job(tmp_path / "new", "hashmap")
    job.state.restore_rescaled([saved], everywhere, 1, files=open_files(tmp_path / "savepoint"))
    assert [job.seen("a", key) for key in KEYS] == [expected(key) for key in KEYS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickle_from_elsewhere_is_refused_even_by_a_job_that_trusts_its_own(tmp_path: Path, kind: str) -> None:
    untyped = ValueStateDescriptor("n")
    old = SubtaskState(open_files(tmp_path / "old"), "v", 0, allow_pickle=True)
    keyed = old.operator("op", Types.STRING()).keyed
    old.open(None)
    keyed.context.key = "x"
    keyed.get_state(untyped).update({"any": Account("ann")})
    chain = old.snapshot(1, "a")
    new = SubtaskState(open_files(tmp_path / "new"), "v", 0, allow_pickle=True, backend=backend(kind, tmp_path))
    arguments: Any = ([chain], everywhere, 1)
    with pytest.raises(StatePickleError, match="state 'n' of operator 'op'"):
        new.restore_rescaled(*arguments, files=open_files(tmp_path / "old"), allow_pickle=False)
    new.restore_rescaled(*arguments, files=open_files(tmp_path / "old"), allow_pickle=True)
    keyed = new.operator("op", Types.STRING()).keyed
    keyed.context.key = "x"
    assert keyed.get_state(untyped).value() == {"any": Account("ann")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_the_program_declares_needs_no_trust(tmp_path: Path, kind: str) -> None:
    descriptor = ValueStateDescriptor("n", DataclassTypeInfo(Account, ["owner"], [Types.STRING()], [False]))
    old = SubtaskState(open_files(tmp_path / "old"), "v", 0)
    keyed = old.operator("op", Types.STRING()).keyed
    old.open(None)
    keyed.context.key = "x"
    keyed.get_state(descriptor).update(Account("ann"))
    chain = old.snapshot(1, "a")
    new = SubtaskState(open_files(tmp_path / "new"), "v", 0, allow_pickle=True, backend=backend(kind, tmp_path))
    new.restore_rescaled([chain], everywhere, 1, files=open_files(tmp_path / "old"), allow_pickle=False)
    keyed = new.operator("op", Types.STRING()).keyed
    state = keyed.get_state(descriptor)  # asked for when the state is there already
    keyed.context.key = "x"
    assert state.value() == Account("ann")
    handles = new.snapshot(1, "b")
    new.open(handles)
    assert state.value() == Account("ann")
