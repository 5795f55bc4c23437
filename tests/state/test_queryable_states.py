"""Which states may be queried, and what checkpoints say about them."""

from __future__ import annotations

import msgspec
import pytest

from millrace.common.typeinfo import Types
from millrace.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorMeta,
    OperatorStateBackend,
    StateDescriptorError,
    StateMeta,
    StateTtlConfig,
    SubtaskState,
    ValueStateDescriptor,
)
from millrace.state.handles import read_state_file
from millrace.testing import MemoryFiles


def totals() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("total", Types.LONG())
    descriptor.set_queryable("totals")
    return descriptor


def test_checkpoint_says_which_state_answers_to_which_name() -> None:
    files = MemoryFiles()
    state = SubtaskState(files, "v", 0)
    keyed = state.operator("sum", Types.STRING()).keyed
    state.open(None)
    keyed.context.key = "a"
    keyed.get_state(totals()).update(1)
    keyed.get_state(ValueStateDescriptor("private", Types.LONG())).update(1)
    handles = state.snapshot(1, "a")
    described = {meta.name: meta.queryable for meta in state.describe()["sum"] if meta.section == "keyed"}
    assert described == {"total": "totals", "private": None}
    (part,) = read_state_file(files, handles.chain[0]).parts
    assert {f.meta["name"]: f.meta.get("queryable") for f in part.fragments} == described


def test_state_can_be_made_queryable_between_two_runs() -> None:
    files = MemoryFiles()
    before = SubtaskState(files, "v", 0)
    keyed = before.operator("sum", Types.STRING()).keyed
    before.open(None)
    keyed.context.key = "a"
    keyed.get_state(ValueStateDescriptor("total", Types.LONG())).update(5)
    handles = before.snapshot(1, "a")
    after = SubtaskState(files, "v", 0)
    after.open(handles)
    keyed = after.operator("sum", Types.STRING()).keyed
    keyed.context.key = "a"
    assert keyed.get_state(totals()).value() == 5


def test_manifest_from_before_there_were_queries_is_read() -> None:
    written = msgspec.json.encode({"uid": "u", "vertex": "v", "parallelism": 1, "max_parallelism": 128, "states": [
        {"name": "n", "section": "keyed", "kind": "value"}
    ]})  # fmt: skip
    assert msgspec.json.decode(written, type=OperatorMeta).states == [StateMeta("n", "keyed", "value")]


@pytest.mark.parametrize("name", ["", None, 3])
def test_name_to_query_by_is_a_string(name: str) -> None:
    with pytest.raises(ValueError, match="non-empty string"):
        ValueStateDescriptor("total").set_queryable(name)


def test_second_name_is_refused_and_the_same_again_is_not() -> None:
    descriptor = totals()
    descriptor.set_queryable("totals")
    with pytest.raises(StateDescriptorError, match=r"queried as 'totals', and now as 'sums'\nAction: "):
        descriptor.set_queryable("sums")


def test_time_to_live_and_queries_exclude_each_other() -> None:
    ttl = StateTtlConfig.new_builder(1000).build()
    with pytest.raises(StateDescriptorError, match=r"'total' has a time to live.*\nAction: "):
        totals().enable_time_to_live(ttl)
    expiring = ValueStateDescriptor("total")
    expiring.enable_time_to_live(ttl)
    with pytest.raises(StateDescriptorError, match="has a time to live"):
        expiring.set_queryable("totals")


def test_operator_state_cannot_be_queried() -> None:
    backend = OperatorStateBackend("source")
    for descriptor, ask in [
        (ListStateDescriptor("offsets"), backend.get_list_state),
        (ListStateDescriptor("offsets"), backend.get_union_list_state),
        (MapStateDescriptor("rules"), backend.get_broadcast_state),
    ]:
        descriptor.set_queryable("q")
        with pytest.raises(StateDescriptorError, match=r"cannot be queried\nAction: .*only keyed state"):
            ask(descriptor)
