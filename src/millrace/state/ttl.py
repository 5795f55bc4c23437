"""Time to live of state: how long an entry is kept after it was last written (or read).

Time is processing time as Flink defines it. Millrace sets the clock once per epoch, so that an epoch that is
run again expires the same entries.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Any

# Flink's defaults: entries looked at per access, and entries between two looks at the time in a RocksDB compaction.
DEFAULT_INCREMENTAL_CLEANUP_SIZE = 5
DEFAULT_COMPACTION_QUERY_ENTRIES = 1000


def ttl_milliseconds(ttl: Any) -> int:
    """The milliseconds of a `timedelta`, a `Time`, a `Duration` or a plain number of milliseconds.

    >>> ttl_milliseconds(timedelta(minutes=1))
    60000
    """
    if isinstance(ttl, timedelta):
        return ttl // timedelta(milliseconds=1)
    if isinstance(ttl, int) and not isinstance(ttl, bool):
        return ttl
    for name in ("to_milliseconds", "to_millis"):
        method = getattr(ttl, name, None)
        if method is not None:
            return int(method())
    raise TypeError(f"a time to live is a timedelta, Time or Duration, not {type(ttl).__name__}: {ttl!r}")


class _UpdateType(Enum):
    """Which access prolongs the life of an entry."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class _StateVisibility(Enum):
    """Whether an entry that has expired, but was not cleaned up yet, is still returned."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(Enum):
    """The time that lives are measured in."""

    ProcessingTime = 0


class _Strategies(Enum):
    """The kinds of clean-up."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


class _CleanupStrategy:
    """Base of the descriptions of a clean-up."""


class _EmptyCleanupStrategy(_CleanupStrategy):
    """A clean-up without settings."""


class _IncrementalCleanupStrategy(_CleanupStrategy):
    """Look at `cleanup_size` further entries with each access to the state."""

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        if cleanup_size < 0:
            raise ValueError(f"cleanup_size must not be negative: {cleanup_size}")
        self._cleanup_size = cleanup_size
        self._run_cleanup_for_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        return self._run_cleanup_for_every_record


class _RocksdbCompactFilterCleanupStrategy(_CleanupStrategy):
    """Drop expired entries when RocksDB compacts its files. Without effect on the heap backend."""

    def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Any = None) -> None:
        self._query_time_after_num_entries = query_time_after_num_entries
        self._periodic_compaction_time = (
            timedelta(days=30) if periodic_compaction_time is None else periodic_compaction_time
        )

    def get_query_time_after_num_entries(self) -> int:
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Any:
        return self._periodic_compaction_time


class _CleanupStrategies:
    """The clean-ups that are switched on for a state."""

    Strategies = _Strategies
    CleanupStrategy = _CleanupStrategy
    EmptyCleanupStrategy = _EmptyCleanupStrategy
    IncrementalCleanupStrategy = _IncrementalCleanupStrategy
    RocksdbCompactFilterCleanupStrategy = _RocksdbCompactFilterCleanupStrategy
    EMPTY_STRATEGY = _EmptyCleanupStrategy()

    def __init__(self, strategies: dict[_Strategies, _CleanupStrategy], is_cleanup_in_background: bool) -> None:
        self._strategies = strategies
        self._is_cleanup_in_background = is_cleanup_in_background

    def chosen(self) -> frozenset[_Strategies]:
        """The clean-ups that the program asked for by name."""
        return frozenset(self._strategies)

    def is_cleanup_in_background(self) -> bool:
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        return _Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> _IncrementalCleanupStrategy | None:
        """What was asked for, else Flink's default where the background clean-up is on, else None."""
        chosen = self._strategies.get(_Strategies.INCREMENTAL_CLEANUP)
        if isinstance(chosen, _IncrementalCleanupStrategy):
            return chosen
        if self._is_cleanup_in_background:
            return _IncrementalCleanupStrategy(DEFAULT_INCREMENTAL_CLEANUP_SIZE, False)
        return None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _RocksdbCompactFilterCleanupStrategy | None:
        chosen = self._strategies.get(_Strategies.ROCKSDB_COMPACTION_FILTER)
        if isinstance(chosen, _RocksdbCompactFilterCleanupStrategy):
            return chosen
        if self._is_cleanup_in_background:
            return _RocksdbCompactFilterCleanupStrategy(DEFAULT_COMPACTION_QUERY_ENTRIES)
        return None


