"""The half of the file sink that lives in the tasks: it stages files.

    <path>/.staging/<job>-<sink>/<unique>-<number>        being written, or waiting for the checkpoint

What stands under such a name belongs to one writer of one attempt, so that two attempts never meet.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import uuid
from dataclasses import dataclass
from typing import Any

from millrace.common.errors import ProgramError, short_repr
from millrace.common.serialization import BulkWriterFactory
from millrace.runtime.context import RuntimeContext
from millrace.runtime.failure import UserCodeError

from ..base import SinkWriter
from ._compaction import FileCompactor, FileCompactStrategy
from ._policies import BucketAssigner, OutputFileConfig, PartFile, RollingPolicy
from ._storage import storage_of

STAGING = ".staging"


@dataclass(frozen=True)
class FileSinkSettings:
    """What a file sink was told."""

    location: str
    writer_factory: BulkWriterFactory
    assigner: BucketAssigner
    policy: RollingPolicy
    names: OutputFileConfig
    strategy: FileCompactStrategy | None = None
    compactor: FileCompactor | None = None


def staging_folder(job_id: str, sink_uid: str) -> str:
    """Where the files of one sink of one job are staged; the same after a restart."""
    return f"{STAGING}/{job_id}-{hashlib.sha256(sink_uid.encode()).hexdigest()[:12]}"


def checked_bucket(bucket: Any) -> str:
    """A bucket's folder, if it lies below the sink's directory and is no hidden one."""
    parts = bucket.split("/") if isinstance(bucket, str) and bucket else []
    if not isinstance(bucket, str) or any(part in {"", "."} or part.startswith("..") for part in parts):
        raise ProgramError(
            f"A bucket assigner gave {short_repr(bucket)}, which is no folder below the sink's directory.",
            action="Give a relative path such as 'country=de/day=2024-05-01', or '' for the directory itself.",
        )
    if parts and parts[0] == STAGING:
        raise ProgramError(f"The bucket {STAGING!r} is the sink's own.", action="Give it another name.")
    return bucket


class FileWriter(SinkWriter):
    """Stages the records of one subtask, each epoch in new files."""

    def __init__(self, settings: FileSinkSettings, context: RuntimeContext) -> None:
        self._settings = settings
        self._context = context
        self._storage, self._base = storage_of(settings.location)
        self._folder = staging_folder(context.get_job_id(), context.get_operator_unique_id())
        self._id = uuid.uuid4().hex
        self._number = 0
        self._open: dict[str, _OpenFile] = {}
        self._staged: list[dict[str, Any]] = []
        self._factory = settings.writer_factory
        opening = getattr(self._factory, "open", None)
        if opening is not None:
            opening()

    def write(self, value: Any, context: Any) -> None:
        bucket = self._settings.assigner.get_bucket_id(value, context)
        file = self._file(bucket, context.current_processing_time())
        file.writer.add_element(value)
        self._added(file, 1)

    def _file(self, bucket: str, now: int) -> _OpenFile:
        file = self._open.get(bucket)
        if file is None:
            file = self._open[bucket] = self._begin(checked_bucket(bucket), now)
        return file

    def _begin(self, bucket: str, now: int) -> _OpenFile:
        number, self._number = self._number, self._number + 1
        names = self._settings.names
        subtask = self._context.get_index_of_this_subtask()
        final = f"{names.get_part_prefix()}-{subtask}-{self._id}-{number}{names.get_part_suffix()}"
        staged = f"{self._folder}/{self._id}-{number}"
        stream = self._storage.create(f"{self._base}/{staged}")
        try:
            writer = self._factory.create(stream)
        except BaseException:
            stream.close()
            raise
        committable = {"staged": staged, "final": f"{bucket}/{final}" if bucket else final, "size": 0}
        return _OpenFile(PartFile(bucket, now), stream, writer, committable)

    def _added(self, file: _OpenFile, records: int) -> None:
        part = file.part
        part.records += records
        part.size = file.stream.tell()
        if self._settings.policy.should_roll_on_event(part):
            self._stage(file)

    def _stage(self, file: _OpenFile) -> None:
        file.writer.finish()
        file.committable["size"] = file.stream.tell()
        self._storage.finish(file.stream)
        del self._open[file.part.bucket_id]
        self._staged.append(file.committable)

    def flush(self, end_of_input: bool) -> None:
        for file in list(self._open.values()):
            self._stage(file)

    def prepare_commit(self) -> list[Any]:
        staged, self._staged = self._staged, []
        return staged

    def close(self) -> None:
        for file in self._open.values():
            with contextlib.suppress(Exception):  # Parquet would write its footer later, when it is collected.
                file.writer.finish()
            with contextlib.suppress(Exception):
                file.stream.close()
            self._staged.append(file.committable)
        self._open.clear()
        for committable in self.prepare_commit():
            self._storage.delete(f"{self._base}/{committable['staged']}")


@dataclass
class _OpenFile:
    part: PartFile
    stream: Any
    writer: Any
    committable: dict[str, Any]


class BatchFileWriter(FileWriter):
    """The same for assigners that name one bucket for many records: these are written as lists."""

    def write_all(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Write a list of records."""
        now = self._context.get_processing_time()
        file = self._file(self._settings.assigner.get_bucket_id(values[0], _Now(now)), now)
        add_elements = getattr(file.writer, "add_elements", None)
        try:
            if add_elements is not None:
                add_elements(values)
            else:
                for value in values:
                    file.writer.add_element(value)
        except Exception as error:
            raise self._named(values, error) from error
        self._added(file, len(values))

    def _named(self, values: list[Any], error: Exception) -> Exception:
        """The error with the record that it came from, which is found by writing each one on its own."""
        for value in values:
            writer = self._factory.create(io.BytesIO())
            try:
                writer.add_element(value)
                writer.finish()
            except Exception:
                return UserCodeError.wrap(error, self._factory, value, "writing to a file by")
        return error


class _Now:
    """What an assigner that does not look at records may ask."""

    def __init__(self, processing_time: int) -> None:
        self._processing_time = processing_time

    def current_processing_time(self) -> int:
        return self._processing_time
