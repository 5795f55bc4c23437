"""What reads and writes whole files of records: the interface that file sources and sinks call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

from millrace.common.serialization import BulkWriterFactory, OnError
from millrace.common.typeinfo import TypeInformation

__all__ = ["FileFormat", "FileWriter", "FileWriterFactory", "OnBadRecord"]

# Told of a record that cannot be read, as the file has it, and why; `Operator.bad_record` is one.
OnBadRecord: TypeAlias = Callable[[Any, Exception], object]


class FileFormat(ABC):
    """Reads a file as lists of records. A file is read in the same order each time, so that a number of records is a
    place in it."""

    @abstractmethod
    def read(
        self, stream: BinaryIO, skip: int = 0, on_error: OnBadRecord | None = None
    ) -> Iterator[list[Any]]:
        """The file's records after the first `skip`, in lists; the stream can seek.

        In the place of a record that is left out stands None, and it counts as one. Formats of lines tell `on_error`
        of a record that cannot be read, and leave it out; without `on_error` it raises. Of other formats a file is
        right as a whole, or raises.
        """

    @abstractmethod
    def get_produced_type(self) -> TypeInformation: ...


class FileWriter(ABC):
    """Writes one file. The stream belongs to the caller, who closes it."""

    @abstractmethod
    def add_elements(self, elements: Sequence[Any]) -> None:
        """Write records."""

    def add_element(self, element: Any) -> None:
        """Write one record."""
        self.add_elements((element,))

    @abstractmethod
    def finish(self) -> None:
        """Write what is left; the stream stays open."""


class FileWriterFactory(BulkWriterFactory):
    """Makes the writer of one file."""

    #: How such files' names end.
    extension = ""

    @abstractmethod
    def create(self, stream: BinaryIO) -> FileWriter: ...


def after(batches: Iterator[list[Any]], skip: int) -> Iterator[list[Any]]:
    """Leave out the first records.

    >>> list(after(iter([[1, 2], [3, 4]]), 3))
    [[4]]
    """
    for batch in batches:
        if skip < len(batch):
            yield batch[skip:]
        skip = max(0, skip - len(batch))


def telling(items: Sequence[Any], on_error: OnBadRecord | None) -> OnError | None:
    """Tells of a record where a place in a batch is told."""
    return None if on_error is None else lambda index, error: on_error(items[index], error)
