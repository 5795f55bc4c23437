"""Maps."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

from ._base import Column, TypeInformation


class MapTypeInfo(TypeInformation):
    """Type information of a dict. The order of its entries is kept, also through state.

    >>> from millrace.common import Types
    >>> info = MapTypeInfo(Types.STRING(), Types.DOUBLE())
    >>> info, str(info)
    (Map<String, Double>, 'MapTypeInfo<String, Double>')
    >>> info.coerce_batch([{"a": 1}, {}])
    [{'a': 1.0}, {}]
    """

    tag = "MAP"
    _exact = frozenset({dict})

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info

    def get_key_type(self) -> TypeInformation:
        return self._key_type_info

    def get_value_type(self) -> TypeInformation:
        return self._value_type_info

    def _args(self) -> tuple[Any, ...]:
        return self._key_type_info, self._value_type_info

    def describe(self) -> str:
        return f"MAP({self._key_type_info.describe()}, {self._value_type_info.describe()})"

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.tag,
            "key": self._key_type_info.to_json(),
            "value": self._value_type_info.to_json(),
        }

    def uses_pickle(self) -> bool:
        return self._key_type_info.uses_pickle() or self._value_type_info.uses_pickle()

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        keys, items = flatten_maps(values)
        done_keys, done_items = self._key_type_info._column(keys), self._value_type_info._column(items)
        if done_keys is None or done_items is None:
            return None
        return values if done_keys is keys and done_items is items else rebuild_maps(done_keys, done_items, values)

    def _coerce_one(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise self._mismatch(value)
        keys, items = self._key_type_info._coerce_part, self._value_type_info._coerce_part
        return {keys(key, f"[key {key!r}]"): items(item, f"[{key!r}]") for key, item in value.items()}

    def __str__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"

    def __repr__(self) -> str:
        return f"Map<{self._key_type_info!r}, {self._value_type_info!r}>"


def flatten_maps(maps: Column) -> tuple[list[Any], list[Any]]:
    """All keys and all values of all maps."""
    return list(chain.from_iterable(maps)), list(chain.from_iterable(map(dict.values, maps)))


def rebuild_maps(keys: Column, items: Column, like: Column) -> list[dict[Any, Any]]:
    """Cuts flat keys and values into dicts as large as those of ``like``."""
    following = zip(keys, items, strict=True)
    return [dict(islice(following, length)) for length in map(len, like)]
