"""Classes that stand in for those that a type's description names, so that nothing needs to be imported.

Importing a class runs the code of its module. Whoever reads a description that a stranger wrote, or that names classes
which no longer exist, builds the type around stand-ins: dataclasses and enums of the same names, fields and members,
that compare and hash as the real ones do, and are described by the same JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, Flag, IntFlag
from functools import lru_cache, partial
from typing import Any

from ..errors import DecodingError
from ._base import TypeInformation
from ._dataclass import DataclassTypeInfo
from ._enum import EnumTypeInfo
from ._json import ResolveClass

_BASES: dict[str, type] = {"int": int, "str": str}

# Enough for all classes of a job; what falls out is made anew, and only costs time.
_KEPT_CLASSES = 1024


def classes_named(description: Any) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """The (module, qualname) of each class in a type's description, and what is said about it.

    >>> from millrace.common import RowKind, Types
    >>> [name for name, _ in classes_named(Types.LIST(Types.ENUM(RowKind)).to_json())]
    [('millrace.common.types', 'RowKind')]
    """
    if isinstance(description, Mapping):
        module, qualname = description.get("module"), description.get("qualname")
        is_class = description.get("type") in (DataclassTypeInfo.tag, EnumTypeInfo.tag)
        # Without a name it is no type at all, which whoever reads it will say.
        if is_class and isinstance(module, str) and isinstance(qualname, str):
            yield (module, qualname), description
        for part in description.values():
            yield from classes_named(part)
    elif isinstance(description, list):
        for part in description:
            yield from classes_named(part)


def declared_classes(type_info: TypeInformation) -> dict[tuple[str, str], type]:
    """The classes that a type is built around, by (module, qualname).

    >>> from millrace.common import RowKind, Types
    >>> declared_classes(Types.LIST(Types.ENUM(RowKind)))
    {('millrace.common.types', 'RowKind'): <enum 'RowKind'>}
    """
    found: dict[tuple[str, str], type] = {}
    waiting: list[Any] = [type_info]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (tuple, list)):
            waiting.extend(part)
        elif isinstance(part, TypeInformation):
            cls = getattr(part, "cls", None) or getattr(part, "enum_class", None)
            if cls is not None:
                found[cls.__module__, cls.__qualname__] = cls
            waiting.extend(part._args())
    return found


def stand_in_classes(description: Mapping[str, Any]) -> ResolveClass:
    """Stand-ins for the classes of a description, for `type_from_json(description, ...)`.

    >>> from millrace.common import Types
    >>> from millrace.common.typeinfo import type_from_json
    >>> field = {"name": "n", "type": Types.LONG().to_json(), "optional": False}
    >>> point = {"type": "DATACLASS", "module": "gone", "qualname": "Point", "fields": [field]}
    >>> type_from_json(point, stand_in_classes(point)).build([7])
    Point(n=7)
    """
    named = dict(classes_named(description))

    def resolve(module: str, qualname: str) -> type:
        said = named[module, qualname]
        try:
            if said["type"] == EnumTypeInfo.tag:
                return _enum(module, qualname, *_enum_parts(said))
            fields = tuple((field["name"], field.get("compare", True), field.get("hash")) for field in said["fields"])
            return _dataclass(module, qualname, fields)
        except (TypeError, ValueError, KeyError) as error:
            raise DecodingError(f"the class {module}.{qualname} is described so that it cannot be: {error}") from error

    return resolve


@lru_cache(_KEPT_CLASSES)
def _dataclass(module: str, qualname: str, fields: tuple[tuple[str, bool, bool | None], ...]) -> type:
    specs = [(name, Any, dataclasses.field(compare=compare, hash=hashed)) for name, compare, hashed in fields]
    made = dataclasses.make_dataclass(
        qualname.rpartition(".")[2], specs, init=False, frozen=True, namespace={"__qualname__": qualname}
    )
    made.__module__ = module
    return made


def _enum_parts(said: Mapping[str, Any]) -> tuple[tuple[tuple[str, Any], ...], str | None, bool]:
    names = said["members"]
    values = said.get("values") or range(1, len(names) + 1)
    return tuple(zip(names, values, strict=True)), said.get("base"), bool(said.get("flag"))


@lru_cache(_KEPT_CLASSES)
def _enum(module: str, qualname: str, members: tuple[tuple[str, Any], ...], base: str | None, flag: bool) -> type:
    name, make_enum = qualname.rpartition(".")[2], _enum_maker(base, flag)
    made: type = make_enum(name, list(members), module=module, qualname=qualname)
    return made


def _enum_maker(base: str | None, flag: bool) -> Callable[..., Any]:
    if flag:
        return IntFlag if base == "int" else Flag
    make: Callable[..., Any] = Enum
    return partial(make, type=_BASES[base]) if base else make
