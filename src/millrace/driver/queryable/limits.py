"""How many requests are too many."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class RateLimit:
    """So many per second on average, and at most one second's worth at once. `clock` counts seconds.

    >>> limit = RateLimit(2, lambda: 0.0)
    >>> [limit.take() for _ in range(3)]
    [True, True, False]
    """

    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._filled = clock()
        self._lock = Lock()

    def take(self) -> bool:
        """Whether there is room for one more now; if so, it is taken."""
        with self._lock:
            now = self._clock()
            self._left = min(self._per_second, self._left + (now - self._filled) * self._per_second)
            self._filled = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
