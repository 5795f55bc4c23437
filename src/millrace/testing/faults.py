"""Tasks that fail on purpose, and are run again as Spark runs them again."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator

from millrace.runtime.router import Outbox
from millrace.runtime.rows import Row


class InjectedFault(BaseException):
    """A task attempt that was made to fail. Nothing that handles errors catches it, as nothing catches a `kill`."""


class Faults:
    """Which task attempts of a job fail, and where in their work.

    With `share`, each attempt fails with this probability, drawn from `seed`; with `attempts`, those of these
    numbers do (the first task of a job is attempt 1, and every attempt counts). A task fails when it reads its n-th
    row, or when it hands its n-th row on, so that some of its records are through and others are not; the last row
    of a subtask is its report, by which time its state is written. The attempt is then run again, in the same
    process or in another one.

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
        if attempt not in self._attempts and self._random.random() >= self._share:
            return FaultyOutbox(self, attempt)
        rows = self._random.choice((1, 1, 2, 2, 3, 5, 8))
        return FaultyOutbox(self, attempt, **{self._random.choice(("reads", "puts")): rows})

    def moves(self) -> bool:
        """Whether the next attempt runs in another process."""
        return self._random.random() < 0.5


class FaultyOutbox(Outbox):
    """Breaks at the n-th row that is read or put, or else when the task is over."""

    def __init__(self, faults: Faults, attempt: int, reads: int = 0, puts: int = 0) -> None:
        super().__init__(attempt)
        self._faults = faults
        self._reads = reads
        self._puts = puts
        self.fails = bool(reads or puts)

    def reading(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows that the task reads, as far as it gets."""
        for number, row in enumerate(rows, start=1):
            yield row
            if number == self._reads:
                self.give_up()

    def put(self, slot: int, level: int, channel: int, payload: bytes, seq: int | None = None) -> None:
        self._puts -= 1
        if self._puts == 0:
            self.give_up()
        super().put(slot, level, channel, payload, seq)

    def give_up(self) -> None:
        """Fail now."""
        self._faults.injected += 1
        raise InjectedFault(f"attempt {self.attempt} fails on purpose")
