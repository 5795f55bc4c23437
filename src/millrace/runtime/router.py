"""The sending end of an exchange: records are sorted into lanes, one for each target subtask."""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import length_hint
from typing import Any

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
from millrace.runtime.rows import REPORT_LEVEL, SEQ_END, SEQ_FIRST, Row, encode, rank
from millrace.state.hashing import stable_hash
from millrace.state.key_groups import KeyRouter, key_group, subtask_of

# A lane is sent when it holds this many records, even in the middle of a chunk: an operator that makes many
# records of one must not hold them all.
LANE_RECORDS = 8192

# Keys whose lane is remembered; past it the memory is emptied, so that it stays bounded for any number of keys.
MEMO_KEYS = 1_000_000


class Outbox:
    """Where the rows of one task gather in one epoch, and the place in the order that they are given."""

    def __init__(self, attempt: int = 0) -> None:
        self.attempt = attempt
        self.seq = 0
        self.origin = 0
        self.rows: list[Row] = []
        self.size = 0
        self._part = 0
        self._placed = 0

    def put(self, slot: int, level: int, channel: int, payload: bytes, seq: int | None = None) -> None:
        """Add a row at the current place or, with `seq`, at that one, behind all that were put there before."""
        if seq is None:
            self._part += 1
            seq, place = self.seq, rank(self.origin, channel, self._part)
        else:
            self._placed += 1
            place = rank(0, channel, self._placed)
        self.rows.append(Row(slot, level, seq, place, payload))
        self.size += len(payload)

    def report(self, slot: int, channel: int, report: Any) -> None:
        """Add a row for the driver, which is told its place in the order."""
        place = rank(self.origin, channel, self._part + 1)
        self.put(slot, REPORT_LEVEL, channel, encode((self.seq, place, report)))

    def move_to(self, seq: int, origin: int) -> None:
        """What follows comes from another place in the sources' order."""
        self.seq, self.origin, self._part = seq, origin, 0

    def take(self) -> list[Row]:
        """The rows so far; the outbox is empty after it."""
        rows, self.rows, self.size = self.rows, [], 0
        return rows


