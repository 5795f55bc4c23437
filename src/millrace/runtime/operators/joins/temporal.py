"""The temporal join: a stream with the versions of a table, as of each record's time."""

from __future__ import annotations

from typing import Any

from millrace.common.types import Row
from millrace.runtime.operators.joins.timed import LEFT, TimedJoinOperator
from millrace.runtime.time_domain import TimeDomain


class TemporalJoinOperator(TimedJoinOperator):
    """Joins a left record at t with the last version at or before t, once the watermark has reached t.

    Until then records wait, in the order of their time. A version goes when the watermark has reached the next one:
    one version of each key is always kept. Of versions with the same time the one that came last counts; a Row
    that says of itself that it is a deletion means that there is no version from then on.

    Records behind the watermark are late. Versions behind it are not: they count for the records to come.
    """

    names = ("waiting", "versions")

    def is_too_late(self, side: int) -> bool:
        return side == LEFT

    def take(self, side: int, value: Any, timestamp: int) -> None:
        buffer = self._buffers[side]
        buffer.add(timestamp, value)
        self._set_timer(side)

    def _set_timer(self, side: int) -> None:
        """For the first record that waits; for the version that takes over from the first."""
        order = self._buffers[side].order()
        if len(order) > side:
            self.event_timers.add(self.keys.key, None, order[side][0])

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        waiting, versions = self._buffers
        due = waiting.until(self.watermark)
        for entry in due:
            self._join_as_of(waiting.get(entry), entry[0])
        waiting.drop(len(due))
        over = len(versions.until(self.watermark)) - 1
        if over > 0:
            versions.drop(over)
        for side in range(2):
            self._set_timer(side)

    def _join_as_of(self, value: Any, time: int) -> None:
        versions = self._buffers[1]
        entry = versions.last_until(time)
        version = None if entry is None else versions.get(entry)
        if entry is not None and not (isinstance(version, Row) and version._is_retract_msg()):
            self.join(value, version, (time, entry[0]), time)
        elif self.inputs[LEFT].outer:
            self.join(value, None, (time, None), time)
