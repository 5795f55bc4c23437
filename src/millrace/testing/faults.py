"""Tasks that fail on purpose, and are run again as Spark runs them again."""

from __future__ import annotations

import random
from collections.abc import Container

from millrace.runtime.router import Outbox


class InjectedFault(Exception):
    """A task attempt that was made to fail."""


class Faults:
    """Which task attempts of a job fail, and where in their work.

    With `share`, each attempt fails with this probability, drawn from `seed`; with `attempts`, those of these
    numbers do (the first task of a job is attempt 1, and every attempt counts). A task fails when it hands its n-th
    row on, so that some of its records are through and others are not; the last row of a subtask is its report, by
    which time its state is written. The attempt is then run again, in the same process or in another one.

    >>> Faults(attempts={1}).outbox(1).fails, Faults(attempts={1}).outbox(2).fails
    (True, False)
    """

    def __init__(self, share: float = 0.0, seed: int = 0, attempts: Container[int] = frozenset()) -> None:
        if not 0 <= share < 1:
            raise ValueError(f"share is a probability below 1, not {share!r}.")
        self._share = share
        self._attempts = attempts
        self._random = random.Random(seed)
        self.injected = 0

    def outbox(self, attempt: int) -> FaultyOutbox:
        """Where an attempt puts its rows; for one that is to fail, its doom."""
        fails = attempt in self._attempts or self._random.random() < self._share
        return FaultyOutbox(self, attempt, self._random.choice((1, 1, 2, 2, 3, 5, 8)) if fails else None)

    def moves(self) -> bool:
        """Whether the next attempt runs in another process."""
        return self._random.random() < 0.5


class FaultyOutbox(Outbox):
    """Breaks when it is given its n-th row, or when the task is over and has not put so many."""

    def __init__(self, faults: Faults, attempt: int, fails_at: int | None) -> None:
        super().__init__(attempt)
        self._faults = faults
        self._left = fails_at
        self.fails = fails_at is not None

    def put(self, slot: int, level: int, channel: int, payload: bytes, seq: int | None = None) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.give_up()
        super().put(slot, level, channel, payload, seq)

    def give_up(self) -> None:
        """Fail now."""
        self._faults.injected += 1
        raise InjectedFault(f"attempt {self.attempt} fails on purpose")
