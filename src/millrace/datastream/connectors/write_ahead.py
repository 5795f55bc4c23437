"""A sink for systems without transactions: records are logged first, and sent once their checkpoint is complete.

    <job's directory>/wal/<sink>/<epoch>-<subtask>-<unique>-<number>.wal     written by the tasks, read by the driver

A log is deleted when all of its epoch has been sent. So a log that is gone was sent, and a crash between sending and
deleting sends the epoch again: the same values, in the same order, with the same number.
"""

from __future__ import annotations

import hashlib
import pickle
import uuid
from abc import abstractmethod
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from millrace.common import pickling
from millrace.common.encoding import Codec
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.context import RuntimeContext
from millrace.state.errors import StateCorruptedError, StatePickleError
from millrace.state.files import open_files

from .base import Committer, CommitterContext, Sink, SinkWriter

__all__ = ["WriteAheadSink"]

# Records of one log file: what a task holds in memory before it writes them.
_RECORDS_PER_FILE = 10_000


class WriteAheadSink(Sink):
    """Hands records to `send_values` in the driver, epoch by epoch, after the checkpoint that holds them.

    At least once: after a crash an epoch can be sent again. It is then the same in every value, so that a system which
    remembers the last `checkpoint_id`, or takes writes that can be repeated, has each record exactly once.

    Declare `record_type`: without it, records are pickled, and a savepoint that holds some needs
    `state.savepoint.allow-pickle`.

    >>> class Shelf(WriteAheadSink):
    ...     def send_values(self, values, checkpoint_id):
    ...         print(checkpoint_id, values)
    >>> Shelf().describe()
    'Shelf'
    """

    #: The type of the records; None for pickles.
    record_type: TypeInformation | None = None

    @abstractmethod
    def send_values(self, values: list[Any], checkpoint_id: int) -> None:
        """Send the records of an epoch. An error is taken for a passing one; the call is made again."""

    def describe(self) -> str:
        """The system and its address, for error messages. Without credentials."""
        return type(self).__name__

    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        return _LogWriter(self.record_type, runtime_context)

    def create_committer(self) -> Committer:
        return _LogSender(self)


@dataclass(frozen=True)
class _PickledLog:
    """A log that only who trusts the savepoint may read: being no plain value, it is pickled in a manifest itself."""

    path: str
    directory: str
    epoch: int


class _LogWriter(SinkWriter):
    def __init__(self, record_type: TypeInformation | None, context: RuntimeContext) -> None:
        self._codec = None if record_type is None else Codec(record_type)
        self._pickles = record_type is None or record_type.uses_pickle()
        self._context = context
        self._folder = _folder_of(context.get_operator_unique_id())
        self._directory = context.get_checkpoint_directory()
        self._files = open_files(self._directory)
        self._id = uuid.uuid4().hex
        self._number = 0
        self._values: list[Any] = []
        self._logs: list[Any] = []

    def write(self, value: Any, context: Any) -> None:
        self._values.append(value)
        if len(self._values) >= _RECORDS_PER_FILE:
            self._write_log()

    def write_all(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Whole lists, which cost less."""
        self._values.extend(values)
        if len(self._values) >= _RECORDS_PER_FILE:
            self._write_log()

    def flush(self, end_of_input: bool) -> None:
        if self._values:
            self._write_log()

    def _write_log(self) -> None:
        values, self._values = self._values, []
        epoch = self._context.get_checkpoint_id()
        subtask = self._context.get_index_of_this_subtask()
        path = f"{self._folder}/{epoch}-{subtask}-{self._id}-{self._number}.wal"
        self._number += 1
        self._files.write(path, pickling.dumps(values) if self._codec is None else self._codec.encode_batch(values))
        if self._pickles:
            self._logs.append(_PickledLog(path, self._directory, epoch))
        else:
            self._logs.append({"path": path, "directory": self._directory, "epoch": epoch})

    def prepare_commit(self) -> list[Any]:
        logs, self._logs = self._logs, []
        return logs


class _LogSender(Committer):
    """Sends the epochs in their order, those of all subtasks at once."""

    def __init__(self, sink: WriteAheadSink) -> None:
        self._sink = sink
        self._codec = None if sink.record_type is None else Codec(sink.record_type)
        self._pickles = sink.record_type is None or sink.record_type.uses_pickle()

    def open(self, context: CommitterContext) -> None:
        self._folder = _folder_of(context.sink_uid)
        self._files = open_files(context.directory)

    def describe(self) -> str:
        return self._sink.describe()

    def commit(self, committables: list[Any]) -> None:
        if self._pickles and any(isinstance(log, dict) for log in committables):
            raise StatePickleError(
                "a log of pickled records stands in a savepoint as one without",
                action="Do not use this savepoint: it was forged, or written with another record_type.",
            )
        logs = [log if isinstance(log, dict) else vars(log) for log in committables]
        logs.sort(key=lambda log: int(log["epoch"]))  # stable: within an epoch by subtask and number
        for epoch, group in groupby(logs, key=lambda log: int(log["epoch"])):
            self._send(epoch, list(group))

    def _send(self, epoch: int, logs: list[dict[str, Any]]) -> None:
        try:
            values = [value for log in logs for value in self._read(log)]
        except StateCorruptedError:
            if all(map(self._is_there, logs)):
                raise
            # The first is deleted first, and after everything was sent.
            values = []
        if values:
            self._sink.send_values(values, epoch)
        for log in logs:
            open_files(log["directory"]).delete(log["path"])

    def _read(self, log: dict[str, Any]) -> list[Any]:
        data = open_files(log["directory"]).read(log["path"])
        if self._codec is not None:
            return self._codec.decode_batch(data)
        values: list[Any] = pickle.loads(data)
        return values

    @staticmethod
    def _is_there(log: dict[str, Any]) -> bool:
        path: str = log["path"]
        return path in open_files(log["directory"]).list(path.rpartition("/")[0])

    def clean_up(self) -> None:
        for path in self._files.list(self._folder):
            self._files.delete(path)


def _folder_of(uid: str) -> str:
    """A folder for each sink, whatever its uid looks like."""
    return f"wal/{hashlib.sha256(uid.encode()).hexdigest()[:16]}"
