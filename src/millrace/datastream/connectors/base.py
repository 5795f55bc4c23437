"""The interfaces of sources and sinks.

    worker:  create_writer ─► { write ... ─► flush ─► prepare_commit } ... ─► close        one round for each epoch
    driver:  the epoch is safe ─► commit(what was prepared)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from millrace.runtime.context import RuntimeContext
from millrace.runtime.sources.base import Chunk, Offset, Source, Split

__all__ = ["Chunk", "Committer", "DeliveryGuarantee", "Offset", "Sink", "SinkWriter", "Source", "Split"]


class DeliveryGuarantee(Enum):
    """How often a record arrives when tasks are run again."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class SinkWriter(ABC):
    """Writes one subtask's records. What it writes must not be seen before it is committed.

    A writer that has a method `write_all(values, timestamps)` is given whole lists in place of single records.

    A task that is run again has another writer, which writes everything again: name what you write so that the two
    do not meet.
    """

    @abstractmethod
    def write(self, value: Any, context: Any) -> None:
        """Write a record; `context` knows its `timestamp()`, `current_watermark()` and `current_processing_time()`."""

    def flush(self, end_of_input: bool) -> None:  # noqa: B027 - optional
        """An epoch ends; with `end_of_input` the last one."""

    def prepare_commit(self) -> list[Any]:
        """What the committer needs to make the epoch's records visible; it is pickled to the driver."""
        return []

    def close(self) -> None:  # noqa: B027 - optional
        """The job ends. What was not committed will not be."""


class Committer(ABC):
    """Makes visible what writers have prepared. Lives in the driver."""

    @abstractmethod
    def commit(self, committables: list[Any]) -> None:
        """Commit; must do nothing for what was committed before, since a crash may ask for it twice."""


class Sink(ABC):
    """Where records go. Pickled to the workers: it must not hold open resources."""

    @abstractmethod
    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        """The writer of one subtask."""

    def create_committer(self) -> Committer | None:
        """The committer, or None when writing is all there is to do."""
        return None
