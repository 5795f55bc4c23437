"""The interval join, as Flink's IntervalJoinOperator has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.common.time import MAX_WATERMARK
from millrace.common.typeinfo import Types
from millrace.runtime.operators.joins.time_buffer import ENTRY, Entry, TimeBuffer
from millrace.runtime.operators.joins.timed import LEFT, JoinInput, TimedJoinOperator
from millrace.runtime.time_domain import TimeDomain
from millrace.state.api import MapState
from millrace.state.descriptors import MapStateDescriptor


@dataclass
class _Side:
    """One input: its records, and where those that they meet lie, relative to their own time."""

    buffer: TimeBuffer
    lowest: int
    highest: int
    # How long after its own time a record can still meet one.
    reach: int
    # Which records have met one, where the others are joined with None in the end.
    matched: MapState[Entry, bool] | None


class IntervalJoinOperator(TimedJoinOperator):
    """Joins a left record at t with the right ones from t + lower to t + upper, both included.

    A record stays until the watermark has reached the last time at which it could meet one. Each key has one timer for
    each input, at the first of these times; it removes all that is over and is set anew for what is left.
    """

    def __init__(
        self, function: Any, lower: int, upper: int, inputs: tuple[JoinInput, JoinInput]
    ) -> None:
        super().__init__(function, inputs)
        self.lower = lower
        self.upper = upper

    def open(self) -> None:
        super().open()
        bounds = ((self.lower, self.upper), (-self.upper, -self.lower))
        self._sides = tuple(
            _Side(buffer, lowest, highest, max(highest, 0), self._matched(side))
            for side, (buffer, (lowest, highest)) in enumerate(zip(self._buffers, bounds, strict=True))
        )

    def _matched(self, side: int) -> MapState[Entry, bool] | None:
        if not self.inputs[side].outer:
            return None
        descriptor = MapStateDescriptor(f"{self.names[side]}-matched", ENTRY, Types.BOOLEAN())
        state: MapState[Entry, bool] = self.backends.keyed.get_state(descriptor)
        return state

    def take(self, side: int, value: Any, timestamp: int) -> None:
        own, other = self._sides[side], self._sides[1 - side]
        place = own.buffer.add(timestamp, value)
        if place == 0:
            self._set_timer(side, timestamp + own.reach)
        found = other.buffer.between(timestamp + own.lowest, timestamp + own.highest)
        if not found:
            return
        _mark(own, own.buffer.order()[place : place + 1])
        _mark(other, found)
        get = other.buffer.get
        for partner in found:
            latest = max(timestamp, partner[0])
            if side == LEFT:
                self.join(value, get(partner), (timestamp, partner[0]), latest)
            else:
                self.join(get(partner), value, (partner[0], timestamp), latest)

    def _set_timer(self, side: int, timestamp: int) -> None:
        self.event_timers.add(self.keys.key, side, min(timestamp, MAX_WATERMARK))

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        own = self._sides[namespace]
        watermark, buffer = self.watermark, own.buffer
        over = buffer.count_until(watermark - own.reach if watermark < MAX_WATERMARK else MAX_WATERMARK)
        order = buffer.order()
        if own.matched is not None:
            self._join_unmatched(namespace, own, own.matched, order[:over])
        buffer.drop(over)
        if order:
            self._set_timer(namespace, order[0][0] + own.reach)

    def _join_unmatched(self, side: int, own: _Side, matched: MapState[Entry, bool], gone: list[Entry]) -> None:
        """The result's timestamp is when the record's time was over: its own would be late for what comes behind."""
        for entry in gone:
            if matched.contains(entry):
                matched.remove(entry)
                continue
            value, time = own.buffer.get(entry), entry[0]
            over = min(time + own.reach, MAX_WATERMARK)
            if side == LEFT:
                self.join(value, None, (time, None), over)
            else:
                self.join(None, value, (None, time), over)


def _mark(side: _Side, entries: list[Entry]) -> None:
    """Remember that records have met one, where it matters."""
    matched = side.matched
    if matched is None:
        return
    for entry in entries:
        if not matched.contains(entry):
            matched.put(entry, True)
