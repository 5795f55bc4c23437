"""How a job is executed, as far as its program says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .errors import JvmOnlyError, ProgramError
from .time import DurationLike, to_millis

__all__ = ["ExecutionConfig"]

# Flink's: the same bound as the number of key groups, which are kept in 16 bits.
_MAX_PARALLELISM_BOUND: Final = 2**15
# Flink's default of pipeline.auto-watermark-interval.
_DEFAULT_WATERMARK_INTERVAL_MS: Final = 200


class ExecutionConfig:
    """Settings of a program. Setters return the configuration, so that calls can be chained.

    >>> config = ExecutionConfig().set_parallelism(4).enable_object_reuse()
    >>> config.get_parallelism(), config.is_object_reuse_enabled()
    (4, True)
    """

    PARALLELISM_DEFAULT: Final = -1
    PARALLELISM_UNKNOWN: Final = -2

    def __init__(self) -> None:
        self._parallelism = self.PARALLELISM_DEFAULT
        self._max_parallelism = -1
        self._auto_watermark_interval = _DEFAULT_WATERMARK_INTERVAL_MS
        self._latency_tracking_interval = 0
        self._task_cancellation_interval = -1
        self._task_cancellation_timeout = -1
        self._closure_cleaner = True
        self._generic_types = True
        self._auto_generated_uids = True
        self._object_reuse = False
        self._snapshot_compression = False
        self._global_job_parameters: dict[str, str] = {}

    def get_parallelism(self) -> int:
        return self._parallelism

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        if parallelism != self.PARALLELISM_DEFAULT:
            _require_parallelism("the parallelism", parallelism)
        self._parallelism = parallelism
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups; -1 when it follows from the parallelism."""
        return self._max_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        _require_parallelism("the max parallelism", max_parallelism)
        self._max_parallelism = max_parallelism
        return self

    def get_auto_watermark_interval(self) -> int:
        return self._auto_watermark_interval

    def set_auto_watermark_interval(self, interval: DurationLike) -> ExecutionConfig:
        """Milliseconds between watermarks: 0 for none, anything else for one per chunk of records."""
        self._auto_watermark_interval = _require_span("the watermark interval", interval)
        return self

    def get_latency_tracking_interval(self) -> int:
        return self._latency_tracking_interval

    def set_latency_tracking_interval(self, interval: DurationLike) -> ExecutionConfig:
        self._latency_tracking_interval = to_millis(interval)
        return self

    def get_task_cancellation_interval(self) -> int:
        return self._task_cancellation_interval

    def set_task_cancellation_interval(self, interval: DurationLike) -> ExecutionConfig:
        self._task_cancellation_interval = to_millis(interval)
        return self

    def get_task_cancellation_timeout(self) -> int:
        return self._task_cancellation_timeout

    def set_task_cancellation_timeout(self, timeout: DurationLike) -> ExecutionConfig:
        self._task_cancellation_timeout = _require_span("the cancellation timeout", timeout)
        return self

    def enable_closure_cleaner(self) -> ExecutionConfig:
        self._closure_cleaner = True
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        self._closure_cleaner = False
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        return self._closure_cleaner

    def enable_generic_types(self) -> ExecutionConfig:
        self._generic_types = True
        return self

    def disable_generic_types(self) -> ExecutionConfig:
        """Makes a program fail that would need pickle for its records or state."""
        self._generic_types = False
        return self

    def has_generic_types_disabled(self) -> bool:
        return not self._generic_types

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        self._auto_generated_uids = True
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Makes a program fail that has operators without a uid."""
        self._auto_generated_uids = False
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        return self._auto_generated_uids

    def enable_object_reuse(self) -> ExecutionConfig:
        self._object_reuse = True
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        self._object_reuse = False
        return self

    def is_object_reuse_enabled(self) -> bool:
        return self._object_reuse

    def is_use_snapshot_compression(self) -> bool:
        return self._snapshot_compression

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        self._snapshot_compression = use_snapshot_compression
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        return dict(self._global_job_parameters)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Parameters that every function can read from its runtime context, as text."""
        self._global_job_parameters = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        return self

    # -- serializers of the JVM --------------------------------------------------------------------------

    def enable_force_kryo(self) -> ExecutionConfig:
        raise JvmOnlyError.of("ExecutionConfig.enable_force_kryo")

    def disable_force_kryo(self) -> ExecutionConfig:
        return self

    def is_force_kryo_enabled(self) -> bool:
        return False

    def enable_force_avro(self) -> ExecutionConfig:
        raise JvmOnlyError.of("ExecutionConfig.enable_force_avro")

    def disable_force_avro(self) -> ExecutionConfig:
        return self

    def is_force_avro_enabled(self) -> bool:
        return False

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        return []

    def get_registered_pojo_types(self) -> list[str]:
        return []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._parallelism, self._max_parallelism, self._auto_watermark_interval))


def _require_parallelism(what: str, number: int) -> None:
    if not 0 < number <= _MAX_PARALLELISM_BOUND:
        raise ProgramError(f"{what} must be between 1 and {_MAX_PARALLELISM_BOUND}, got {number}")


def _require_span(what: str, span: DurationLike) -> int:
    millis = to_millis(span)
    if millis < 0:
        raise ProgramError(f"{what} must not be negative, got {millis} ms")
    return millis
