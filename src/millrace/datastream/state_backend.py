"""Where state is kept while a job runs."""

from __future__ import annotations

from enum import Enum

from millrace.common.errors import NotSupportedError, ProgramError

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]


class StateBackend:
    """The base of the state backends."""


class HashMapStateBackend(StateBackend):
    """State lives in dictionaries of the Python workers. This is the default."""


class PredefinedOptions(Enum):
    """Flink's sets of RocksDB settings; accepted, so that a program need not change."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keyed state lives in RocksDB on the workers' disks, so that it may outgrow memory.

    Timers, operator state and broadcast state stay in memory. Checkpoints are incremental whatever is set here.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = bool(enable_incremental_checkpointing)
        self._paths: list[str] = []
        self._predefined = PredefinedOptions.DEFAULT
        self._threads = 4  # Flink's default.

    def set_db_storage_paths(self, *paths: str) -> None:
        if not paths:
            raise ProgramError("RocksDB needs at least one directory")
        self._paths = list(paths)

    def get_db_storage_paths(self) -> list[str]:
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        raise NotSupportedError(
            f"{options_factory_class_name!r} names a Java class, and there is no JVM to load it.",
            action="Use set_predefined_options(...).",
        )

    def get_options(self) -> str | None:
        return None

    def get_number_of_transfer_threads(self) -> int:
        return self._threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        if number_of_transfering_threads < 1:
            raise ProgramError(f"at least one thread is needed, got {number_of_transfering_threads}")
        self._threads = number_of_transfering_threads
