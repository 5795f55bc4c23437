"""Sources whose records Spark reads, with one of its own connectors.

    driver:  data_frame(spark) ─► Spark moves the rows and keeps the offsets; split_ids(offset) ─► who is there
    worker:  EntryReader.splits(columns) ─► raw records by split ─► decode, in the source operator
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from millrace.common.typeinfo import TypeInformation
from millrace.runtime.batch import Batch

# What a bad record and its error are given to: the operator's policy raises, or lets the record go.
OnBadRecord = Callable[[Any, Exception], None]


class RawRecords(NamedTuple):
    """Records of one split as Spark has read them, in order; `slot_hint` says which reader has the split."""

    split_id: str
    slot_hint: int
    values: list[Any]
    timestamps: list[int] | None


class EntryReader(ABC):
    """What the workers need of such a source. Pickled to them; it must not hold credentials or open resources."""

    @abstractmethod
    def splits(self, columns: list[list[Any]]) -> Iterator[RawRecords]:
        """The rows of one Spark task, given by columns, as records of splits."""

    @abstractmethod
    def slot_hint(self, split_id: str) -> int:
        """A number that is always the same for a split: its reader is this modulo the parallelism."""

    def open(self) -> None:  # noqa: B027 - optional
        """Called once on every worker before the first record."""

    @abstractmethod
    def decode(self, batch: Batch, on_bad_record: OnBadRecord) -> Batch:
        """Raw records as the program sees them. A record that cannot be decoded goes to `on_bad_record`."""


class SparkRead(ABC):
    """A source that Spark reads."""

    #: Whether the source ends.
    bounded: bool = True

    #: The artifact of Spark's project that holds the connector and a class in it, or None for what comes with Spark.
    connector: tuple[str, str] | None = None

    @abstractmethod
    def for_job(self) -> Self:
        """A copy for one job, which may remember where the job has begun."""

    @abstractmethod
    def data_frame(self, spark: Any, epoch_records: int | None, restored: bool) -> Any:
        """The DataFrame of the source, in the driver, once for each attempt of the job. `restored` tells that a
        checkpoint says where it begins. Raises `ExternalSystemError` when a system that it asks does not answer."""

    @abstractmethod
    def reader(self) -> EntryReader:
        """What turns the DataFrame's rows into records."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records, if it is known."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """The system and its address, for errors."""

    def split_ids(self, offset: str) -> list[str]:
        """The splits that one of Spark's logged offsets speaks of: all of them hold event time back until they have
        said something."""
        return []

    def known_splits(self) -> list[str]:
        """The same for a source that ends, once `data_frame` was called."""
        return []

    def secrets(self) -> tuple[str, ...]:
        """What must not appear in any text."""
        return ()

    def checkpointed(self, offset: str) -> None:  # noqa: B027 - optional
        """A checkpoint has been taken that begins at this offset: the other system may be told. Must not raise."""

    def close(self) -> None:  # noqa: B027 - optional
        """The attempt ends: let go of connections."""


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text without the secrets.

    >>> redacted("login of me with hunter2 failed", ("hunter2",))
    'login of me with *** failed'
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
