"""An environment's settings: parallelism, mode, checkpoints, files, and what a Configuration says about them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from millrace.common.config_options import ConfigOptions
from millrace.common.configuration import Configuration
from millrace.common.errors import JvmOnlyError, NotSupportedError, ProgramError
from millrace.common.execution_config import ExecutionConfig
from millrace.common.restart_options import restart_strategy_from
from millrace.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration

from ._checks import at_site, require_buffer_timeout, require_parallelism, require_text
from ._durability import backend_called
from .checkpoint_config import CheckpointConfig
from .checkpointing_mode import CheckpointingMode
from .execution_mode import RuntimeExecutionMode
from .externalized_checkpoint_retention import ExternalizedCheckpointRetention
from .slot_sharing_group import SlotSharingGroup
from .state_backend import EmbeddedRocksDBStateBackend, StateBackend

# Flink's default of execution.buffer-timeout.interval.
_DEFAULT_BUFFER_TIMEOUT_MS = 100

# PyFlink's methods that only make sense with a JVM, and what to do instead.
_JVM_ONLY = {
    "add_classpaths": "Use Spark's own settings, such as spark.driver.extraClassPath.",
    "add_jars": "Use Spark's own setting spark.jars.",
    "create_input": "Use from_source(...) with a Source, or from_data_frame(...).",
}


class EnvironmentSettings:
    """The part of a StreamExecutionEnvironment that only keeps what it was told. Setters can be chained."""

    _default_local_parallelism: int | None = None

    def __init__(self) -> None:
        self._config = ExecutionConfig()
        self._checkpoint_config = CheckpointConfig()
        self._configuration = Configuration()
        self._mode = RuntimeExecutionMode.STREAMING
        self._buffer_timeout = _DEFAULT_BUFFER_TIMEOUT_MS
        self._chaining = True
        self._changelog: bool | None = None
        self._savepoint_directory: str | None = None
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._python_files: list[str] = []
        self._cached_files: dict[str, str] = {}
        self._broadcast_variables: dict[str, Any] = {}
        self._job_name: str | None = None
        self._backend: StateBackend | None = None
        self._restart_strategy: RestartStrategyConfiguration | None = None

    def get_config(self) -> ExecutionConfig:
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Take over a configuration: what is named in Flink's documentation as a job's option, as far as it fits."""
        if not isinstance(configuration, Configuration):
            raise ProgramError(at_site(f"configure takes a Configuration, not {configuration!r}."))
        self._configuration.add_all(configuration)
        for apply in _OPTIONS:
            apply(self, configuration)
        self._restart_strategy = restart_strategy_from(configuration.to_dict()) or self._restart_strategy

    # --- parallelism ----------------------------------------------------------------------------------------

    def set_parallelism(self, parallelism: int) -> Self:
        """The parallelism of the operators that are added from now on and that say nothing themselves."""
        self._config.set_parallelism(require_parallelism("The parallelism", parallelism))
        return self

    def get_parallelism(self) -> int:
        """What was set, else the number of CPUs."""
        set_to = self._config.get_parallelism()
        return set_to if set_to > 0 else self.get_default_local_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """The number of key groups of the operators that say nothing themselves."""
        self._config.set_max_parallelism(require_parallelism("The max parallelism", max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """-1 when it follows from the parallelism."""
        return self._config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        return EnvironmentSettings._default_local_parallelism or _cpus()

    def set_default_local_parallelism(self, parallelism: int) -> None:
        EnvironmentSettings._default_local_parallelism = require_parallelism("The default parallelism", parallelism)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Make the resources of a group known."""
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    # --- execution --------------------------------------------------------------------------------------------

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise ProgramError(at_site(f"set_runtime_mode takes a RuntimeExecutionMode, not {execution_mode!r}."))
        self._mode = execution_mode
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """How long a record may wait for others; an epoch's length follows from it."""
        self._buffer_timeout = require_buffer_timeout(timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        return self._buffer_timeout

    def disable_operator_chaining(self) -> Self:
        """Run each operator by itself: slower, but the plan shows where time goes."""
        self._chaining = False
        return self

    def is_chaining_enabled(self) -> bool:
        return self._chaining

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        return True

    # --- checkpoints --------------------------------------------------------------------------------------------

    def get_checkpoint_config(self) -> CheckpointConfig:
        return self._checkpoint_config

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Have a checkpoint taken every so many milliseconds: a job that fails goes on from the last one.

        Sinks that commit show their records with the checkpoint, so the interval is also how long these wait.
        """
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self._checkpoint_config.get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accepted: checkpoints are always written as deltas."""
        self._changelog = enabled
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        return self._changelog

    def set_default_savepoint_directory(self, directory: str) -> Self:
        self._savepoint_directory = require_text("The savepoint directory", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        return self._savepoint_directory

    # --- state and restarts -------------------------------------------------------------------------------------

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Where state is kept while the job runs: `HashMapStateBackend`, the default, or on disk."""
        if not isinstance(state_backend, StateBackend):
            raise ProgramError(at_site(f"set_state_backend takes a StateBackend, not {state_backend!r}."))
        self._backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        return self._backend

    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> Self:
        """Whether, how often and how soon a failed job starts again; see `RestartStrategies`."""
        if not isinstance(restart_strategy, RestartStrategyConfiguration):
            raise ProgramError(at_site(f"set_restart_strategy takes a restart strategy, not {restart_strategy!r}."))
        self._restart_strategy = restart_strategy
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        return self._restart_strategy or RestartStrategies.fall_back_restart()

    # --- files and values for the functions -------------------------------------------------------------------

    def add_python_file(self, file_path: str) -> None:
        """Make a module, package directory, zip or wheel importable in the workers."""
        self._python_files.append(str(Path(require_text("The path", file_path)).absolute()))

    def _python_path(self) -> tuple[str, ...]:
        """What `sys.path` of the workers needs: a single module is found through its directory."""
        entries = [str(Path(file).parent) if file.endswith(".py") else file for file in self._python_files]
        return tuple(dict.fromkeys(entries))

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Give a file to all functions: `runtime_context.get_cached_file(name)` is its path."""
        self._cached_files[require_text("The name", name)] = require_text("The path", file_path)

    def register_broadcast_variable(self, name: str, value: Any) -> None:
        """Give a value to all functions: `runtime_context.get_broadcast_variable(name)`."""
        self._broadcast_variables[require_text("The name", name)] = value

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        raise NotSupportedError(
            "Millrace does not install packages in the workers.",
            action="Install them in the environment that Spark's workers use, or ship it with spark.archives.",
        )

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        raise NotSupportedError(
            "Millrace does not unpack archives in the workers.",
            action="Ship it with Spark's own setting spark.archives, or use register_cached_file(...).",
        )

    def set_python_executable(self, python_exec: str) -> None:
        raise NotSupportedError(
            "The Python of the workers belongs to the Spark session.",
            action="Set spark.pyspark.python, or PYSPARK_PYTHON in the environment.",
        )

    def __getattr__(self, name: str) -> Any:
        if name in _JVM_ONLY:
            error = JvmOnlyError.of(f"StreamExecutionEnvironment.{name}", action=_JVM_ONLY[name])
            raise AttributeError(str(error))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _cpus() -> int:
    """The CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


# --- options of a Configuration ------------------------------------------------------------------------------

Apply = Callable[[EnvironmentSettings, Configuration], None]


def _option(option: Any, setter: Callable[[EnvironmentSettings, Any], Any]) -> Apply:
    """Call the setter when the configuration holds the option."""

    def apply(settings: EnvironmentSettings, configuration: Configuration) -> None:
        if configuration.contains(option):
            setter(settings, configuration.get(option))

    return apply


def _int(key: str, *fallbacks: str) -> Any:
    return ConfigOptions.key(key).int_type().no_default_value().with_fallback_keys(*fallbacks)


def _bool(key: str, *fallbacks: str) -> Any:
    return ConfigOptions.key(key).boolean_type().no_default_value().with_fallback_keys(*fallbacks)


def _duration(key: str, *fallbacks: str) -> Any:
    return ConfigOptions.key(key).duration_type().no_default_value().with_fallback_keys(*fallbacks)


def _text(key: str, *fallbacks: str) -> Any:
    return ConfigOptions.key(key).string_type().no_default_value().with_fallback_keys(*fallbacks)


def _enum(key: str, kind: Any) -> Any:
    return ConfigOptions.key(key).enum_type(kind).no_default_value()


def _set_chaining(settings: EnvironmentSettings, enabled: bool) -> None:
    settings._chaining = enabled


def _set_job_name(settings: EnvironmentSettings, name: str) -> None:
    settings._job_name = name


def _set_object_reuse(settings: EnvironmentSettings, enabled: bool) -> None:
    (settings._config.enable_object_reuse if enabled else settings._config.disable_object_reuse)()


def _set_local_directory(settings: EnvironmentSettings, directory: str) -> None:
    if isinstance(settings._backend, EmbeddedRocksDBStateBackend):
        settings._backend.set_db_storage_paths(directory)


_OPTIONS: tuple[Apply, ...] = (
    _option(_int("parallelism.default"), lambda s, v: s.set_parallelism(v)),
    _option(_int("pipeline.max-parallelism"), lambda s, v: s.set_max_parallelism(v)),
    _option(_enum("execution.runtime-mode", RuntimeExecutionMode), lambda s, v: s.set_runtime_mode(v)),
    _option(
        _duration("execution.buffer-timeout.interval", "execution.buffer-timeout"),
        lambda s, v: s.set_buffer_timeout(v.to_millis()),
    ),
    _option(_bool("pipeline.operator-chaining.enabled", "pipeline.operator-chaining"), _set_chaining),
    _option(_text("pipeline.name"), _set_job_name),
    _option(_bool("pipeline.object-reuse"), _set_object_reuse),
    _option(_duration("pipeline.auto-watermark-interval"), lambda s, v: s._config.set_auto_watermark_interval(v)),
    _option(
        ConfigOptions.key("pipeline.global-job-parameters").map_type().no_default_value(),
        lambda s, v: s._config.set_global_job_parameters(v),
    ),
    _option(
        _duration("execution.checkpointing.interval"), lambda s, v: s._checkpoint_config.set_checkpoint_interval(v)
    ),
    _option(
        _enum("execution.checkpointing.mode", CheckpointingMode),
        lambda s, v: s._checkpoint_config.set_checkpointing_mode(v),
    ),
    _option(_duration("execution.checkpointing.timeout"), lambda s, v: s._checkpoint_config.set_checkpoint_timeout(v)),
    _option(
        _duration("execution.checkpointing.min-pause"),
        lambda s, v: s._checkpoint_config.set_min_pause_between_checkpoints(v),
    ),
    _option(
        _int("execution.checkpointing.max-concurrent-checkpoints"),
        lambda s, v: s._checkpoint_config.set_max_concurrent_checkpoints(v),
    ),
    _option(
        _int("execution.checkpointing.tolerable-failed-checkpoints"),
        lambda s, v: s._checkpoint_config.set_tolerable_checkpoint_failure_number(v),
    ),
    _option(
        _enum("execution.checkpointing.externalized-checkpoint-retention", ExternalizedCheckpointRetention),
        lambda s, v: s._checkpoint_config.set_externalized_checkpoint_retention(v),
    ),
    _option(
        _bool("execution.checkpointing.unaligned.enabled", "execution.checkpointing.unaligned"),
        lambda s, v: s._checkpoint_config.enable_unaligned_checkpoints(v),
    ),
    _option(
        _duration("execution.checkpointing.aligned-checkpoint-timeout"),
        lambda s, v: s._checkpoint_config.set_aligned_checkpoint_timeout(v),
    ),
    _option(
        _int("execution.checkpointing.num-retained", "state.checkpoints.num-retained"),
        lambda s, v: s._checkpoint_config.set_max_retained_checkpoints(v),
    ),
    _option(
        _text("execution.checkpointing.dir", "state.checkpoints.dir"),
        lambda s, v: s._checkpoint_config.set_checkpoint_storage(v),
    ),
    _option(_text("state.backend.type", "state.backend"), lambda s, v: s.set_state_backend(backend_called(v))),
    _option(_text("state.backend.rocksdb.localdir"), _set_local_directory),
    _option(
        _text("execution.checkpointing.savepoint-dir", "state.savepoints.dir"),
        lambda s, v: s.set_default_savepoint_directory(v),
    ),
)
