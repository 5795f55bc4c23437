"""Accumulators: values that every subtask adds to and that the job's result holds merged.

A subtask's share counts once its epoch is safe: what a task added that is run again is not counted twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Accumulator(ABC, Generic[V]):
    """Something to add to. `merge` joins the shares of two subtasks or epochs."""

    @abstractmethod
    def add(self, value: Any) -> None:
        """Add a value to this subtask's share."""

    @abstractmethod
    def get_local_value(self) -> V:
        """This subtask's share since the epoch began."""

    @abstractmethod
    def reset_local(self) -> None:
        """Begin a new share."""

    @abstractmethod
    def merge(self, first: V, second: V) -> V:
        """Join two shares."""


class _Sum(Accumulator[V]):
    _zero: Any = 0

    def __init__(self) -> None:
        self._value: Any = self._zero

    def add(self, value: Any) -> None:
        self._value += value

    def get_local_value(self) -> V:
        return self._value  # type: ignore[no-any-return]

    def reset_local(self) -> None:
        self._value = self._zero

    def merge(self, first: Any, second: Any) -> Any:
        return first + second


class IntCounter(_Sum[int]):
    """Adds integers.

    >>> counter = IntCounter()
    >>> counter.add(2)
    >>> counter.get_local_value()
    2
    """


class LongCounter(IntCounter):
    """Adds integers: Python's have no width."""


class DoubleCounter(_Sum[float]):
    """Adds floats."""

    _zero = 0.0


class ListAccumulator(Accumulator[list[Any]]):
    """Gathers values in a list."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        self._values.append(value)

    def get_local_value(self) -> list[Any]:
        return self._values

    def reset_local(self) -> None:
        self._values = []

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *second]


class Histogram(Accumulator[dict[int, int]]):
    """Counts how often each integer was added."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        return self._counts

    def reset_local(self) -> None:
        self._counts = {}

    def merge(self, first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
        return {key: first.get(key, 0) + second.get(key, 0) for key in sorted({*first, *second})}
