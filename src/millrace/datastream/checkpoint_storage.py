"""Where checkpoints are kept."""

from __future__ import annotations

from typing import Final

from millrace.common.errors import ProgramError

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]


class CheckpointStorage:
    """The base of the places for checkpoints."""

    def get_directory(self) -> str | None:
        """The directory for durable checkpoints; None where they end with the driver."""
        return None


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints that end with the driver. Flink keeps them in the job manager's memory, Millrace in a temporary
    directory of the driver's machine: restarts go on from them, a new process does not."""

    #: Flink's bound on one state, in bytes.
    DEFAULT_MAX_STATE_SIZE: Final = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int = DEFAULT_MAX_STATE_SIZE) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = max_state_size

    def get_checkpoint_path(self) -> str | None:
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """A directory, local or of any file system that `pyarrow.fs` reaches."""

    #: Flink's bound on the threshold below which state goes into the metadata file, in bytes.
    MAX_FILE_STATE_THRESHOLD: Final = 1024 * 1024

    def __init__(
        self, checkpoint_path: str, file_state_size_threshold: int = -1, write_buffer_size: int = -1
    ) -> None:
        if not isinstance(checkpoint_path, str) or not checkpoint_path:
            raise ProgramError(f"checkpoints need a directory, got {checkpoint_path!r}")
        if file_state_size_threshold > self.MAX_FILE_STATE_THRESHOLD:
            raise ProgramError(f"the threshold must be at most {self.MAX_FILE_STATE_THRESHOLD} bytes")
        self._checkpoint_path = checkpoint_path
        self._threshold = max(file_state_size_threshold, 0)
        self._write_buffer_size = max(write_buffer_size, 4096)

    def get_checkpoint_path(self) -> str:
        return self._checkpoint_path

    def get_directory(self) -> str | None:
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        return None

    def get_min_file_size_threshold(self) -> int:
        return self._threshold

    def get_write_buffer_size(self) -> int:
        return self._write_buffer_size
