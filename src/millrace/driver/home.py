"""A job's directory, and whose it is.

    <checkpoint directory>/jobs/<job id>.json      name, script with its arguments, status, owner
                           jobs/<job id>.lock      held (flock) as long as the driver lives
                           <job id>/...            the job's files

A driver that is killed leaves an entry that says RUNNING and a lock that nobody holds: the same program, started
again with the same checkpoint directory, goes on from there. Who takes an entry over writes itself into it, and a
driver that finds another owner there may not complete a checkpoint any more.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec

from millrace.common.errors import MillraceError
from millrace.common.job_id import JobID
from millrace.state.errors import StateCorruptedError
from millrace.state.files import JobFiles, local_path, open_files

_LOG = logging.getLogger("millrace.job")

RUNNING = "RUNNING"


@dataclass(frozen=True)
class JobIdentity:
    """By what a job is known again in another process."""

    name: str
    script: str
    ordinal: int


class JobEntry(msgspec.Struct, frozen=True):
    """What the index says about a job. With the script's `arguments`, and `python_path` for what it imports, its
    program can be run again."""

    job_id: str
    name: str
    script: str
    ordinal: int
    status: str
    owner: str
    created: int
    host: str = ""
    pid: int = 0
    arguments: list[str] = []
    python_path: list[str] = []
    format: int = 1

    @property
    def identity(self) -> JobIdentity:
        return JobIdentity(self.name, self.script, self.ordinal)


class OwnerChangedError(MillraceError):
    """Another driver has taken the job over."""

    default_code = "MR-2005"


class JobHome:
    """The directory of one job, as its driver holds it. `continues` tells that another process has begun the job."""

    def __init__(self, root: str, entry: JobEntry | None, lock: int | None = None, continues: bool = False) -> None:
        self.job_id = JobID(entry.job_id) if entry is not None else JobID()
        self.continues = continues
        self.directory = f"{root}/{self.job_id}" if entry is not None else root
        self.files = open_files(self.directory)
        self._root = open_files(root)
        self._entry = entry
        self._lock = lock

    @property
    def is_durable(self) -> bool:
        """Whether it outlives the driver."""
        return self._entry is not None

    def check_owner(self) -> None:
        """Raise `OwnerChangedError` unless this driver still has the job."""
        if self._entry is None:
            return
        found = _read_entry(self._root, _entry_path(self._entry.job_id))
        if found is None or found.owner != self._entry.owner:
            raise OwnerChangedError(
                f"Another driver runs the job {self._entry.name!r} ({self._entry.job_id}) now; this one must end.",
                action="Run one driver for each job, or give each its own checkpoint directory.",
            )

    def close(self, status: str, keep: bool) -> None:
        """The job has ended: its files go, or stay for who wants to begin from them."""
        if self._entry is None:
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        try:
            if keep:
                _write_entry(self._root, msgspec.structs.replace(self._entry, status=status))
            else:
                self._delete()
        except OSError as error:
            _LOG.warning("The files of job %s in %s could not be put in order: %s", self.job_id, self.directory, error)
        finally:
            self._unlock()

    def abandon(self) -> None:
        """The job never began. What an earlier process of it has left waits for a program that fits it."""
        self.close(RUNNING if self.continues else "FAILED", keep=self.continues)

    def _delete(self) -> None:
        assert self._entry is not None
        # The entry first: without it nobody goes on from files that are half gone.
        self._root.delete(_entry_path(self._entry.job_id))
        delete_tree(self.directory)
        self._root.delete(_lock_path(self._entry.job_id))

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def temporary_home() -> JobHome:
    """A directory that ends with the job."""
    return JobHome(tempfile.mkdtemp(prefix="millrace-"), None)


def durable_home(
    root: str, identity: JobIdentity, arguments: Sequence[str] = (), python_path: Sequence[str] = ()
) -> JobHome:
    """The directory that a killed driver of the same job has left below `root`, or a new one."""
    files = open_files(root)
    mine = {**_me(), "arguments": list(arguments), "python_path": list(python_path)}
    for path in files.list("jobs"):
        entry = _read_entry(files, path) if path.endswith(".json") else None
        if entry is None or entry.status != RUNNING or entry.identity != identity:
            continue
        lock = _locked(root, entry.job_id)
        if lock is not None or local_path(root) is None:
            return _own(root, files, msgspec.structs.replace(entry, **mine), lock, continues=True)
    now = int(time.time() * 1000)
    job_id = JobID().to_hex_string()
    fresh = JobEntry(job_id, identity.name, identity.script, identity.ordinal, RUNNING, "", now)
    entry = msgspec.structs.replace(fresh, **mine)
    return _own(root, files, entry, _locked(root, job_id), continues=False)


def _me() -> dict[str, Any]:
    return {"owner": uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}


def _own(root: str, files: JobFiles, entry: JobEntry, lock: int | None, continues: bool) -> JobHome:
    try:
        _write_entry(files, entry)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise
    return JobHome(root, entry, lock, continues)


def list_jobs(root: str) -> list[JobEntry]:
    """What the index of a checkpoint directory says about its jobs, as far as it can be read."""
    files = open_files(root)
    found = (_read_entry(files, path) for path in files.list("jobs") if path.endswith(".json"))
    return [entry for entry in found if entry is not None]


def _entry_path(job_id: str) -> str:
    return f"jobs/{job_id}.json"


def _lock_path(job_id: str) -> str:
    return f"jobs/{job_id}.lock"


def _write_entry(files: JobFiles, entry: JobEntry) -> None:
    files.write(_entry_path(entry.job_id), msgspec.json.format(msgspec.json.encode(entry)))


def _read_entry(files: JobFiles, path: str) -> JobEntry | None:
    try:
        return msgspec.json.decode(files.read(path), type=JobEntry)
    except (StateCorruptedError, msgspec.DecodeError):
        return None


def _locked(root: str, job_id: str) -> int | None:
    """A lock that ends with this process, or None where another one has it (or where files cannot be locked)."""
    local = local_path(root)
    if local is None:
        return None
    path = local / _lock_path(job_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def delete_tree(directory: str) -> None:
    """Remove a directory and all below it."""
    local = local_path(directory)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    from pyarrow.fs import FileSystem

    filesystem, path = FileSystem.from_uri(directory)
    filesystem.delete_dir(path)
