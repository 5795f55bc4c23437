"""Guessing the type information of a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum
from typing import Any

from ..types import Row
from ._annotations import _PLAIN, dataclass_type_info
from ._arrays import ListTypeInfo
from ._base import TypeInformation
from ._basic import BasicType, BasicTypeInfo
from ._enum import EnumTypeInfo
from ._map import MapTypeInfo
from ._row import RowTypeInfo, TupleTypeInfo


def infer_type_info(value: Any) -> TypeInformation | None:
    """The type information that fits ``value`` exactly, None when only pickle does.

    One value says little about the next: nothing can be said of None and of empty collections, and all
    elements of a collection must agree.

    >>> infer_type_info(("a", [1, 2], {"x": 0.5}))
    Tuple(String, List<Long>, Map<String, Double>)
    >>> print(infer_type_info([]))
    None
    """
    kind = type(value)
    if kind is int:
        return BasicTypeInfo(BasicType.LONG if -(2**63) <= value < 2**63 else BasicType.BIG_INT)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is tuple or kind is Row:
        return _infer_fields(value)
    if kind is list:
        element = _common(value)
        return element and ListTypeInfo(element)
    if kind is dict:
        key, item = _common(value), _common(value.values())
        return MapTypeInfo(key, item) if key and item else None
    if isinstance(value, Enum):
        return EnumTypeInfo(kind)
    return dataclass_type_info(kind) if dataclasses.is_dataclass(kind) else None


def _infer_fields(record: Any) -> TypeInformation | None:
    found = [infer_type_info(field) for field in record]
    kinds = [kind for kind in found if kind is not None]
    if len(kinds) < len(found):
        return None
    return RowTypeInfo(kinds, record._fields) if isinstance(record, Row) else TupleTypeInfo(kinds)


def _common(values: Iterable[Any]) -> TypeInformation | None:
    found = set(map(infer_type_info, values))
    return found.pop() if len(found) == 1 else None
