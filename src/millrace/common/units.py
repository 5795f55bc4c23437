"""Durations and memory sizes as people write them in configuration files."""

from __future__ import annotations

import re
from typing import Final

from .errors import ConfigurationError
from .time import Duration

__all__ = ["format_duration", "format_memory_size", "parse_duration", "parse_memory_size"]

_QUANTITY: Final = re.compile(r"\s*(-?\d+)\s*([a-zA-Zµμ]*)\s*")

_NANOS: Final = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "min": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_DURATION_NAMES: Final = {
    "": "ms",  # Flink reads a bare number as milliseconds
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), "ns"),
}

_BYTES: Final = {"tb": 2**40, "gb": 2**30, "mb": 2**20, "kb": 2**10, "bytes": 1}
_MEMORY_NAMES: Final = {
    "": "bytes",
    **dict.fromkeys(("b", "byte", "bytes"), "bytes"),
    **dict.fromkeys(("k", "kb", "kibibytes"), "kb"),
    **dict.fromkeys(("m", "mb", "mebibytes"), "mb"),
    **dict.fromkeys(("g", "gb", "gibibytes"), "gb"),
    **dict.fromkeys(("t", "tb", "tebibytes"), "tb"),
}


def parse_duration(text: str) -> Duration:
    """Reads a duration; a number without a unit is milliseconds.

    >>> parse_duration("10 s") == Duration.of_seconds(10), parse_duration("200ms") == parse_duration("200")
    (True, True)
    """
    number, unit = _split(text, _DURATION_NAMES, "a duration", "Write a number and a unit, such as '10 s'.")
    return Duration(number * _NANOS[unit])


def parse_memory_size(text: str) -> int:
    """Reads a memory size in bytes; units are powers of 1024.

    >>> parse_memory_size("64mb"), parse_memory_size("1 k"), parse_memory_size("12")
    (67108864, 1024, 12)
    """
    number, unit = _split(text, _MEMORY_NAMES, "a memory size", "Write a number and a unit, such as '64 mb'.")
    if number < 0:
        raise ConfigurationError(f"{text!r} is not a memory size: it is negative")
    return number * _BYTES[unit]


def format_duration(duration: Duration) -> str:
    """The shortest exact text, which ``parse_duration`` reads back.

    >>> format_duration(Duration.of_millis(1500)), format_duration(Duration.of_minutes(60))
    ('1500 ms', '1 h')
    """
    return _join(duration.nanos, _NANOS, zero="0 ms")


def format_memory_size(size: int) -> str:
    """The shortest exact text, which ``parse_memory_size`` reads back.

    >>> format_memory_size(64 * 2**20), format_memory_size(1000)
    ('64 mb', '1000 bytes')
    """
    return _join(size, _BYTES, zero="0 bytes")


def _split(text: str, names: dict[str, str], what: str, action: str) -> tuple[int, str]:
    found = _QUANTITY.fullmatch(text)
    unit = names.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ConfigurationError(f"{text!r} is not {what}", action=action)
    return int(found[1]), unit


def _join(amount: int, units: dict[str, int], zero: str) -> str:
    if not amount:
        return zero
    name, size = next((name, size) for name, size in units.items() if amount % size == 0)
    return f"{amount // size} {name}"
