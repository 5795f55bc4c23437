"""One subtask's state over epochs: which files it writes, and how another process catches up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common.typeinfo import Types
from millrace.state import (
    BackendSpec,
    ListStateDescriptor,
    MapStateDescriptor,
    StateCorruptedError,
    StateDescriptor,
    StateDescriptorError,
    StateEncodingError,
    StateHandles,
    StatePickleError,
    StateTypeError,
    SubtaskState,
    ValueStateDescriptor,
    open_files,
)
from millrace.state import subtask as module


@dataclass
class Account:
    owner: str
    balance: int


class Counts:
    """A subtask that counts per key."""

    def __init__(
        self,
        root: Path,
        backend: BackendSpec,
        descriptor: StateDescriptor | None = None,
        *,
        allow_pickle: bool = False,
    ) -> None:
        self.state = SubtaskState(open_files(root), "count", 3, allow_pickle=allow_pickle, backend=backend)
        self.descriptor = descriptor or ValueStateDescriptor("n", Types.LONG())
        self.keyed = self.state.operator("op", Types.STRING()).keyed
        self.n = self.keyed.get_state(self.descriptor)

    def epoch(self, number: int, handles: StateHandles | None, attempt: str = "a", **values: Any) -> StateHandles:
        self.state.open(handles)
        for key, value in values.items():
            self.keyed.context.key = key
            self.n.update(value)
        return self.state.snapshot(number, attempt)

    def read(self, key: str) -> Any:
        self.keyed.context.key = key
        return self.n.value()


def kinds(handles: StateHandles) -> list[str]:
    return [handle.kind for handle in handles.chain]


def test_the_first_file_is_a_base_and_names_epoch_and_attempt(tmp_path: Path, backend: BackendSpec) -> None:
    handles = Counts(tmp_path, backend).epoch(7, None, "run1.42", x=1)
    assert [handle.path for handle in handles.chain] == ["state/count/3/7-run1.42.base"]
    assert handles.chain[0].size == (tmp_path / handles.chain[0].path).stat().st_size


def test_an_epoch_without_changes_writes_no_file(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    assert counts.epoch(1, None) == StateHandles()
    handles = counts.epoch(2, StateHandles(), x=1)
    assert counts.epoch(3, handles) == handles
    assert counts.epoch(4, handles, y=None) == handles  # removing what is not there is no change
    assert len(list(tmp_path.rglob("*.*"))) == 1


def test_a_delta_holds_what_the_epoch_touched(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    handles = counts.epoch(1, None, **{f"key-{n}": n for n in range(5000)})
    handles = counts.epoch(2, handles, x=1)
    assert kinds(handles) == ["base", "delta"]
    assert handles.chain[1].size < 1000 < handles.chain[0].size


def test_two_processes_in_turn_catch_up_by_the_deltas_that_they_lack(tmp_path: Path, backend: BackendSpec) -> None:
    first, second = Counts(tmp_path, backend), Counts(tmp_path, backend)
    handles = first.epoch(1, None, x=1)
    handles = second.epoch(2, handles, x=2, y=2)
    assert second.state.last_open == "rebuilt"
    handles = second.epoch(3, handles, y=3)
    assert second.state.last_open == "kept"
    handles = first.epoch(4, handles)
    assert first.state.last_open == "caught up"
    assert (first.read("x"), first.read("y")) == (2, 3)


def test_what_an_attempt_without_a_snapshot_did_is_thrown_away(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend, ValueStateDescriptor("n", Types.LIST(Types.LONG())))
    handles = counts.epoch(1, None, x=[1])
    counts.state.open(handles)
    counts.read("x").append(2)  # in place: the copy in memory is spoilt, too
    counts.keyed.context.key = "y"
    counts.n.update([9])
    counts.state.open(handles)
    assert counts.state.last_open == "rebuilt"
    assert (counts.read("x"), counts.read("y")) == ([1], None)


def test_a_snapshot_that_the_manifest_does_not_name_is_thrown_away(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    handles = counts.epoch(1, None, x=1)
    counts.epoch(2, handles, "lost", x=99)
    assert counts.epoch(2, handles, "won", y=2).version == (2, "won")
    assert (counts.read("x"), counts.read("y")) == (1, 2)


def test_going_back_to_no_state_forgets_everything(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    counts.epoch(1, None, x=1)
    assert counts.state.open(None) is False
    assert counts.read("x") is None


def test_a_new_base_is_written_when_the_deltas_outgrow_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SMALL_BASE", 100)
    counts, handles, seen = Counts(tmp_path, BackendSpec()), StateHandles(), []
    for epoch in range(12):
        handles = counts.epoch(epoch, handles, x=epoch)
        seen.append(kinds(handles)[-1])
        assert handles.size <= 4 * handles.chain[0].size
    assert seen.count("base") >= 3


def test_many_small_deltas_are_merged_without_writing_a_large_base_again(tmp_path: Path, backend: BackendSpec) -> None:
    writer, reader = Counts(tmp_path, backend), Counts(tmp_path, backend)
    handles = writer.epoch(0, None, **{f"key-{n}": n for n in range(50_000)})
    base = handles.chain[0]
    for epoch in range(1, 100):
        handles = writer.epoch(epoch, handles, x=epoch, **{f"new-{epoch}": epoch})
        assert len(handles.chain) <= 22
        assert handles.chain[0] == base
        if epoch % 15 == 0:
            # A copy whose version lies within a merged file goes on from there.
            reader.state.open(handles)
            reader.state.snapshot(1000 + epoch, "idle")
            assert reader.state.last_open == ("rebuilt" if epoch == 15 else "caught up")
            assert [reader.read("x"), reader.read("new-1"), reader.read("key-9")] == [epoch, 1, 9]
    assert "merged" in kinds(handles)


def test_a_delta_that_cannot_be_merged_any_more_gives_way_to_a_new_base(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    handles = counts.epoch(0, None, **{f"key-{n}": n for n in range(9000)})
    for epoch in range(1, 21):
        handles = counts.epoch(epoch, handles, x=epoch)
    (tmp_path / handles.chain[-1].path).unlink()
    handles = counts.epoch(21, handles, y=21)
    assert [handle.kind for handle in handles.files] == ["base"]
    fresh = Counts(tmp_path, backend)
    fresh.state.open(handles)
    assert (fresh.read("x"), fresh.read("y"), fresh.read("key-1")) == (20, 21, 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_file_is_recognised_and_the_file_named(
    tmp_path: Path, backend: BackendSpec, data: st.DataObject
) -> None:
    handles = Counts(tmp_path, backend).epoch(1, None, x=1, y=2)
    path = tmp_path / handles.chain[0].path
    whole = path.read_bytes()
    where = data.draw(st.integers(0, len(whole) - 1))
    damage = data.draw(st.sampled_from(["flip", "cut", "extend"]))
    flipped = whole[:where] + bytes([whole[where] ^ 1]) + whole[where + 1 :]
    path.write_bytes({"flip": flipped, "cut": whole[:where], "extend": whole + b"x"}[damage])
    with pytest.raises(StateCorruptedError, match=r"state/count/3/1-a\.base"):
        Counts(tmp_path, backend).state.open(handles)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True))
def test_damage_is_recognised_by_the_file_alone_too(tmp_path: Path, backend: BackendSpec, where: float) -> None:
    from millrace.state.delta import decode_file

    handles = Counts(tmp_path, backend).epoch(1, None, x=1, y=2)
    whole = bytearray((tmp_path / handles.chain[0].path).read_bytes())
    whole[int(where * len(whole))] ^= 0x40
    with pytest.raises(StateCorruptedError, match="some/path"):
        decode_file(bytes(whole), "some/path")


def test_a_missing_file_is_named(tmp_path: Path, backend: BackendSpec) -> None:
    handles = Counts(tmp_path, backend).epoch(1, None, x=1)
    (tmp_path / handles.chain[0].path).unlink()
    with pytest.raises(StateCorruptedError, match=r"1-a\.base: the file is missing"):
        Counts(tmp_path, backend).state.open(handles)


def test_after_a_damaged_file_the_same_copy_opens_an_older_version(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    old = counts.epoch(1, None, x=1)
    new = counts.epoch(2, old, x=2)
    (tmp_path / new.chain[-1].path).write_bytes(b"")
    other = Counts(tmp_path, backend)
    with pytest.raises(StateCorruptedError):
        other.state.open(new)
    other.state.open(old)
    assert other.read("x") == 1


def test_a_file_under_the_name_of_another_is_recognised(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    first = counts.epoch(1, None, x=1)
    second = counts.epoch(2, first, x=2)
    swapped = replace(first.chain[0], epoch=5)
    with pytest.raises(StateCorruptedError, match="other snapshots"):
        Counts(tmp_path, backend).state.open(StateHandles((swapped, *second.chain[1:])))


def test_a_handle_cannot_lead_out_of_the_directory(tmp_path: Path, backend: BackendSpec) -> None:
    handle = Counts(tmp_path / "job", backend).epoch(1, None, x=1).chain[0]
    for path in ("../job/" + handle.path, "/etc/passwd", "state/../../x"):
        with pytest.raises(Exception, match="leads out of the job's directory"):
            Counts(tmp_path / "job", backend).state.open(StateHandles((replace(handle, path=path),)))


def test_a_pickle_is_loaded_only_where_that_was_allowed(tmp_path: Path, backend: BackendSpec) -> None:
    untyped = ValueStateDescriptor("n")
    handles = Counts(tmp_path, backend, untyped).epoch(1, None, x={"any": Account("ann", 1)})
    with pytest.raises(StatePickleError, match="state 'n' of operator 'op'"):
        Counts(tmp_path, backend, untyped).state.open(handles)
    trusting = Counts(tmp_path, backend, untyped, allow_pickle=True)
    trusting.state.open(handles)
    assert trusting.read("x") == {"any": Account("ann", 1)}


@pytest.mark.parametrize("value", [1, "a", b"a", 1.5, True])
def test_plain_values_without_a_type_need_no_pickle(tmp_path: Path, backend: BackendSpec, value: Any) -> None:
    untyped = ValueStateDescriptor("n")
    handles = Counts(tmp_path, backend, untyped).epoch(1, None, x=value)
    reader = Counts(tmp_path, backend, untyped)
    reader.state.open(handles)
    assert reader.read("x") == value
    assert type(reader.read("x")) is type(value)


def test_a_dataclass_with_a_type_needs_no_pickle(tmp_path: Path, backend: BackendSpec) -> None:
    from millrace.common.typeinfo import DataclassTypeInfo

    account = DataclassTypeInfo(Account, ["owner", "balance"], [Types.STRING(), Types.LONG()], [False, False])
    handles = Counts(tmp_path, backend, ValueStateDescriptor("n", account)).epoch(1, None, x=Account("ann", 1))
    reader = Counts(tmp_path, backend, ValueStateDescriptor("n", account))
    reader.state.open(handles)
    assert reader.read("x") == Account("ann", 1)


def test_a_value_that_its_type_cannot_hold_fails_the_snapshot_with_the_reason(
    tmp_path: Path, backend: BackendSpec
) -> None:
    counts = Counts(tmp_path, backend)
    with pytest.raises(StateEncodingError, match="state 'n' of operator 'op': expected LONG, got str 'one'"):
        counts.epoch(1, None, x="one")
    assert counts.epoch(1, None, x=1).chain
    assert counts.read("x") == 1


def test_values_are_the_same_in_the_process_that_wrote_them_and_in_one_that_read_them(
    tmp_path: Path, backend: BackendSpec
) -> None:
    counts = Counts(tmp_path, backend, ValueStateDescriptor("n", Types.DOUBLE()))
    counts.epoch(1, None, x=1)
    assert type(counts.read("x")) is float


def test_state_of_a_wider_type_takes_over_what_was_written(tmp_path: Path, backend: BackendSpec) -> None:
    handles = Counts(tmp_path, backend).epoch(1, None, x=1)
    wider = Counts(tmp_path, backend, ValueStateDescriptor("n", Types.DOUBLE()))
    wider.state.open(handles)
    assert type(wider.read("x")) is float
    narrower = Counts(tmp_path, backend, ValueStateDescriptor("n", Types.LIST(Types.LONG())))
    with pytest.raises(StateTypeError, match="state 'n' of operator 'op'"):
        narrower.state.open(handles)


def test_state_of_another_kind_is_refused(tmp_path: Path, backend: BackendSpec) -> None:
    handles = Counts(tmp_path, backend).epoch(1, None, x=1)
    other = Counts(tmp_path, backend, ListStateDescriptor("n", Types.LONG()))
    with pytest.raises(StateTypeError, match="written as value state, and the program declares list state"):
        other.state.open(handles)


def test_state_that_nobody_asked_for_is_carried_into_new_bases(tmp_path: Path, backend: BackendSpec) -> None:
    handles = Counts(tmp_path, backend).epoch(1, None, x=1)
    handles = Counts(tmp_path, backend).epoch(2, handles, y=2)
    forgetful = SubtaskState(open_files(tmp_path), "count", 3, backend=backend)
    forgetful.open(handles)
    forgetful.operator("other").operator.get_list_state(ListStateDescriptor("l")).add(1)
    forgetful._base_wanted = True
    handles = forgetful.snapshot(3, "a")
    assert [handle.kind for handle in handles.files] == ["base"]
    late = Counts(tmp_path, backend)
    late.state.open(handles)
    assert (late.read("x"), late.read("y")) == (1, 2)


def test_state_that_is_asked_for_after_open_is_there(tmp_path: Path, backend: BackendSpec) -> None:
    handles = Counts(tmp_path, backend).epoch(1, None, x=1)
    state = SubtaskState(open_files(tmp_path), "count", 3, backend=backend)
    state.open(handles)
    keyed = state.operator("op", Types.STRING()).keyed
    keyed.context.key = "x"
    assert keyed.get_state(ValueStateDescriptor("n", Types.LONG())).value() == 1


def test_one_name_is_one_state(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    assert counts.keyed.get_state(ValueStateDescriptor("n", Types.LONG())) is counts.n
    for other in (ValueStateDescriptor("n", Types.STRING()), ListStateDescriptor("n", Types.LONG())):
        with pytest.raises(StateDescriptorError, match="asked for state 'n'"):
            counts.keyed.get_state(other)
    operator = counts.state.operator("op").operator
    operator.get_list_state(ListStateDescriptor("o", Types.LONG()))
    with pytest.raises(StateDescriptorError, match="asked for state 'o'"):
        operator.get_union_list_state(ListStateDescriptor("o", Types.LONG()))
    with pytest.raises(StateDescriptorError, match="asked for state 'o'"):
        operator.get_broadcast_state(MapStateDescriptor("o"))


def test_a_function_is_applied_to_every_key_that_has_state(tmp_path: Path, backend: BackendSpec) -> None:
    counts = Counts(tmp_path, backend)
    handles = counts.epoch(1, None, x=1, y=2, z=3)
    counts.state.open(handles)
    counts.keyed.context.key = "y"
    counts.n.clear()
    counts.keyed.apply_to_all(counts.descriptor, lambda key, state: state.update(state.value() * 10))
    assert counts.keyed.context.key == "y"
    assert [counts.read(key) for key in "xyz"] == [10, None, 30]
    assert (counts.keyed.keys("n"), counts.keyed.count("n")) == (["x", "z"], 2)
