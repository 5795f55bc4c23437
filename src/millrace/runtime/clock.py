"""Event time: the watermarks of several inputs, combined into one clock that never moves back."""

from __future__ import annotations

from typing import Any

from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP


class WatermarkClock:
    """The minimum over the watermarks of all channels that are not idle.

    When every channel is idle the clock stands at the highest watermark that any of them reached, as in Flink,
    and is itself idle: what comes after must not wait for it.

    A channel that has ended (its watermark is the end of time) is left out like an idle one. Event time itself ends
    only when all channels have: the records of one that is merely idle for now would all be late.

    >>> clock = WatermarkClock(2)
    >>> clock.update(0, 10), clock.update(1, 5)
    (False, True)
    >>> clock.current
    5
    """

    __slots__ = ("current", "idle", "watermarks")

    def __init__(self, channels: int) -> None:
        self.watermarks = [MIN_TIMESTAMP] * channels
        self.idle = [False] * channels
        self.current = MIN_TIMESTAMP

    @property
    def all_idle(self) -> bool:
        """Whether the channels that have not ended are all idle (a clock without channels counts as idle)."""
        return self.current < MAX_WATERMARK and not self._active()

    def update(self, channel: int, watermark: int) -> bool:
        """A channel reached a watermark; True when the clock moved on. The channel is active again."""
        self.idle[channel] = False
        if watermark <= self.watermarks[channel]:
            return False
        self.watermarks[channel] = watermark
        return self._recompute()

    def activate(self, channel: int) -> None:
        """A channel that was idle sent records."""
        self.idle[channel] = False

    def mark_idle(self, channel: int) -> bool:
        """A channel has nothing to say for now; True when the clock moved on without it."""
        self.idle[channel] = True
        return self._recompute()

    def _active(self) -> list[int]:
        marks = zip(self.watermarks, self.idle, strict=True)
        return [mark for mark, idle in marks if not idle and mark < MAX_WATERMARK]

    def _recompute(self) -> bool:
        candidate = min(self._active(), default=None)
        if candidate is None:
            waiting = [mark for mark in self.watermarks if mark < MAX_WATERMARK]
            candidate = max(waiting, default=MAX_WATERMARK)
        if candidate <= self.current:
            return False
        self.current = candidate
        return True

    def snapshot(self) -> list[Any]:
        """What must survive the epoch, as JSON."""
        return [list(self.watermarks), list(self.idle), self.current]

    def restore(self, snapshot: list[Any]) -> None:
        """Go on from a snapshot."""
        watermarks, idle, self.current = snapshot
        self.watermarks, self.idle = list(watermarks), list(idle)
