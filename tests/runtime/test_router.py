"""The sending end of an exchange: which record goes where, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.graph.job_graph import OutEdge
from millrace.graph.partitioning import (
    Broadcast,
    Custom,
    Forward,
    Global,
    KeyGroups,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.router import LANE_RECORDS, Outbox, make_router
from millrace.runtime.rows import SEQ_END, Buffer, Row, decode_buffer
from millrace.state.key_groups import key_group, subtask_of

MAX = 128


def edge(partitioning: Partitioning, targets: int) -> OutEdge:
    return OutEdge(
        source_node=1, tag=None, target_vertex=2, target_level=1, target_parallelism=targets, target_slot=0,
        target_max_parallelism=MAX, partitioning=partitioning, channel=0,
    )


def send(
    partitioning: Partitioning, targets: int, *batches: Batch, subtask: int = 0, senders: int = 1, epoch: int = 1,
    batch_mode: bool = False,
) -> list[Row]:
    """What a sender puts out for these batches at one place, and the end of the epoch."""
    router = make_router(edge(partitioning, targets), subtask, senders, batch_mode)
    outbox = Outbox(attempt=1)
    router.begin(outbox, epoch)
    outbox.move_to(0, 0)
    for batch in batches:
        router.emit(batch)
    router.flush()
    outbox.move_to(SEQ_END, 0)
    router.watermark(1000)
    return outbox.take()


def received(rows: list[Row], targets: int) -> list[list[Any]]:
    """The values that each target gets, in the order in which it reads them."""
    shares: list[list[Any]] = [[] for _ in range(targets)]
    for row in sorted(rows, key=lambda row: (row.seq, row.rank)):
        shares[row.slot] += decode_buffer(row.payload).values
    return shares


def buffers(rows: list[Row], target: int) -> list[Buffer]:
    ordered = sorted(rows, key=lambda row: (row.seq, row.rank))
    return [decode_buffer(row.payload) for row in ordered if row.slot == target]


def identity(value: Any) -> Any:
    return value


# --- where records go -------------------------------------------------------------------------------------------


def test_forward_goes_to_the_subtask_of_the_same_index() -> None:
    assert received(send(Forward(), 3, Batch([1, 2]), subtask=1, senders=3), 3) == [[], [1, 2], []]


def test_global_goes_to_the_first_subtask() -> None:
    assert received(send(Global(), 3, Batch([1, 2]), subtask=2, senders=3), 3) == [[1, 2], [], []]


def test_broadcast_goes_to_every_subtask_and_is_encoded_once() -> None:
    rows = send(Broadcast(), 3, Batch([1, 2]))
    assert received(rows, 3) == [[1, 2]] * 3
    assert len({id(row.payload) for row in rows if row.seq == 0}) == 1


@pytest.mark.parametrize("targets", [1, 2, 5, 128])
def test_a_key_goes_to_the_subtask_that_owns_its_key_group(targets: int) -> None:
    keys = [f"key {number}" for number in range(200)]
    shares = received(send(KeyGroups(identity), targets, Batch(keys), Batch(keys)), targets)
    for target, share in enumerate(shares):
        assert share[: len(share) // 2] == share[len(share) // 2 :]
        assert all(subtask_of(key_group(key, MAX), targets, MAX) == target for key in share)
    assert sorted(key for share in shares for key in share) == sorted(keys * 2)


@pytest.mark.parametrize(("count", "targets"), [(10, 3), (2, 5), (1000, 7), (0, 2)])
def test_rebalance_is_even_and_keeps_the_order(count: int, targets: int) -> None:
    shares = received(send(Rebalance(), targets, Batch(list(range(count)))), targets)
    assert [value for share in shares for value in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_single_records_that_are_rebalanced_at_one_place_keep_their_order() -> None:
    singles = [Batch([number]) for number in range(10)]
    shares = received(send(Rebalance(), 3, *singles), 3)
    assert [value for share in shares for value in share] == list(range(10))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_odd_records_are_dealt_to_other_subtasks_from_place_to_place() -> None:
    router = make_router(edge(Rebalance(), 3), 0, 1, batch=False)
    outbox = Outbox()
    router.begin(outbox, 1)
    for seq in range(6):
        outbox.move_to(seq, 0)
        router.emit(Batch([seq]))
        router.flush()
    assert sorted(len(share) for share in received(outbox.take(), 3)) == [2, 2, 2]


@pytest.mark.parametrize(
    ("senders", "targets", "neighbours"),
    [(2, 4, [{0, 1}, {2, 3}]), (4, 2, [{0}, {0}, {1}, {1}]), (3, 3, [{0}, {1}, {2}]), (2, 3, [{0, 1}, {2}])],
)
def test_rescale_reaches_its_neighbours_only(senders: int, targets: int, neighbours: list[set[int]]) -> None:
    for subtask in range(senders):
        rows = send(Rescale(), targets, Batch(list(range(12))), subtask=subtask, senders=senders)
        shares = received(rows, targets)
        assert {target for target, share in enumerate(shares) if share} == neighbours[subtask]
        assert [value for share in shares for value in share] == list(range(12))


@pytest.mark.parametrize("size", [1, 7, 1000], ids="batches of {}".format)
def test_shuffle_is_roughly_even_whatever_the_size_of_the_batches(size: int) -> None:
    batches = [Batch(list(range(first, first + size))) for first in range(0, 3000, size)]
    shares = received(send(Shuffle(), 3, *batches), 3)
    assert sum(map(len, shares)) == sum(map(len, batches))
    assert all(850 < len(share) < 1150 for share in shares)


@pytest.mark.parametrize("partitioning", [Shuffle(), Rebalance(), Rescale()], ids=lambda value: value.name)
def test_an_attempt_that_is_run_again_deals_out_the_same(partitioning: Partitioning) -> None:
    router = make_router(edge(partitioning, 3), 0, 1, batch=False)
    made = []
    for attempt in range(2):
        outbox = Outbox(attempt=1)
        router.begin(outbox, 7)
        outbox.move_to(0, 0)
        router.emit(Batch(list(range(10))))
        router.flush()
        router.emit(Batch([10, 11]))
        if attempt:  # The first attempt fails with records in its lanes.
            router.watermark(1)
            made.append(received(outbox.take(), 3))
    again = make_router(edge(partitioning, 3), 0, 1, batch=False)
    outbox = Outbox(attempt=1)
    again.begin(outbox, 7)
    outbox.move_to(0, 0)
    again.emit(Batch(list(range(10))))
    again.flush()
    again.emit(Batch([10, 11]))
    again.watermark(1)
    assert made == [received(outbox.take(), 3)]
    assert sorted(value for share in made[0] for value in share) == list(range(12))


# --- custom partitioners ----------------------------------------------------------------------------------------


def test_a_partitioner_is_asked_once_for_each_record() -> None:
    calls: list[Any] = []

    def partition(key: Any, targets: int) -> int:
        calls.append((key, targets))
        return len(calls) % targets

    rows = send(Custom(partition, lambda value: -value), 3, Batch([1, 2, 3, 4], [10, 20, 30, 40]))
    assert calls == [(-1, 3), (-2, 3), (-3, 3), (-4, 3)]
    pairs = [(buffer.values, buffer.timestamps) for target in range(3) for buffer in buffers(rows, target)[:1]]
    assert pairs == [([3], [30]), ([1, 4], [10, 40]), ([2], [20])]


@pytest.mark.parametrize("target", [-1, 3, None, 1.0, "0", True])
def test_a_target_that_is_none_is_refused(target: Any) -> None:
    with pytest.raises(UserCodeError) as failure:
        send(Custom(lambda key, targets: target, identity), 3, Batch(["the record"]))
    assert isinstance(failure.value.cause, ValueError)
    assert "must return an int from 0 to 2" in str(failure.value)
    assert failure.value.record == "'the record'"


def test_a_partitioner_that_fails_is_named_with_the_record() -> None:
    def partition(key: Any, targets: int) -> int:
        raise KeyError(key)

    with pytest.raises(UserCodeError) as failure:
        send(Custom(partition, identity), 3, Batch(["the record"]))
    assert (failure.value.what, failure.value.record) == ("the partitioner", "'the record'")


# --- key selectors that fail ----------------------------------------------------------------------------------------


def stops(value: Any) -> Any:
    raise StopIteration


def divides(value: Any) -> Any:
    return 1 // value


@pytest.mark.parametrize("values", [[0], [1, 0, 2], [1, 2, 0]])
@pytest.mark.parametrize("batch_mode", [False, True])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_selector_that_fails_is_named_with_its_record(values: list[int], batch_mode: bool, stamped: bool) -> None:
    batch = Batch(values, [0] * len(values) if stamped else None)
    with pytest.raises(UserCodeError) as failure:
        send(KeyGroups(divides), 3, batch, batch_mode=batch_mode)
    assert (failure.value.what, failure.value.record) == ("the key selector", "0")


@pytest.mark.parametrize("stamped", [False, True])
def test_a_selector_that_raises_stop_iteration_loses_no_record_in_silence(stamped: bool) -> None:
    def selector(value: Any) -> Any:
        return next(iter(value))

    batch = Batch(["a", "b", ""], [1, 2, 3] if stamped else None)
    with pytest.raises(UserCodeError) as failure:
        send(KeyGroups(selector), 3, batch)
    assert failure.value.record == "''"


# --- buffers ----------------------------------------------------------------------------------------------------


def test_a_watermark_reaches_every_target_behind_the_records() -> None:
    for target in range(3):
        last = buffers(send(KeyGroups(identity), 3, Batch([1, 2, 3, 4])), target)[-1]
        assert (last.watermark, last.idle) == (1000, False)


def test_idleness_reaches_every_target() -> None:
    router = make_router(edge(Rebalance(), 2), 0, 1, batch=False)
    outbox = Outbox()
    router.begin(outbox, 1)
    router.idle()
    assert [decode_buffer(row.payload).idle for row in outbox.take()] == [True, True]


def test_records_with_and_without_timestamps_do_not_share_a_buffer() -> None:
    found = buffers(send(Global(), 1, Batch([1]), Batch([2], [20]), Batch([3])), 0)
    assert [(buffer.values, buffer.timestamps) for buffer in found[:3]] == [([1], None), ([2], [20]), ([3], None)]


@pytest.mark.parametrize("partitioning", [Global(), Rebalance(), Broadcast(), KeyGroups(lambda value: 1)])
def test_an_operator_that_makes_many_records_of_one_does_not_hold_them_all(partitioning: Partitioning) -> None:
    router = make_router(edge(partitioning, 2), 0, 1, batch=False)
    outbox = Outbox()
    router.begin(outbox, 1)
    for first in range(0, LANE_RECORDS * 4, 1024):
        router.emit(Batch(list(range(first, first + 1024))))
    assert outbox.rows


# --- BATCH mode -------------------------------------------------------------------------------------------------


def test_batch_mode_sends_key_group_after_key_group() -> None:
    rows = send(KeyGroups(identity), 2, Batch([3, 1, 3, 2]), batch_mode=True)
    groups = [row.seq for row in rows if row.seq != SEQ_END]
    assert groups == sorted(groups)
    assert set(groups) == {key_group(number, MAX) for number in (1, 2, 3)}


def test_the_rows_of_a_key_group_keep_the_order_in_which_they_were_sent() -> None:
    router = make_router(edge(KeyGroups(lambda value: "key"), 1), 0, 1, batch=True)
    outbox = Outbox()
    router.begin(outbox, 1)
    for seq in range(3):
        outbox.move_to(seq, seq)
        router.emit(Batch(list(range(seq * LANE_RECORDS, (seq + 1) * LANE_RECORDS))))
    router.watermark(1)
    rows = outbox.take()
    assert len({(row.seq, row.rank) for row in rows}) == len(rows)
    assert received(rows[::-1], 1) == [list(range(3 * LANE_RECORDS))]


def test_in_batch_mode_a_broadcast_stream_comes_before_every_key_group() -> None:
    router = make_router(edge(Broadcast(), 1), 0, 1, batch=True)
    outbox = Outbox()
    router.begin(outbox, 1)
    for seq in (5, 900, SEQ_END):
        outbox.move_to(seq, 3)
        router.emit(Batch([seq]))
        router.flush()
    router.watermark(1)
    rows = outbox.take()
    assert [row.seq < 0 for row in rows] == [True, True, True, False]
    assert received(rows[::-1], 1) == [[5, 900, SEQ_END]]
