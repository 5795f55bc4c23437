"""Type informations as JSON, for checkpoints and graphs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeAlias

from ..errors import DecodingError, ProgramError
from ._arrays import BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo
from ._base import TypeInformation
from ._basic import BasicType, BasicTypeInfo, InstantTypeInfo
from ._dataclass import DataclassTypeInfo
from ._enum import EnumTypeInfo
from ._map import MapTypeInfo
from ._pickled import PickledBytesTypeInfo
from ._row import RowTypeInfo, TupleTypeInfo
from ._sqltime import DateTypeInfo, TimestampTypeInfo, TimeTypeInfo

ResolveClass: TypeAlias = Callable[[str, str], type]
_Build: TypeAlias = Callable[[Mapping[str, Any], ResolveClass], TypeInformation]


def import_class(module: str, qualname: str) -> type:
    """Imports the class that a description names.

    >>> import_class("datetime", "date")
    <class 'datetime.date'>
    """
    try:
        found = reduce(getattr, qualname.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ProgramError(
            f"the class {module}.{qualname}, which a type names, cannot be imported: {error}",
            action="Define it at the top level of a module that workers can import, and keep its name.",
        ) from error
    if not isinstance(found, type):
        raise ProgramError(f"{module}.{qualname}, which a type names as a class, is {found!r}")
    return found


def type_to_json(type_info: TypeInformation) -> dict[str, Any]:
    """A description out of dicts, lists, strings and booleans that is the same in every process and release.

    >>> from millrace.common import Types
    >>> type_to_json(Types.LIST(Types.LONG()))
    {'type': 'LIST', 'element': {'type': 'LONG'}}
    """
    return type_info.to_json()


def type_from_json(description: Mapping[str, Any], resolve_class: ResolveClass = import_class) -> TypeInformation:
    """The type information that ``type_to_json`` described.

    Dataclasses and enums are found by ``resolve_class(module, qualname)``, which imports them; give another
    one to read a description that you do not trust, since importing runs code.
    """
    tag = description.get("type")
    build = _BUILDERS.get(tag) if isinstance(tag, str) else None
    if build is None:
        raise DecodingError(f"no type is called {tag!r}", action="Was this written by a newer release?")
    return build(description, resolve_class)


def _basic(kind: BasicType) -> _Build:
    return lambda _description, _resolve: InstantTypeInfo() if kind is BasicType.INSTANT else BasicTypeInfo(kind)


def _plain(cls: Callable[[], TypeInformation]) -> _Build:
    return lambda _description, _resolve: cls()


def _of_element(cls: Callable[[TypeInformation], TypeInformation]) -> _Build:
    return lambda description, resolve: cls(type_from_json(description["element"], resolve))


def _map(description: Mapping[str, Any], resolve: ResolveClass) -> TypeInformation:
    return MapTypeInfo(type_from_json(description["key"], resolve), type_from_json(description["value"], resolve))


def _tuple(description: Mapping[str, Any], resolve: ResolveClass) -> TypeInformation:
    return TupleTypeInfo([type_from_json(field, resolve) for field in description["fields"]])


def _row(description: Mapping[str, Any], resolve: ResolveClass) -> TypeInformation:
    return RowTypeInfo([type_from_json(field, resolve) for field in description["fields"]], description["names"])


def _enum(description: Mapping[str, Any], resolve: ResolveClass) -> TypeInformation:
    return EnumTypeInfo(resolve(description["module"], description["qualname"]))


def _dataclass(description: Mapping[str, Any], resolve: ResolveClass) -> TypeInformation:
    fields = description["fields"]
    return DataclassTypeInfo(
        resolve(description["module"], description["qualname"]),
        [field["name"] for field in fields],
        [type_from_json(field["type"], resolve) for field in fields],
        [field["optional"] for field in fields],
    )


_BUILDERS: dict[str, _Build] = {
    **{kind.name: _basic(kind) for kind in BasicType},
    **{cls.tag: _plain(cls) for cls in (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, PickledBytesTypeInfo)},
    **{
        cls.tag: _of_element(cls)
        for cls in (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)
    },
    MapTypeInfo.tag: _map,
    TupleTypeInfo.tag: _tuple,
    RowTypeInfo.tag: _row,
    EnumTypeInfo.tag: _enum,
    DataclassTypeInfo.tag: _dataclass,
}
