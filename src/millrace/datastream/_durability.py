"""What an environment's settings say about checkpoints, restarts, state and where a job begins."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

from millrace.common.config_options import ConfigOptions
from millrace.common.configuration import Configuration
from millrace.common.errors import ConfigurationError
from millrace.graph.job_options import CheckpointOptions, RestoreOptions

from .checkpoint_config import CheckpointConfig
from .externalized_checkpoint_retention import ExternalizedCheckpointRetention
from .state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend

_RETENTION = {
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: "never",
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: "on-failure",
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: "on-cancellation",
}

_RESTORE_PATH = (
    ConfigOptions.key("execution.state-recovery.path")
    .string_type()
    .no_default_value()
    .with_fallback_keys("execution.savepoint.path")
)
_ALLOW_NON_RESTORED = (
    ConfigOptions.key("execution.state-recovery.ignore-unclaimed-state")
    .boolean_type()
    .default_value(False)
    .with_fallback_keys("execution.savepoint.ignore-unclaimed-state")
)
_ALLOW_PICKLE = ConfigOptions.key("state.savepoint.allow-pickle").boolean_type().default_value(False)

_BACKENDS: dict[str, type[StateBackend]] = {
    "hashmap": HashMapStateBackend,
    "rocksdb": EmbeddedRocksDBStateBackend,
}


def checkpoint_options(config: CheckpointConfig) -> CheckpointOptions | None:
    """The checkpoints of a job; None when there are none."""
    if not config.is_checkpointing_enabled():
        return None
    storage = config.get_checkpoint_storage()
    return CheckpointOptions(
        interval=config.get_checkpoint_interval(),
        directory=_local(storage.get_directory()) if storage is not None else None,
        min_pause=config.get_min_pause_between_checkpoints(),
        timeout=config.get_checkpoint_timeout(),
        tolerable_failures=config.get_tolerable_checkpoint_failure_number(),
        retained=config.get_max_retained_checkpoints(),
        retention=_RETENTION[config.get_externalized_checkpoint_retention()],  # type: ignore[arg-type]
    )


def _local(path: str | None) -> str | None:
    """A path as every process finds it; a URI as it is."""
    if path is None or "://" in path:
        return None if path is None else path.removeprefix("file://")
    return str(Path(path).absolute())


def restore_options(configuration: Configuration) -> RestoreOptions | None:
    """What a job begins from; None for anew."""
    path = configuration.get(_RESTORE_PATH)
    if path is None:
        return None
    absolute = _local(path)
    assert absolute is not None
    return RestoreOptions(absolute, configuration.get(_ALLOW_NON_RESTORED), configuration.get(_ALLOW_PICKLE))


def backend_called(name: str) -> StateBackend:
    """The backend of a `state.backend.type`."""
    kind = _BACKENDS.get(name.strip().lower())
    if kind is None:
        raise ConfigurationError(f"{name!r} is no state backend", action=f"Use one of {', '.join(_BACKENDS)}.")
    return kind()


def backend_settings(backend: StateBackend | None) -> tuple[Literal["hashmap", "rocksdb"], str]:
    """The kind of a backend, and the directory of its local files (empty: a temporary one)."""
    if isinstance(backend, EmbeddedRocksDBStateBackend):
        return "rocksdb", next(iter(backend.get_db_storage_paths()), "")
    return "hashmap", ""


def program_path() -> str:
    """The script that runs, by which a job is known again after its process was killed."""
    return str(Path(sys.argv[0]).absolute()) if sys.argv and sys.argv[0] else ""


def program_arguments() -> tuple[str, ...]:
    """The arguments that the script was given, to be kept with the job: what looks like a secret is left out.

    >>> sys.argv, before = ["job.py", "--table", "t", "--password", "x", "--api-key=y"], sys.argv
    >>> program_arguments()
    ('--table', 't', '--password', '******', '--api-key=******')
    >>> sys.argv = before
    """
    shown: list[str] = []
    for argument in sys.argv[1:]:
        name, equals, _ = argument.partition("=")
        if shown and shown[-1].startswith("-") and "=" not in shown[-1] and _SECRET.search(shown[-1]):
            shown.append("******")
        elif equals and _SECRET.search(name):
            shown.append(f"{name}=******")
        else:
            shown.append(argument)
    return tuple(shown)


_SECRET = re.compile("password|secret|token|api-?key|credential", re.IGNORECASE)


_SUBMITTED: Counter[str] = Counter()


def next_ordinal(job_name: str) -> int:
    """The how-manieth job of this name this process submits."""
    _SUBMITTED[job_name] += 1
    return _SUBMITTED[job_name]