class _Builder:
    """Builds a `StateTtlConfig`; made by `StateTtlConfig.new_builder(ttl)`."""

    def __init__(self, ttl: Any) -> None:
        self._ttl = ttl
        self._update_type = _UpdateType.OnCreateAndWrite
        self._state_visibility = _StateVisibility.NeverReturnExpired
        self._ttl_time_characteristic = _TtlTimeCharacteristic.ProcessingTime
        self._is_cleanup_in_background = True
        self._strategies: dict[_Strategies, _CleanupStrategy] = {}

    def set_update_type(self, update_type: _UpdateType) -> _Builder:
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> _Builder:
        return self.set_update_type(_UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> _Builder:
        return self.set_update_type(_UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: _StateVisibility) -> _Builder:
        self._state_visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> _Builder:
        return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> _Builder:
        return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: _TtlTimeCharacteristic) -> _Builder:
        self._ttl_time_characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> _Builder:
        return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> _Builder:
        """Leave expired entries out when a base is written (and drop them from memory then)."""
        self._strategies[_Strategies.FULL_STATE_SCAN_SNAPSHOT] = _CleanupStrategies.EMPTY_STRATEGY
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool = False) -> _Builder:
        """Look at `cleanup_size` further entries with each access to the state."""
        self._strategies[_Strategies.INCREMENTAL_CLEANUP] = _IncrementalCleanupStrategy(
            cleanup_size, run_cleanup_for_every_record
        )
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Any = None
    ) -> _Builder:
        self._strategies[_Strategies.ROCKSDB_COMPACTION_FILTER] = _RocksdbCompactFilterCleanupStrategy(
            query_time_after_num_entries, periodic_compaction_time
        )
        return self

    def disable_cleanup_in_background(self) -> _Builder:
        self._is_cleanup_in_background = False
        return self

    def set_ttl(self, ttl: Any) -> _Builder:
        self._ttl = ttl
        return self

    def build(self) -> StateTtlConfig:
        return StateTtlConfig(
            self._update_type,
            self._state_visibility,
            self._ttl_time_characteristic,
            self._ttl,
            _CleanupStrategies(dict(self._strategies), self._is_cleanup_in_background),
        )


class StateTtlConfig:
    """How long entries of a state live, what prolongs their life, and how they are removed.

    >>> config = StateTtlConfig.new_builder(timedelta(hours=1)).update_ttl_on_read_and_write().build()
    >>> config.get_update_type()
    <UpdateType.OnReadAndWrite: 2>
    """

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies
    Builder = _Builder

    def __init__(
        self,
        update_type: _UpdateType,
        state_visibility: _StateVisibility,
        ttl_time_characteristic: _TtlTimeCharacteristic,
        ttl: Any,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        self.ttl_ms = ttl_milliseconds(ttl)
        if self.ttl_ms <= 0 and update_type is not _UpdateType.Disabled:
            raise ValueError(f"a time to live must be positive, not {self.ttl_ms} ms")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Any) -> _Builder:
        return _Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Any:
        return self._ttl

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return f"StateTtlConfig({self._update_type.name}, {self._state_visibility.name}, {self.ttl_ms} ms)"


# The nested classes under names that read as Flink's in messages and reprs.
for _nested in (_UpdateType, _StateVisibility, _TtlTimeCharacteristic, _CleanupStrategies, _Builder):
    _nested.__qualname__ = f"StateTtlConfig.{_nested.__name__[1:]}"
    _nested.__name__ = _nested.__name__[1:]