class Lane:
    """Records on their way to one target subtask. The two lists live as long as the lane: routes point at them."""

    __slots__ = ("timestamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] = []


class Router:
    """Sends one output of a subtask along one edge."""

    def __init__(self, edge: OutEdge, subtask: int, parallelism: int, seq: int | None = None) -> None:
        self.edge = edge
        self.subtask = subtask
        self.seq = seq
        self.outbox = Outbox()
        self.lanes = [Lane() for _ in range(1 if isinstance(edge.partitioning, Broadcast) else edge.target_parallelism)]
        self.turn = 0
        # What is to be dealt out evenly waits here: the records of one place are dealt out together.
        self.held = Lane()
        self.deal: Callable[[Batch], None] | None = None
        self._stamped = False
        self._pending = False
        self._split = _splitter(edge.partitioning, self, parallelism)

    def begin(self, outbox: Outbox, epoch: int) -> None:
        """Start an epoch. Nothing of an attempt that failed may be left, and a retry must deal out the same."""
        self.outbox = outbox
        self.turn = epoch + self.subtask
        self._pending = False
        for lane in (*self.lanes, self.held):
            lane.values.clear()
            lane.timestamps.clear()

    def emit(self, batch: Batch) -> None:
        """Take records."""
        stamped = batch.timestamps is not None
        if stamped is not self._stamped:
            self.flush()
            self._stamped = stamped
        self._pending = True
        self._split(batch)
        if len(self.held.values) >= LANE_RECORDS * len(self.lanes):
            self.flush()
        for lane in self.lanes:
            if len(lane.values) >= LANE_RECORDS:
                self.flush()
                break

    def watermark(self, watermark: int) -> None:
        """Send everything that was taken, and tell every target how far event time is."""
        self._send(watermark, idle=False)

    def idle(self) -> None:
        """Tell every target not to wait for this sender's watermarks."""
        self._send(None, idle=True)

    def flush(self) -> None:
        """Send what was taken."""
        if self._pending:
            self._send(None, idle=False)

    def _send(self, watermark: int | None, idle: bool) -> None:
        self._pending = False
        if self.deal is not None and self.held.values:
            self.deal(Batch(self.held.values, self.held.timestamps if self._stamped else None))
            self.held.values.clear()
            self.held.timestamps.clear()
        to_all = watermark is not None or idle
        for target, lane in enumerate(self.lanes):
            if lane.values or to_all:
                self._send_lane(target, lane, watermark, idle)

    def _send_lane(self, target: int, lane: Lane, watermark: int | None, idle: bool) -> None:
        edge, outbox = self.edge, self.outbox
        channel = edge.channel + self.subtask
        timestamps = lane.timestamps if self._stamped else None
        payload = encode(
            (edge.target_vertex, channel, outbox.attempt, lane.values, timestamps, watermark, idle)
        )
        lane.values.clear()
        lane.timestamps.clear()
        broadcast = isinstance(edge.partitioning, Broadcast)
        seq = SEQ_END if watermark is not None and self.seq is not None else self.seq
        for subtask in range(edge.target_parallelism) if broadcast else (target,):
            outbox.put(edge.target_slot + subtask, edge.target_level, channel, payload, seq)


class KeyGroupRouter:
    """The sending end of a keyed exchange in BATCH mode.

    Rows are ordered by key group (it takes the place of `seq`), so that Spark's sort hands the receiver one key
    group after the other: it then holds the records of one group and not of all keys.
    """

    def __init__(self, edge: OutEdge, subtask: int, selector: Callable[[Any], Any]) -> None:
        self.edge = edge
        self.subtask = subtask
        self.selector = selector
        self.outbox = Outbox()
        self._lanes: dict[tuple[int, bool], Lane] = {}
        self._groups: dict[Any, int] = {}

    def begin(self, outbox: Outbox, epoch: int) -> None:
        """Start an epoch: nothing of an attempt that failed may be left."""
        self.outbox = outbox
        self._lanes.clear()

    def emit(self, batch: Batch) -> None:
        """Take records."""
        stamped = batch.timestamps is not None
        timestamps = batch.timestamps if batch.timestamps is not None else [0] * len(batch.values)
        for value, timestamp in zip(batch.values, timestamps, strict=True):
            group = self._group_of(value)
            lane = self._lanes.setdefault((group, stamped), Lane())
            lane.values.append(value)
            lane.timestamps.append(timestamp)
            if len(lane.values) >= LANE_RECORDS:
                self._send_lane(group, stamped, lane)

    def _group_of(self, value: Any) -> int:
        try:
            return self._group(self.selector(value))
        except Exception as error:
            raise _key_failure(error, self.selector, value) from error

    def _group(self, key: Any) -> int:
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MEMO_KEYS:
                self._groups.clear()
            group = self._groups[key] = key_group(key, self.edge.target_max_parallelism)
        return group

    def _send_lane(self, group: int, stamped: bool, lane: Lane) -> None:
        edge = self.edge
        channel = edge.channel + self.subtask
        timestamps = lane.timestamps if stamped else None
        payload = encode((edge.target_vertex, channel, self.outbox.attempt, lane.values, timestamps, None, False))
        target = subtask_of(group, edge.target_parallelism, edge.target_max_parallelism)
        self.outbox.put(edge.target_slot + target, edge.target_level, channel, payload, seq=group)
        lane.values, lane.timestamps = [], []

    def flush(self) -> None:
        """Nothing leaves before the end: the lanes are worth filling."""

    def watermark(self, watermark: int) -> None:
        """The end of the input: the only watermark of BATCH mode."""
        for (group, stamped), lane in sorted(self._lanes.items()):
            if lane.values:
                self._send_lane(group, stamped, lane)
        edge = self.edge
        channel = edge.channel + self.subtask
        payload = encode((edge.target_vertex, channel, self.outbox.attempt, [], None, watermark, False))
        for target in range(edge.target_parallelism):
            self.outbox.put(edge.target_slot + target, edge.target_level, channel, payload, seq=SEQ_END)

    def idle(self) -> None:
        """Means nothing in BATCH mode."""


def make_router(edge: OutEdge, subtask: int, parallelism: int, batch: bool) -> Router | KeyGroupRouter:
    """The router for an edge; `parallelism` is the sender's, `batch` tells BATCH mode."""
    if batch and isinstance(edge.partitioning, KeyGroups):
        return KeyGroupRouter(edge, subtask, edge.partitioning.selector)
    if isinstance(edge.partitioning, Broadcast) and (batch or edge.partitioning.first):
        return Router(edge, subtask, parallelism, seq=SEQ_FIRST)
    return Router(edge, subtask, parallelism)


def _key_failure(error: Exception, selector: Callable[[Any], Any], value: Any) -> UserCodeError:
    """The error of a record that cannot be sent by its key. Where Python has no hash for the key, we say it better."""
    if isinstance(error, TypeError) and "unhashable" in str(error):
        try:
            stable_hash(selector(value))
        except Exception as better:
            error = better
    return UserCodeError.wrap(error, selector, value, "the key selector")


def _splitter(partitioning: Partitioning, router: Router, parallelism: int) -> Callable[[Batch], None]:
    """The function that sorts a batch into the router's lanes."""
    lanes = router.lanes
    targets = router.edge.target_parallelism
    match partitioning:
        case KeyGroups(selector) if targets > 1:
            return _by_key(selector, lanes, KeyRouter(targets, router.edge.target_max_parallelism))
        case Custom(partition, selector):
            return _by_partitioner(partition, selector, lanes)
        case Forward():
            return _into(lanes[router.subtask % targets])
        case Rebalance():
            return _evenly(lanes, router)
        case Rescale():
            return _evenly(_neighbours(lanes, router.subtask, parallelism), router)
        case Shuffle():
            return _at_random(lanes, router)
        case KeyGroups(selector):
            return _all_keys(selector, lanes[0])
        case Broadcast() | Global():
            return _into(lanes[0])
        case _:
            raise TypeError(f"unknown partitioning {partitioning!r}")


def _into(lane: Lane) -> Callable[[Batch], None]:
    def split(batch: Batch) -> None:
        lane.values.extend(batch.values)
        if batch.timestamps is not None:
            lane.timestamps.extend(batch.timestamps)

    return split


class _Routes(dict[Any, Any]):
    """key -> where to append its records. The first look-up of a key hashes it; the others are one dict access."""

    def __init__(self, router: KeyRouter, ends: list[Any]) -> None:
        self._router = router
        self._ends = ends

    def __missing__(self, key: Any) -> Any:
        if len(self) >= MEMO_KEYS:
            self.clear()
        end = self[key] = self._ends[self._router[key]]
        return end


def _by_key(selector: Callable[[Any], Any], lanes: list[Lane], router: KeyRouter) -> Callable[[Batch], None]:
    """The hot path of every keyed program (benchmarks/README.md): one selector call, one look-up, one append."""
    plain = _Routes(router, [lane.values.append for lane in lanes])
    stamped = _Routes(router, [(lane.values.append, lane.timestamps.append) for lane in lanes])

    def split(batch: Batch) -> None:
        values = batch.values
        rest, paired = iter(values), iter(values)
        try:
            if batch.timestamps is None:
                for key, value in zip(map(selector, rest), paired):  # noqa: B905 (strict costs time here)
                    plain[key](value)
            else:
                for key, value, timestamp in zip(map(selector, rest), paired, batch.timestamps):  # noqa: B905
                    put_value, put_timestamp = stamped[key]
                    put_value(value)
                    put_timestamp(timestamp)
            if length_hint(paired):
                raise RuntimeError("the key selector raised StopIteration")
        except Exception as error:
            record = values[len(values) - length_hint(rest) - 1]
            raise _key_failure(error, selector, record) from error

    return split


def _all_keys(selector: Callable[[Any], Any], lane: Lane) -> Callable[[Batch], None]:
    """To a single subtask. One key is looked at even so: a program must not fail only at a higher parallelism."""
    into = _into(lane)
    unseen = True

    def split(batch: Batch) -> None:
        nonlocal unseen
        if unseen:
            unseen = False
            try:
                stable_hash(selector(batch.values[0]))
            except Exception as error:
                raise _key_failure(error, selector, batch.values[0]) from error
        into(batch)

    return split


def _by_partitioner(
    partition: Callable[[Any, int], int], selector: Callable[[Any], Any], lanes: list[Lane]
) -> Callable[[Batch], None]:
    count = len(lanes)

    def target_of(value: Any) -> int:
        try:
            target = partition(selector(value), count)
        except Exception as error:
            raise UserCodeError.wrap(error, partition, value, "the partitioner") from error
        if type(target) is not int or not 0 <= target < count:
            refused = ValueError(f"the partitioner returned {target!r}; it must return an int from 0 to {count - 1}")
            raise UserCodeError.wrap(refused, partition, value, "the partitioner")
        return target

    def split(batch: Batch) -> None:
        _deal(batch, [lanes[target_of(value)] for value in batch.values])

    return split


def _evenly(lanes: list[Lane], router: Router) -> Callable[[Batch], None]:
    """The records of a place are cut into as many runs as there are lanes; the odd ones move on from place to place.

    Runs and not single records: read in the order of their channels, they give the place's order back, which is
    what makes a program's result the same at every parallelism.
    """
    count = len(lanes)

    def deal(batch: Batch) -> None:
        size = len(batch.values)
        turn = router.turn % count
        bounds = [(lane * size + turn) // count for lane in range(count + 1)]
        router.turn = turn + size
        for lane, start, stop in zip(lanes, bounds, bounds[1:], strict=False):
            lane.values.extend(batch.values[start:stop])
            if batch.timestamps is not None:
                lane.timestamps.extend(batch.timestamps[start:stop])

    router.deal = deal
    return _into(router.held)


def _neighbours(lanes: list[Lane], subtask: int, parallelism: int) -> list[Lane]:
    """The part of the target that a sender rescales to."""
    if len(lanes) >= parallelism:
        return [lane for target, lane in enumerate(lanes) if target * parallelism // len(lanes) == subtask]
    return [lanes[subtask * len(lanes) // parallelism]]


def _at_random(lanes: list[Lane], router: Router) -> Callable[[Batch], None]:
    def split(batch: Batch) -> None:
        outbox = router.outbox
        place = (outbox.seq, outbox.origin, router.edge.channel, router.subtask, router.turn)
        router.turn += len(batch.values)
        _deal(batch, random.Random(hash(place)).choices(lanes, k=len(batch.values)))

    return split


def _deal(batch: Batch, targets: list[Lane]) -> None:
    for lane, value in zip(targets, batch.values, strict=True):
        lane.values.append(value)
    if batch.timestamps is not None:
        for lane, timestamp in zip(targets, batch.timestamps, strict=True):
            lane.timestamps.append(timestamp)
