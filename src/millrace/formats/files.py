"""What reads and writes whole files of records: the interface that file sources and sinks call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from millrace.common.serialization import BulkWriterFactory
from millrace.common.typeinfo import TypeInformation

__all__ = ["FileFormat", "FileWriter", "FileWriterFactory"]


class FileFormat(ABC):
    """Reads a file as lists of records. A file is read in the same order each time, so that a number of records is a
    place in it."""

    @abstractmethod
    def read(self, stream: BinaryIO, skip: int = 0) -> Iterator[list[Any]]:
        """The file's records after the first `skip`, in lists; the stream can seek."""

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
