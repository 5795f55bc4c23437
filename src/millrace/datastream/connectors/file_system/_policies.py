"""Into which file a record goes: buckets, rolling, names."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from millrace.common.errors import ConfigurationError

__all__ = ["BucketAssigner", "OutputFileConfig", "PartFile", "RollingPolicy"]


@dataclass
class PartFile:
    """A file that is being written, as far as a rolling policy may know it. Times are the epoch's, in milliseconds."""

    bucket_id: str
    created: int
    records: int = 0
    size: int = 0


class RollingPolicy(ABC):
    """When a file is closed and another one begun. Whatever it says, a file ends with its epoch.

    >>> RollingPolicy.default_rolling_policy(part_size=100).should_roll_on_event(PartFile("", 0, 5, size=120))
    True
    """

    @abstractmethod
    def should_roll_on_event(self, part_file: PartFile) -> bool:
        """Whether the file is complete. Asked after each piece of at most about a thousand records."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> RollingPolicy:
        """A new file when one has `part_size` bytes. The intervals (in milliseconds) are taken for the sake of
        programs that set them: no file lives longer than an epoch."""
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            raise ConfigurationError("a rolling policy's size and intervals are positive")
        return _BySize(part_size)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """One file for each bucket, subtask and epoch."""
        return _OnCheckpoint()


class _BySize(RollingPolicy):
    def __init__(self, part_size: int) -> None:
        self._part_size = part_size

    def should_roll_on_event(self, part_file: PartFile) -> bool:
        return part_file.size >= self._part_size


class _OnCheckpoint(RollingPolicy):
    def should_roll_on_event(self, part_file: PartFile) -> bool:
        return False


class BucketAssigner(ABC):
    """Names the folder of each record, below the sink's directory.

    >>> BucketAssigner.base_path_bucket_assigner().get_bucket_id("a record", None)
    ''
    """

    #: Whether records of one epoch may differ. Without it the assigner is asked once for many records.
    by_record = True

    @abstractmethod
    def get_bucket_id(self, element: Any, context: Any) -> str:
        """The folder; `context` knows `timestamp()`, `current_watermark()` and `current_processing_time()`."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """No folders."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """A folder for each hour, or whatever the pattern says, of processing time. Without `timezone_id` the time is
        that of the machine."""
        return _DateTime(format_str, timezone_id)


class _BasePath(BucketAssigner):
    by_record = False

    def get_bucket_id(self, element: Any, context: Any) -> str:
        return ""


class _DateTime(BucketAssigner):
    by_record = False

    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._format = python_format(format_str)
        self._zone = timezone_id
        if timezone_id is not None:
            try:
                ZoneInfo(timezone_id)
            except (ZoneInfoNotFoundError, ValueError):
                raise ConfigurationError(
                    f"there is no time zone {timezone_id!r}", action="Give a name such as 'Europe/Berlin' or 'UTC'."
                ) from None

    def get_bucket_id(self, element: Any, context: Any) -> str:
        moment = datetime.fromtimestamp(context.current_processing_time() / 1000, UTC)
        local = moment.astimezone(None if self._zone is None else ZoneInfo(self._zone))
        return local.strftime(self._format)


# The letters of Java's DateTimeFormatter that make sense in the name of a folder.
_LETTERS = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "DDD": "%j", "HH": "%H", "hh": "%I", "mm": "%M",
    "ss": "%S", "a": "%p", "EEE": "%a", "MMM": "%b", "Z": "%z",
}


def python_format(pattern: str) -> str:
    """A pattern of Java's DateTimeFormatter in the words of `strftime`.

    >>> python_format("yyyy-MM-dd'T'HH")
    '%Y-%m-%dT%H'
    """
    parts = []
    for quoted, letters, other in _tokens(pattern):
        if letters and letters not in _LETTERS:
            raise ConfigurationError(
                f"{letters!r} in the pattern {pattern!r} is not known", action=f"Use one of {', '.join(_LETTERS)}."
            )
        parts.append(_LETTERS[letters] if letters else (quoted or other).replace("%", "%%"))
    return "".join(parts)


def _tokens(pattern: str) -> list[tuple[str, str, str]]:
    found = re.finditer(r"'(?P<quoted>[^']*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z'])", pattern)
    return [(match["quoted"] or "", match["letters"] or "", match["other"] or "") for match in found]


class OutputFileConfig:
    """How finished files are called: `<prefix>-<subtask>-<unique>-<number><suffix>`.

    >>> OutputFileConfig.builder().with_part_suffix(".txt").build().get_part_suffix()
    '.txt'
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        for part in (part_prefix, part_suffix):
            if "/" in part or "\0" in part:
                raise ConfigurationError(f"a part of a file's name has no slash: {part!r}")
        if not part_prefix or part_prefix.startswith((".", "_")):
            raise ConfigurationError(
                f"files with the prefix {part_prefix!r} would be hidden", action="Begin it with a letter."
            )
        self._prefix = part_prefix
        self._suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin with `part` and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What names begin with."""
        return self._prefix

    def get_part_suffix(self) -> str:
        """What names end with."""
        return self._suffix

    class OutputFileConfigBuilder:
        """See `OutputFileConfig`."""

        def __init__(self) -> None:
            self._prefix, self._suffix = "part", ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """What names begin with."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """What names end with."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """The config."""
            return OutputFileConfig(self._prefix, self._suffix)
