"""From Python annotations to type informations."""

from __future__ import annotations

import dataclasses
import types
import typing
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Union

from ..errors import ProgramError
from ..time import Instant
from ._arrays import ListTypeInfo, PrimitiveArrayTypeInfo
from ._base import TypeInformation
from ._basic import BasicType, BasicTypeInfo, InstantTypeInfo
from ._dataclass import DataclassTypeInfo
from ._enum import EnumTypeInfo
from ._map import MapTypeInfo
from ._pickled import PickledBytesTypeInfo
from ._row import TupleTypeInfo
from ._sqltime import DateTypeInfo, TimestampTypeInfo, TimeTypeInfo

BYTES = PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE))

_PLAIN: dict[Any, TypeInformation] = {
    bool: BasicTypeInfo(BasicType.BOOLEAN),
    int: BasicTypeInfo(BasicType.LONG),
    float: BasicTypeInfo(BasicType.DOUBLE),
    str: BasicTypeInfo(BasicType.STRING),
    bytes: BYTES,
    Decimal: BasicTypeInfo(BasicType.BIG_DEC),
    date: DateTypeInfo(),
    time: TimeTypeInfo(),
    datetime: TimestampTypeInfo(),
    Instant: InstantTypeInfo(),
}


def dataclass_type_info(cls: type, outer: frozenset[type] = frozenset()) -> DataclassTypeInfo:
    """The type information of a dataclass.

    A field's ``metadata={"type_info": Types.FLOAT()}`` wins over its annotation. What has no type of its
    own (Any, unions, sets, a class inside itself) is pickled.
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ProgramError(f"Types.DATACLASS needs a dataclass, got {cls!r}", action="Decorate it with @dataclass.")
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise ProgramError(
            f"an annotation of {cls.__qualname__} cannot be resolved: {error}",
            action="Define the classes that it names at the top level of the module.",
        ) from error
    names, kinds, optional = [], [], []
    for field in dataclasses.fields(cls):
        annotation, may_be_none = _without_none(hints[field.name])
        declared = field.metadata.get("type_info")
        names.append(field.name)
        kinds.append(declared or annotation_type_info(annotation, outer | {cls}))
        optional.append(may_be_none)
    return DataclassTypeInfo(cls, names, kinds, optional)


def annotation_type_info(annotation: Any, outer: frozenset[type] = frozenset()) -> TypeInformation:
    """The type information of values annotated so, ``PICKLED_BYTE_ARRAY`` when nothing else fits.

    >>> annotation_type_info(dict[str, list[int]])
    Map<String, List<Long>>
    """
    annotation, _may_be_none = _without_none(annotation)
    while hasattr(annotation, "__supertype__"):
        annotation = annotation.__supertype__
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if typing.get_origin(annotation) is not None:
        return _generic(annotation, outer) or PickledBytesTypeInfo()
    if isinstance(annotation, type) and annotation not in outer:
        if dataclasses.is_dataclass(annotation):
            return dataclass_type_info(annotation, outer)
        if issubclass(annotation, Enum):
            return EnumTypeInfo(annotation)
    return PickledBytesTypeInfo()


def _generic(annotation: Any, outer: frozenset[type]) -> TypeInformation | None:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return annotation_type_info(args[0], outer)
    if origin not in (list, dict, tuple) or Ellipsis in args:
        return None
    kinds = [annotation_type_info(arg, outer) for arg in args]
    if origin is list:
        return ListTypeInfo(kinds[0])
    return MapTypeInfo(kinds[0], kinds[1]) if origin is dict else TupleTypeInfo(kinds)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """The annotation without its ``None``, and whether it had one."""
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        return annotation, annotation in (None, type(None), Any)
    present = tuple(arg for arg in typing.get_args(annotation) if arg is not type(None))
    return Union[present], len(present) < len(typing.get_args(annotation))  # noqa: UP007 - built at run time
