"""``Types``: where programs get their type informations from."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ._annotations import dataclass_type_info
from ._arrays import BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo
from ._base import TypeInformation
from ._basic import BasicType, BasicTypeInfo, InstantTypeInfo
from ._dataclass import DataclassTypeInfo
from ._enum import EnumTypeInfo
from ._map import MapTypeInfo
from ._pickled import PickledBytesTypeInfo
from ._row import RowTypeInfo, TupleTypeInfo
from ._sqltime import DateTypeInfo, TimestampTypeInfo, TimeTypeInfo


class Types:
    """The types that a program can declare.

    >>> Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    Row(name: String, age: Integer)
    """

    @staticmethod
    def STRING() -> TypeInformation:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:
        """An int of 8 bits, with sign."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:
        """An int of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation:
        """An int of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """An int of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """A float of 32 bits: values are rounded to it."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """A float of 64 bits: Python's own."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:
        """A str of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """An int of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """A ``decimal.Decimal``."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation:
        return InstantTypeInfo()

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A ``datetime.date``."""
        return DateTypeInfo()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A ``datetime.time``."""
        return TimeTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A ``datetime.datetime``."""
        return TimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A :class:`Row` whose fields are known by position."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A :class:`Row` with these names, in this order."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of primitives that are never None; ``bytes`` when the elements are BYTE."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of primitives or strings, which may be None."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of anything."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """A dict."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """A list."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def DATACLASS(class_: type) -> DataclassTypeInfo:
        """A dataclass; its fields' types come from its annotations."""
        return dataclass_type_info(class_)

    @staticmethod
    def POJO(class_: type) -> DataclassTypeInfo:
        """A dataclass, under the name that Java users know."""
        return dataclass_type_info(class_)

    @staticmethod
    def ENUM(class_: type[Enum]) -> TypeInformation:
        """An ``enum.Enum``."""
        return EnumTypeInfo(class_)
