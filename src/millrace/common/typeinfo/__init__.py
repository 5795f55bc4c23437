"""Type informations: what values are, how they are checked, and how they are described."""

from ._annotations import annotation_type_info
from ._arrays import BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo
from ._base import TypeInformation
from ._basic import BasicType, BasicTypeInfo, InstantTypeInfo
from ._dataclass import DataclassTypeInfo
from ._enum import EnumTypeInfo
from ._infer import infer_type_info
from ._json import ResolveClass, type_from_json, type_to_json
from ._map import MapTypeInfo
from ._pickled import PickledBytesTypeInfo
from ._row import RowTypeInfo, TupleTypeInfo
from ._sqltime import DateTypeInfo, SqlTimeTypeInfo, TimestampTypeInfo, TimeTypeInfo
from ._stand_ins import classes_named, declared_classes, stand_in_classes
from ._types import Types

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DataclassTypeInfo",
    "DateTypeInfo",
    "EnumTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "ResolveClass",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "annotation_type_info",
    "classes_named",
    "declared_classes",
    "infer_type_info",
    "stand_in_classes",
    "type_from_json",
    "type_to_json",
]
