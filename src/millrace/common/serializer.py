"""Serializers of single values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes a value to a stream of bytes and reads it back."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None: ...

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T: ...

    def __repr__(self) -> str:
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))
