"""Options: a key, a type, a default, and what they are for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from .errors import ConfigurationError
from .time import Duration, DurationLike, to_millis
from .units import format_duration, format_memory_size, parse_duration, parse_memory_size

__all__ = ["ConfigOption", "ConfigOptions", "parse_list", "render"]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """An option. Made by :class:`ConfigOptions`; never changes, ``with_*`` return another one.

    >>> option = ConfigOptions.key("parallelism.default").int_type().default_value(1)
    >>> option.key, option.default, option.parse("4")
    ('parallelism.default', 1, 4)
    """

    key: str
    read: Callable[[str], T]
    write: Callable[[T], str]
    default: T | None = None
    has_default: bool = False
    fallback_keys: tuple[str, ...] = ()
    deprecated_keys: tuple[str, ...] = ()
    description: str = ""

    def has_default_value(self) -> bool:
        return self.has_default

    def default_value(self) -> T | None:
        return self.default

    def with_description(self, description: str) -> ConfigOption[T]:
        return replace(self, description=description)

    def with_fallback_keys(self, *keys: str) -> ConfigOption[T]:
        """Other keys that are read when this one is not set."""
        return replace(self, fallback_keys=self.fallback_keys + keys)

    def with_deprecated_keys(self, *keys: str) -> ConfigOption[T]:
        """Older names of the key, read after the fallback keys."""
        return replace(self, deprecated_keys=self.deprecated_keys + keys)

    def all_keys(self) -> tuple[str, ...]:
        """Every key under which the option may be set, in the order in which they are looked at."""
        return (self.key, *self.fallback_keys, *self.deprecated_keys)

    def parse(self, text: str) -> T:
        """The value that ``text`` stands for."""
        try:
            return self.read(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"option {self.key!r}: {error.message}", action=error.action) from None

    def render(self, value: T) -> str:
        """The text that stands for ``value``; a value of another type is an error."""
        try:
            text = self.write(value)
            self.read(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"option {self.key!r}: {error.message}", action=error.action) from None
        return text


class ConfigOptions:
    """Where options are built.

    >>> ConfigOptions.key("tmp.dir").string_type().default_value("/tmp").default
    '/tmp'
    >>> ConfigOptions.key("user.name").string_type().no_default_value().has_default_value()
    False
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        if not key:
            raise ConfigurationError("an option needs a key")
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Chooses the type of the option."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _read_bool, render)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _read_int32, render)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _read_int64, render)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, read_float, render)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, read_float, render)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str, render)

        def duration_type(self) -> ConfigOptions.TypedConfigOptionBuilder[Duration]:
            """A :class:`Duration`; set as one, as a timedelta, as milliseconds, or as text such as '10 s'."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_duration, _write_duration)

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A number of bytes; set as one or as text such as '64 mb'."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_memory_size, _write_memory)

        def enum_type(self, enum_class: type[E]) -> ConfigOptions.TypedConfigOptionBuilder[E]:
            """A member of an enum, by its name in upper or lower case."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _EnumReader(enum_class), render)

        def map_type(self) -> ConfigOptions.TypedConfigOptionBuilder[dict[str, str]]:
            """Text to text, written ``a:1,b:2``."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _read_map, _write_map)

    class TypedConfigOptionBuilder(Generic[T]):
        """Chooses the default."""

        def __init__(self, key: str, read: Callable[[str], T], write: Callable[[T], str]) -> None:
            self._key, self._read, self._write = key, read, write

        def as_list(self) -> ConfigOptions.TypedConfigOptionBuilder[list[T]]:
            """A list of such values, written ``a;b``."""
            read, write = _ListReader(self._read), _ListWriter(self._write)
            return ConfigOptions.TypedConfigOptionBuilder(self._key, read, cast("Callable[[list[T]], str]", write))

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self._key, self._read, self._write, value, has_default=True)

        def no_default_value(self) -> ConfigOption[T]:
            return ConfigOption(self._key, self._read, self._write)


def render(value: Any) -> str:
    """The text of a plain value in a configuration.

    >>> render(True), render(1.5), render("x")
    ('true', '1.5', 'x')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, (list, tuple)):
        return ";".join(map(_quoted, map(render, value)))
    return str(value)


def parse_list(text: str | None) -> list[str]:
    """The elements of a list, written ``a;b``, ``[a, b]`` or as the dashed lines of YAML.

    >>> parse_list("a;b"), parse_list("['x, y', z]"), parse_list("- a\\n- b"), parse_list("")
    (['a', 'b'], ['x, y', 'z'], ['a', 'b'], [])
    """
    text = (text or "").strip()
    if not text:
        return []
    if text.startswith("[") and text.endswith("]"):
        return _cut(text[1:-1], ",")
    if text.startswith("- "):
        return [_unquoted(line.strip().removeprefix("-")) for line in text.splitlines() if line.strip()]
    return _cut(text, ";")


def _cut(text: str, separator: str) -> list[str]:
    quoted = r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\""
    pieces = re.findall(rf"(?:{quoted}|[^{separator}])+", text)
    return [_unquoted(piece) for piece in pieces]


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _quoted(text: str) -> str:
    if text and not re.search(r"[;'\"\[\]]|^-\s|^\s|\s$", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _read_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ConfigurationError(f"{text!r} is neither true nor false")
    return lowered == "true"


def read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a whole number") from None


def _read_int32(text: str) -> int:
    return _bounded(read_int(text), 32)


def _read_int64(text: str) -> int:
    return _bounded(read_int(text), 64)


def _bounded(number: int, bits: int) -> int:
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ConfigurationError(f"{number} does not fit into {bits} bits")
    return number


def read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a number") from None


def _write_duration(value: Duration | DurationLike | str) -> str:
    if isinstance(value, str):
        return format_duration(parse_duration(value))
    return format_duration(value if isinstance(value, Duration) else Duration.of_millis(to_millis(value)))


def _write_memory(value: int | str) -> str:
    return format_memory_size(parse_memory_size(str(value)))


def _read_map(text: str) -> dict[str, str]:
    pairs = [piece.partition(":") for piece in _cut(text, ",")]
    if not all(colon for _key, colon, _value in pairs):
        raise ConfigurationError(f"{text!r} is not a map", action="Write 'key:value,key:value'.")
    return {_unquoted(key): _unquoted(value) for key, _colon, value in pairs}


def _write_map(value: dict[str, str]) -> str:
    return ",".join(f"{key}:{item}" for key, item in value.items())


@dataclass(frozen=True)
class _EnumReader(Generic[E]):
    enum_class: type[E]

    def __call__(self, text: str) -> E:
        wanted = text.strip().upper().replace("-", "_")
        for member in self.enum_class:
            if member.name.upper() == wanted:
                return member
        names = ", ".join(member.name for member in self.enum_class)
        raise ConfigurationError(f"{text!r} is none of {names}")


@dataclass(frozen=True)
class _ListReader(Generic[T]):
    read: Callable[[str], T]

    def __call__(self, text: str) -> list[T]:
        return [self.read(piece) for piece in parse_list(text)]


@dataclass(frozen=True)
class _ListWriter(Generic[T]):
    write: Callable[[T], str]

    def __call__(self, value: list[T]) -> str:
        return render([self.write(item) for item in value])
