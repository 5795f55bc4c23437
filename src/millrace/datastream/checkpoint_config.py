"""The settings of checkpoints."""

from __future__ import annotations

from typing import Final

from millrace.common.errors import ProgramError
from millrace.common.time import Duration, DurationLike, to_millis

from .checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from .checkpointing_mode import CheckpointingMode
from .externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

# Flink's default of execution.checkpointing.timeout.
_DEFAULT_TIMEOUT_MS: Final = 600_000

_DEFAULT_RETAINED: Final = 2


class CheckpointConfig:
    """When checkpoints are taken and what becomes of them. An interval of -1 means: none are kept.

    Every epoch is consistent by construction, so that nothing is in flight when it ends: unaligned checkpoints are
    accepted and have nothing to do.

    >>> config = CheckpointConfig().set_checkpoint_interval(1000)
    >>> config.is_checkpointing_enabled(), config.get_checkpoint_interval()
    (True, 1000)
    """

    DEFAULT_MODE: Final = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT: Final = _DEFAULT_TIMEOUT_MS
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS: Final = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS: Final = 1

    def __init__(self) -> None:
        self._interval = -1
        self._mode = self.DEFAULT_MODE
        self._timeout = self.DEFAULT_TIMEOUT
        self._min_pause = self.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS
        self._max_concurrent = self.DEFAULT_MAX_CONCURRENT_CHECKPOINTS
        self._tolerable_failures = 0
        self._retention = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        self._unaligned = False
        self._force_unaligned = False
        self._alignment_timeout = Duration(0)
        self._storage: CheckpointStorage | None = None
        self._retained = _DEFAULT_RETAINED

    def is_checkpointing_enabled(self) -> bool:
        return self._interval > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self._mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        self._mode = checkpointing_mode
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints; -1 when there are none."""
        return self._interval

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        self._interval = _at_least("the checkpoint interval", to_millis(checkpoint_interval), 10)
        return self

    def get_checkpoint_timeout(self) -> int:
        return self._timeout

    def set_checkpoint_timeout(self, checkpoint_timeout: DurationLike) -> CheckpointConfig:
        self._timeout = _at_least("the checkpoint timeout", to_millis(checkpoint_timeout), 10)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        return self._min_pause

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: DurationLike) -> CheckpointConfig:
        self._min_pause = _at_least("the pause between checkpoints", to_millis(min_pause_between_checkpoints), 0)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        return self._max_concurrent

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Accepted; checkpoints never overlap here."""
        self._max_concurrent = _at_least("the number of concurrent checkpoints", max_concurrent_checkpoints, 1)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        return self._tolerable_failures == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        self._tolerable_failures = 0 if fail_on_checkpointing_errors else 2**31 - 1
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return self._tolerable_failures

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        self._tolerable_failures = _at_least("the tolerable failures", tolerable_checkpoint_failure_number, 0)
        return self

    # -- what becomes of checkpoints --------------------------------------------------------------------

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        self._retention = retention_mode
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        return self._retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        return self._retention

    def get_max_retained_checkpoints(self) -> int:
        """How many complete checkpoints are kept."""
        return self._retained

    def set_max_retained_checkpoints(self, max_retained_checkpoints: int) -> CheckpointConfig:
        """Two by default, so that a damaged one leaves another to go on from. (Flink keeps one.)"""
        self._retained = _at_least("the number of retained checkpoints", max_retained_checkpoints, 1)
        return self

    # -- where they are kept -------------------------------------------------------------------------------

    def set_checkpoint_storage(self, storage: CheckpointStorage | str) -> CheckpointConfig:
        """A storage, or the directory of a `FileSystemCheckpointStorage`."""
        self._storage = storage if isinstance(storage, CheckpointStorage) else FileSystemCheckpointStorage(storage)
        return self

    set_checkpoint_storage_dir = set_checkpoint_storage

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """None: checkpoints end with the driver, as in a `JobManagerCheckpointStorage`."""
        return self._storage

    # -- alignment ---------------------------------------------------------------------------------------

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self._unaligned

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        self._unaligned = enabled
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: DurationLike) -> CheckpointConfig:
        millis = _at_least("the alignment timeout", to_millis(alignment_timeout), 0)
        self._alignment_timeout = Duration.of_millis(millis)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        return self._alignment_timeout

    set_alignment_timeout = set_aligned_checkpoint_timeout
    get_alignment_timeout = get_aligned_checkpoint_timeout

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        self._force_unaligned = force_unaligned_checkpoints
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._force_unaligned


def _at_least(what: str, number: int, least: int) -> int:
    if number < least:
        raise ProgramError(f"{what} must be at least {least}, got {number}")
    return number
