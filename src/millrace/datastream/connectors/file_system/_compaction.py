"""Few large files in place of many small ones, before anybody has seen them."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from millrace.common.errors import ConfigurationError

__all__ = ["FileCompactStrategy", "FileCompactor"]


@dataclass(frozen=True)
class FileCompactStrategy:
    """Which files are merged: those that one checkpoint makes visible in one bucket, up to `size_threshold` bytes.

    >>> FileCompactStrategy.builder().set_size_threshold(1 << 20).build().size_threshold
    1048576
    """

    size_threshold: int
    compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Begin with files of any size."""
        return FileCompactStrategy.Builder()

    class Builder:
        """See `FileCompactStrategy`."""

        def __init__(self) -> None:
            self._size = 0
            self._checkpoints = 0
            self._threads = 1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge at checkpoints. Whatever the number: at each one, so that no record waits for a later one."""
            self._checkpoints = _positive(num_checkpoints_before_compaction, "the number of checkpoints")
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """A merged file is complete with so many bytes; a file that has them is left as it is."""
            self._size = _positive(size_threshold, "the size threshold")
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """How many files are made at once."""
            self._threads = _positive(num_compact_threads, "the number of threads")
            return self

        def build(self) -> FileCompactStrategy:
            """The strategy."""
            if not self._size and not self._checkpoints:
                raise ConfigurationError(
                    "a strategy needs a size or a number of checkpoints",
                    action="Call set_size_threshold(...) or enable_compaction_on_checkpoint(...).",
                )
            return FileCompactStrategy(self._size or 1 << 62, self._threads)


def _positive(value: int, what: str) -> int:
    if value <= 0:
        raise ConfigurationError(f"{what} must be positive, not {value!r}")
    return value


class FileCompactor(ABC):
    """Makes one file of several. Subclass it for a format of your own."""

    #: How many files it can merge; None for any number.
    most_files: int | None = None

    @abstractmethod
    def compact(self, inputs: list[Any], output: Any) -> None:
        """Read the open files `inputs`, in order, and write to `output`."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One behind the other, with a delimiter between them if one is given. Right for lines."""
        return _Concatenation(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Leaves every file as it is."""
        return _Identity()

    @staticmethod
    def parquet_file_compactor(compression: str = "snappy") -> FileCompactor:
        """Parquet files of one schema; the row groups stay as they are."""
        return _Parquet(compression)


class _Concatenation(FileCompactor):
    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter

    def compact(self, inputs: list[Any], output: Any) -> None:
        for number, stream in enumerate(inputs):
            if number and self._delimiter:
                output.write(self._delimiter)
            shutil.copyfileobj(stream, output, 1 << 20)


class _Identity(FileCompactor):
    most_files = 1

    def compact(self, inputs: list[Any], output: Any) -> None:
        shutil.copyfileobj(inputs[0], output, 1 << 20)


class _Parquet(FileCompactor):
    def __init__(self, compression: str) -> None:
        self._compression = compression

    def compact(self, inputs: list[Any], output: Any) -> None:
        from pyarrow.parquet import ParquetFile, ParquetWriter

        files = [ParquetFile(stream) for stream in inputs]
        with ParquetWriter(output, files[0].schema_arrow, compression=self._compression) as writer:
            for file in files:
                for group in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(group))
