"""How much an epoch of a bounded program reads, so that checkpoints can come between epochs."""

from __future__ import annotations

# An epoch has a price of its own, some 50 ms: with fewer records than this it would be most of the time.
_LEAST = 65_536

# One slow epoch (a cold worker, say) is no reason to go all the way down, nor a quick one to go all the way up.
_MOST_CHANGE = 4.0


class Pacer:
    """Sizes epochs so that each takes about as long as the checkpoint interval (in seconds).

    >>> pacer = Pacer(1.0)
    >>> pacer.records, pacer.after(0.5), pacer.after(0.01)
    (65536, 131072, 524288)
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.records = _LEAST

    def after(self, seconds: float) -> int:
        """An epoch took so long; how many records the next one may read."""
        change = min(max(self._interval / max(seconds, 1e-6), 1 / _MOST_CHANGE), _MOST_CHANGE)
        self.records = max(_LEAST, int(self.records * change))
        return self.records
