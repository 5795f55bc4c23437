"""What a job has left: its entry in the index, and the records of its epochs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from millrace.common.errors import MillraceError
from millrace.driver.epoch_records import EpochRecord, read_records
from millrace.driver.home import JobEntry, list_jobs
from millrace.state.errors import StateError
from millrace.state.files import open_files
from millrace.state.manifest import OperatorMeta, list_manifests


class ReplayError(MillraceError):
    """An epoch that cannot be replayed."""

    default_code = "MR-5001"


_RETENTION = (
    "A job that ends deletes its checkpoints, unless execution.checkpointing.externalized-checkpoint-retention is "
    "DELETE_ON_CANCELLATION (kept when it fails) or RETAIN_ON_CANCELLATION (kept always)."
)


@dataclass(frozen=True)
class JobArchive:
    """A job's directory, as it lies there. `entry` is missing where the directory was copied away from its index."""

    directory: str
    entry: JobEntry | None
    records: list[EpochRecord]
    damaged: list[StateError]

    def record(self, epoch: int | None, attempt: int | None) -> EpochRecord:
        """The record of an epoch. Without a number it is the one that failed; where two records are of one epoch, and
        no attempt is given, the failed one."""
        found = [
            record
            for record in self.records
            if (epoch is None or record.epoch == epoch)
            and (attempt is None or record.attempt == attempt)
            and (epoch is not None or record.failure is not None)
        ]
        if not found:
            raise self._not_found(epoch)
        return next((record for record in found if record.failure is not None), found[-1])

    def _not_found(self, epoch: int | None) -> Exception:
        if self.damaged:
            return self.damaged[0]
        known = ", ".join(str(record.epoch) for record in self.records)
        if epoch is None:
            return ReplayError(f"No epoch failed in {self.directory}.", action=f"Give --epoch, one of {known}.")
        return ReplayError(f"There is no such record of epoch {epoch}.", action=f"Give --epoch, one of {known}.")


def find_job(path: str) -> JobArchive:
    """The job at a path: its directory, or a checkpoint directory with only one job in it."""
    place = path.removeprefix("file://")
    place = place.rstrip("/") if "://" in place else str(Path(place).absolute())
    files = open_files(place)
    if not (files.list("epochs") or list_manifests(files)):
        place = f"{place}/{_only_job(path, place)}"
        files = open_files(place)
    records, damaged = read_records(files)
    if not records and not damaged:
        raise ReplayError(f"There is no epoch record in {place}.", action=_RETENTION)
    root, _, job_id = place.rpartition("/")
    entry = next((entry for entry in list_jobs(root) if entry.job_id == job_id), None)
    return JobArchive(place, entry, records, damaged)


def _only_job(path: str, root: str) -> str:
    jobs = list_jobs(root)
    if not jobs:
        raise ReplayError(f"There is no job in {path!r}.", action=f"Give a checkpoint directory. {_RETENTION}")
    if len(jobs) > 1:
        lines = "".join(f"\n  {root}/{job.job_id}  {job.name} ({job.status})" for job in jobs)
        raise ReplayError(f"There are {len(jobs)} jobs in {path!r}.", action=f"Give the directory of one:{lines}")
    return jobs[0].job_id


def find_operator(record: EpochRecord, wanted: str | None) -> OperatorMeta:
    """The operator of a uid (or of a name that only one has). Without one, it is the operator that failed."""
    operators = record.before.operators
    if wanted is None:
        wanted = "" if record.failure is None else record.failure.uid
        if not wanted:
            raise ReplayError("It is not known which operator is meant.", action=_choose(operators))
    found = [meta for meta in operators if meta.uid == wanted]
    found = found or [meta for meta in operators if wanted in (meta.name, meta.name.partition(": ")[2])]
    if len(found) != 1:
        how_many = "No operator has" if not found else f"{len(found)} operators have"
        raise ReplayError(f"{how_many} the uid or name {wanted!r}.", action=_choose(operators))
    return found[0]


def _choose(operators: list[OperatorMeta]) -> str:
    width = max((len(meta.uid) for meta in operators), default=0)
    lines = [f"\n  {meta.uid:{width}}  {meta.name}  x{meta.parallelism}" for meta in operators]
    return "Give --uid, one of:" + "".join(lines)


def find_subtask(record: EpochRecord, operator: OperatorMeta, wanted: int | None) -> int:
    """The subtask that was asked for; without one, the one that failed, or the only one."""
    failure = record.failure
    if wanted is None and failure is not None and failure.uid == operator.uid:
        wanted = failure.subtask
    if wanted is None and operator.parallelism == 1:
        wanted = 0
    if wanted is None or not 0 <= wanted < operator.parallelism:
        raise ReplayError(
            f"Operator {operator.uid!r} has {operator.parallelism} subtasks"
            + (", and one of them is to be replayed." if wanted is None else f", and no subtask {wanted}."),
            action=f"Give --subtask, from 0 to {operator.parallelism - 1}.",
        )
    return wanted
