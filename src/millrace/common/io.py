"""Inputs of bounded programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

__all__ = ["InputFormat"]


class InputFormat(ABC):
    """Reads a bounded input in splits, each split independent of the others."""

    @abstractmethod
    def create_input_splits(self, min_num_splits: int) -> list[Any]:
        """Descriptions of the splits; they must pickle."""

    @abstractmethod
    def read(self, split: Any) -> Iterator[Any]:
        """The records of one split, in the same order every time."""
