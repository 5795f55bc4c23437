"""The temporal join: a stream with the versions of a table, as of each record's time."""

from __future__ import annotations

from typing import Any

from millrace.common.types import Row
from millrace.runtime.operators.joins.timed import LEFT, RIGHT, TimedJoinOperator
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
        if self._buffers[side].add(timestamp, value) <= side:
            self._set_timer(side)

    def _set_timer(self, side: int) -> None:
        """For the first record that waits; for the version that takes over from the first."""
        order = self._buffers[side].order()
        if len(order) > side:
            self.event_timers.add(self.keys.key, None, order[side][0])

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        waiting, versions = self._buffers
        due = waiting.count_until(self.watermark)
        for entry in waiting.order()[:due]:
            self._join_as_of(waiting.get(entry), entry[0])
        waiting.drop(due)
        versions.drop(max(versions.count_until(self.watermark) - 1, 0))
        for side in (LEFT, RIGHT):
            self._set_timer(side)

    def _join_as_of(self, value: Any, time: int) -> None:
        versions = self._buffers[RIGHT]
        known = versions.count_until(time)
        if known:
            entry = versions.order()[known - 1]
            version = versions.get(entry)
            if not (isinstance(version, Row) and version._is_retract_msg()):
                self.join(value, version, (time, entry[0]), time)
                return
        if self.inputs[LEFT].outer:
            self.join(value, None, (time, None), time)
