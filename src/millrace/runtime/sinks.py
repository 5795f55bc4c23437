"""Where records go: writers in the tasks stage them, a committer in the driver makes them visible.

    worker:  create_writer | restore_writer ─► { write ... ─► flush ─► prepare_commit ─► snapshot_state } ... ─► close
    driver:  open ─► { the checkpoint's manifest is written ─► commit(all that was prepared since the last one) } ...

One round of a writer is an epoch. A checkpoint may end several: a committer is given what all of them prepared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from millrace.common.typeinfo import TypeInformation
from millrace.runtime.context import RuntimeContext


@dataclass(frozen=True)
class CommitterContext:
    """What a committer may know of its job. `sink_uid` is the operator's: it stays the same across restarts.
    `directory` is where the files of the job are."""

    job_id: str
    job_name: str
    sink_uid: str
    sink_name: str
    directory: str


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
        """What the committer needs to make the epoch's records visible, any number of committables.

        Values of which JSON says it all (dicts with text keys, lists, text, numbers) can be read by everyone who has
        the savepoint; others are pickled.
        """
        return []

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """What the writer of the next epoch begins with, of a sink that has `restore_writer`."""
        return []

    def close(self) -> None:  # noqa: B027 - optional
        """The job ends. What was not committed will not be."""


class Committer(ABC):
    """Makes visible what writers have prepared. Lives in the driver; one for each sink and job."""

    def open(self, context: CommitterContext) -> None:  # noqa: B027 - optional
        """The job begins."""

    @abstractmethod
    def commit(self, committables: list[Any]) -> None:
        """Commit; must do nothing for what was committed before, since a crash may ask for it twice.

        An error is taken for a passing one: the call is made again after a pause, with the same list. A
        `MillraceError` is final.
        """

    def clean_up(self) -> None:  # noqa: B027 - optional
        """All that will ever be committed of earlier attempts of this job has been: what else they have staged is
        garbage. Called before an attempt begins, and when a job has ended."""

    def close(self) -> None:  # noqa: B027 - optional
        """The job has ended."""

    def describe(self) -> str:
        """The system and its address, for error messages. Without credentials."""
        return type(self).__name__


class Sink(ABC):
    """Where records go. Pickled to the workers: it must not hold open resources.

    A sink whose writers have state overrides `restore_writer`. The state is a list of the operator: with another
    parallelism its items are dealt out anew.
    """

    #: The type of the items of the writers' state; None for pickles.
    writer_state_type: TypeInformation | None = None

    @abstractmethod
    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        """The writer of one subtask."""

    def restore_writer(self, runtime_context: RuntimeContext, state: list[Any]) -> SinkWriter:
        """The writer of one subtask, going on from what `snapshot_state` gave: after a restart, and in each epoch
        that another process runs."""
        return self.create_writer(runtime_context)

    def create_committer(self) -> Committer | None:
        """The committer, or None when writing is all there is to do."""
        return None

    def keeps_writer_state(self) -> bool:
        """Whether the writers have state."""
        return type(self).restore_writer is not Sink.restore_writer
