"""Savepoints: who asked for one, and the manifest that makes one complete."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from msgspec import structs

from millrace.common.completable_future import CompletableFuture
from millrace.common.errors import MillraceError
from millrace.common.job_id import JobID
from millrace.driver.coordinator import EpochResult
from millrace.runtime.epoch import SubtaskId
from millrace.runtime.operators.own_state import LIST_CHECKPOINTED
from millrace.state.files import JobFiles, open_files
from millrace.state.handles import StateHandles
from millrace.state.manifest import Manifest, StateMeta, write_manifest

_LOG = logging.getLogger("millrace.job")


# Written and deleted again before the tasks are asked to write a savepoint.
_PROBE = "manifests/probe"


class SavepointError(MillraceError):
    """A savepoint that cannot be taken."""

    default_code = "MR-2008"


@dataclass
class SavepointRequest:
    """A savepoint that somebody waits for. With `drain`, event time ends first; with `stop`, the job does after it."""

    path: str
    stop: bool = False
    drain: bool = False
    future: CompletableFuture[str] = field(default_factory=CompletableFuture)


class SavepointRequests:
    """What was asked for and not begun. Asked from any thread, answered by the job's own."""

    def __init__(self, job_id: JobID, default_directory: str | None) -> None:
        self._job_id = job_id.to_hex_string()
        self._default = default_directory
        self._waiting: deque[SavepointRequest] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._cause: BaseException | None = None

    def ask(self, directory: str | None, *, stop: bool = False, drain: bool = False) -> CompletableFuture[str]:
        """Ask for a savepoint below a directory."""
        below = directory or self._default
        if below is None:
            raise SavepointError(
                "There is no directory for the savepoint.",
                action="Give one, or set execution.checkpointing.savepoint-dir.",
            )
        text = below.removeprefix("file://").rstrip("/")
        root = text if "://" in text else str(Path(text).absolute())  # Workers may stand in other directories.
        path = f"{root}/savepoint-{self._job_id[:6]}-{uuid4().hex[:12]}"
        request = SavepointRequest(path, stop, drain)
        with self._lock:
            if self._closed:
                request.future.set_exception(self._ended())
            else:
                self._waiting.append(request)
        return request.future

    def waiting(self) -> bool:
        """Whether one is asked for."""
        return bool(self._waiting)

    def next(self) -> SavepointRequest | None:
        """The next one to begin. Those whose directory cannot be written fail here, and not the job's epoch."""
        while self._waiting:
            with self._lock:
                request = self._waiting.popleft()
            error = _refusal(request.path)
            if error is None:
                return request
            request.future.set_exception(error)
        return None

    def close(self, cause: BaseException | None) -> None:
        """The job has ended, perhaps with an error: nobody waits any longer."""
        with self._lock:
            self._closed, self._cause = True, cause
            waiting, self._waiting = list(self._waiting), deque()
        for request in waiting:
            request.future.set_exception(self._ended())

    def _ended(self) -> SavepointError:
        if self._cause is None:
            return SavepointError("The job has ended; there is nothing to save.")
        return SavepointError(f"The job ended before a savepoint was taken: {self._cause}")


def _refusal(path: str) -> SavepointError | None:
    """Why nothing can be written below a path, None where it can."""
    try:
        files = open_files(path)
        files.write(_PROBE, b"")
        files.delete(_PROBE)
    except Exception as error:
        return SavepointError(
            f"The savepoint {path} cannot be written: {type(error).__name__}: {error}",
            action="Name a directory that the program can write to.",
        )
    return None


def complete_savepoint(request: SavepointRequest, manifest: Manifest, result: EpochResult, files: JobFiles) -> None:
    """Make what the tasks have written a savepoint: copy what lies in the job's directory, and write the manifest."""
    target = open_files(request.path)
    for path in _copied(manifest):
        target.write(path, files.read(path))
    _warn_of_missing_uids(manifest)
    subtasks = _subtasks(manifest, result)
    write_manifest(target, structs.replace(manifest, kind="savepoint", final=False, subtasks=subtasks))


def _copied(manifest: Manifest) -> list[str]:
    feedback = [path for subtasks in manifest.feedback.values() for paths in subtasks.values() for path in paths]
    return [*feedback, *manifest.spark.get("files", [])]


def _subtasks(manifest: Manifest, result: EpochResult) -> dict[str, list[StateHandles]]:
    def handles(vertex: str, index: int) -> StateHandles:
        place: SubtaskId = (int(vertex), index)
        return result.savepoint.get(place, StateHandles())

    return {
        vertex: [handles(vertex, index) for index in range(len(subtasks))]
        for vertex, subtasks in manifest.subtasks.items()
    }


def _is_programs_own(state: StateMeta) -> bool:
    return not state.name.startswith("@") or state.name == LIST_CHECKPOINTED


def _warn_of_missing_uids(manifest: Manifest) -> None:
    nameless = [
        meta.name
        for meta in manifest.operators
        if meta.uid.startswith("@") and any(_is_programs_own(state) for state in meta.states if state.entries)
    ]
    if nameless:
        _LOG.warning(
            "These operators have state and no uid, and may not be found again when the program changes: %s. "
            "Give each a uid().",
            ", ".join(nameless),
        )
