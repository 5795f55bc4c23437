"""Configuration: text under keys, read and written as what it stands for."""

from __future__ import annotations

import base64
import binascii
import builtins
import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

from .config_options import ConfigOption, _read_bool, parse_list, read_float, read_int, render
from .errors import ConfigurationError

__all__ = ["Configuration"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class Configuration:
    """Options by key. What is stored is text, whatever it was set as, so equality and files are simple.

    >>> conf = Configuration().set_integer("parallelism.default", 4).set_boolean("rest.enabled", False)
    >>> conf.get_integer("parallelism.default", 1), conf.get_string("rest.enabled", "")
    (4, 'false')
    >>> from millrace.common import ConfigOptions
    >>> timeout = ConfigOptions.key("timeout").duration_type().default_value(None)
    >>> conf.set(timeout, "2 min").get(timeout).to_millis()
    120000
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._entries: dict[str, str] = {} if other is None else dict(other._entries)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        configuration = cls()
        for key, value in map.items():
            configuration._put(key, render(value))
        return configuration

    # -- options -----------------------------------------------------------------------------------------

    def get(self, option: ConfigOption[T], override_default: T | None = None) -> T:
        """The option's value: as set under its key, a fallback or a deprecated key, else its default.

        An option without a default that is not set reads as None, which its type does not show (as in Flink).
        """
        key = self._key_of(option)
        if key is not None:
            return option.parse(self._entries[key])
        return override_default if override_default is not None else option.default  # type: ignore[return-value]

    def set(self, option: ConfigOption[T], value: Any) -> Configuration:
        return self._put(option.key, option.render(value))

    def contains(self, option: ConfigOption[Any]) -> bool:
        return self._key_of(option) is not None

    def remove(self, option: ConfigOption[Any]) -> bool:
        """Removes the option under all of its keys; whether it was set."""
        return sum(map(self.remove_config, option.all_keys())) > 0

    def _key_of(self, option: ConfigOption[Any]) -> str | None:
        key = next((key for key in option.all_keys() if key in self._entries), None)
        if key in option.deprecated_keys:
            _LOG.warning("The option %r is now called %r.", key, option.key)
        return key

    # -- single keys -------------------------------------------------------------------------------------

    def get_string(self, key: str, default_value: str) -> str:
        return self._entries.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        return self._put(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        return self._read(key, default_value, read_int)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._put(key, str(int(value)))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        return self._read(key, default_value, _read_bool)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._put(key, render(bool(value)))

    def get_float(self, key: str, default_value: float) -> float:
        return self._read(key, default_value, read_float)

    def set_float(self, key: str, value: float) -> Configuration:
        return self._put(key, str(float(value)))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        return self._read(key, default_value, _read_bytes)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        return self._put(key, base64.b64encode(value).decode("ascii"))

    def contains_key(self, key: str) -> bool:
        return key in self._entries

    def remove_config(self, key: str) -> bool:
        """Removes the key; whether it was there."""
        return self._entries.pop(key, None) is not None

    # -- all of them -------------------------------------------------------------------------------------

    def key_set(self) -> builtins.set[str]:
        return builtins.set(self._entries)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Takes over the other's entries, with ``prefix`` before each key."""
        self._entries.update({f"{prefix or ''}{key}": value for key, value in other._entries.items()})
        return self

    def add_all_to_dict(self, target_dict: MutableMapping[str, Any]) -> None:
        target_dict.update(self._entries)

    def to_dict(self) -> dict[str, str]:
        return dict(self._entries)

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """The elements of a list option, whether it was written ``a;b`` or as YAML.

        >>> Configuration.parse_list_value("[a, b]")
        ['a', 'b']
        """
        return parse_list(value)

    def _read(self, key: str, default: T, read: Callable[[str], T]) -> T:
        if key not in self._entries:
            return default
        try:
            return read(self._entries[key])
        except ConfigurationError as error:
            raise ConfigurationError(f"option {key!r}: {error.message}", action=error.action) from None

    def _put(self, key: str, value: str) -> Configuration:
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"keys and values of a configuration are strings, got {key!r}: {value!r}",
                action="Use set_integer, set_boolean, set_float, or set(option, value).",
            )
        self._entries[key] = value
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __copy__(self) -> Configuration:
        return Configuration(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __str__(self) -> str:
        return str(self._entries)

    def __repr__(self) -> str:
        return f"Configuration({self._entries!r})"


def _read_bytes(text: str) -> bytearray:
    try:
        return bytearray(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise ConfigurationError(f"{text!r} is not base64") from None
