"""A job's checkpoints: when one is due, writing it, and which files may go.

    accepted epoch  →  is_due?  →  take: manifest (atomic)  →  epoch record  →  what nothing kept needs is deleted
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from millrace.common.errors import MillraceError
from millrace.driver.epoch_records import EpochRecord, EpochRecords
from millrace.driver.home import JobHome
from millrace.graph.job_options import CheckpointOptions
from millrace.state.errors import StateCorruptedError
from millrace.state.manifest import Manifest, garbage, list_manifests, manifest_path, read_manifest, write_manifest

_LOG = logging.getLogger("millrace.job")

# Files of attempts that failed are looked for in the whole directory: not with each checkpoint.
_SWEEP_SECONDS = 60.0


class CheckpointFailedError(MillraceError):
    """A checkpoint could not be completed, and no more failures are tolerated."""

    default_code = "MR-2007"


class Checkpointer:
    """Takes the checkpoints of one job. `clock` gives seconds.

    What is kept: the newest `retained` manifests, the records of their epochs and of the one that failed last, the
    files that these name, and those that the next epoch reads.
    """

    def __init__(
        self, home: JobHome, options: CheckpointOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._home = home
        self._options = options
        self._clock = clock
        self._started = clock()  # of the last checkpoint
        self._ended = self._started - options.min_pause / 1000
        self._swept = self._started
        self._kept: dict[int, Manifest] = {}
        self._bad: set[int] = set()
        self._records = EpochRecords(home.files)
        self._failures = 0
        self.newest_taken: Manifest | None = None
        self.completed = 0
        self.aborted = 0

    def is_due(self) -> bool:
        """Whether the epoch that has just ended is to be a checkpoint."""
        now = self._clock()
        interval, pause = self._options.interval / 1000, self._options.min_pause / 1000
        return now - self._started >= interval and now - self._ended >= pause

    def take(self, manifest: Manifest, record: EpochRecord | None = None) -> bool:
        """Complete a checkpoint. False if it failed and that is tolerated: then the one before still counts.

        The failure of a job's last checkpoint is not: none would come after it to let out what sinks have prepared.
        `record` is that of the epoch which ends with it.
        """
        self._started = self._clock()
        try:
            self._home.check_owner()
            write_manifest(self._home.files, manifest)
            self._check_time(manifest)
        except OSError as error:
            self._failed(manifest, error)
            return False
        self._ended = self._clock()
        self._failures = 0
        self._kept[manifest.epoch] = manifest
        self._bad.discard(manifest.epoch)
        self.newest_taken = manifest
        self.completed = manifest.epoch
        if record is not None:
            self._records.put(record)
        self._forget_old()
        return True

    def keep_failed(self, record: EpochRecord) -> None:
        """Keep the record of an epoch that failed, in place of the one that failed before. Its attempt is over."""
        self._home.check_owner()
        before = self.keeps()
        self._records.put(record)
        for path in before - self.keeps():
            self._home.files.delete(path)

    def _check_time(self, manifest: Manifest) -> None:
        took = self._clock() - self._started
        if took * 1000 > self._options.timeout:
            self._home.files.delete(manifest_path(manifest.epoch))
            raise TimeoutError(f"it took {took:.1f} s, and {self._options.timeout / 1000:g} s are allowed")

    def _failed(self, manifest: Manifest, error: OSError) -> None:
        self._failures += 1
        self.aborted = manifest.epoch
        what = f"Checkpoint {manifest.epoch} in {self._home.directory} failed: {error}"
        if manifest.final or self._failures > self._options.tolerable_failures:
            raise CheckpointFailedError(
                what, action="Make room, or make the directory writable; the job goes on from the checkpoint before."
            ) from error
        _LOG.warning("%s (failure %d of %d)", what, self._failures, self._options.tolerable_failures)

    # --- going back ---------------------------------------------------------------------------------------------

    def newest(self) -> Manifest | None:
        """The newest checkpoint that is whole, as far as is known; damaged ones are named in the log.

        All that there are count as kept from now on, with their files.
        """
        self._records.load()
        for epoch in list_manifests(self._home.files):
            if epoch not in self._bad and epoch not in self._kept:
                self._look_at(epoch)
        good = [epoch for epoch in self._kept if epoch not in self._bad]
        return self._kept[max(good)] if good else None

    def _look_at(self, epoch: int) -> None:
        try:
            self._kept[epoch] = read_manifest(self._home.files, epoch)
        except StateCorruptedError as error:
            _LOG.warning("Checkpoint %d is left out: %s", epoch, error)
            self._bad.add(epoch)

    def all_damaged(self) -> bool:
        """Whether there are checkpoints and none of them is of use."""
        return bool(self._bad) and not self._kept.keys() - self._bad

    def distrust(self, manifest: Manifest, why: str) -> bool:
        """A file that this checkpoint needs is damaged. Whether there is an older one to go on from."""
        self._bad.add(manifest.epoch)
        _LOG.warning("Checkpoint %d is damaged and left out: %s", manifest.epoch, why)
        return self.newest() is not None

    def begin(self, manifest: Manifest) -> None:
        """A new attempt goes on from a manifest: what came after it never was."""
        for epoch in [epoch for epoch in list_manifests(self._home.files) if epoch > manifest.epoch]:
            self._home.files.delete(manifest_path(epoch))
            self._kept.pop(epoch, None)
            self._bad.discard(epoch)
        self._records.keep_only(self._kept)
        self._started = self._clock()
        self.newest_taken = manifest
        self.sweep()

    # --- files ----------------------------------------------------------------------------------------------------

    def keeps(self) -> set[str]:
        """The files that kept checkpoints and records need."""
        return self._records.files().union(*(manifest.files() for manifest in self._kept.values()))

    def _forget_old(self) -> None:
        before = self.keeps()
        old = sorted(self._kept)[: -self._options.retained]
        for epoch in old:
            del self._kept[epoch]
            self._home.files.delete(manifest_path(epoch))
        self._records.keep_only(self._kept)
        for path in before - self.keeps():
            self._home.files.delete(path)
        if self._clock() - self._swept > _SWEEP_SECONDS:
            self.sweep()

    def sweep(self) -> None:
        """Delete what attempts that failed have left behind."""
        self._swept = self._clock()
        needed = self._records.files()
        for path in garbage(self._home.files, self._kept.values()):
            if path not in needed:
                self._home.files.delete(path)
