"""From a type to how its columns become a format's own values, and back.

    record ─ columns_of ─► columns ─ to_plain ─► plain columns ─ Dialect.assemble ─► plain records ─► bytes

A `Dialect` says what a format has: its leaves, and how it puts records, lists and maps together. What it lacks is
refused here, while the program is built.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum, Flag
from typing import Any, NamedTuple, NoReturn, TypeAlias

from millrace.common.errors import ProgramError, TypeMismatchError
from millrace.common.typeinfo import (
    BasicTypeInfo,
    DataclassTypeInfo,
    EnumTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from millrace.common.typeinfo._arrays import _SequenceTypeInfo, regroup
from millrace.common.typeinfo._base import Column, over_present
from millrace.common.typeinfo._map import flatten_maps, rebuild_maps
from millrace.common.types import make_row

__all__ = ["Dialect", "Field", "Plan", "RecordShape", "dicts_of", "each", "member_of", "nullable", "record_shape"]

Convert: TypeAlias = Callable[[Column], Column]


class Plan(NamedTuple):
    """How one type goes into a format: the format's own type, and how a column changes (None: not at all)."""

    native: Any
    to_plain: Convert | None = None
    from_plain: Convert | None = None


def each(convert: Callable[[Any], Any]) -> Convert:
    """A conversion, value by value."""
    return lambda values: list(map(convert, values))


def nullable(convert: Convert | None) -> Convert:
    """A conversion for columns in which some values are None."""
    if convert is None:
        return lambda values: values

    def over(values: Column) -> Column:
        done = over_present(values, convert)
        return values if done is None else done

    return over


class Field(NamedTuple):
    """A field of a record; `default` makes the value of one that is missing."""

    name: str
    kind: TypeInformation
    optional: bool
    default: Callable[[], Any] | None = None


class RecordShape(NamedTuple):
    """What rows, tuples and dataclasses have in common."""

    fields: list[Field]
    columns_of: Callable[[Column], Sequence[Column]]
    build: Callable[[Sequence[Column], int], list[Any]]


def record_shape(kind: TypeInformation) -> RecordShape | None:
    """The fields of a record's type; None for what is no record."""
    if isinstance(kind, RowTypeInfo):
        return _row_shape(kind)
    if isinstance(kind, TupleTypeInfo):
        fields = [Field(f"f{index}", field, optional=True) for index, field in enumerate(kind.get_field_types())]
        return RecordShape(fields, lambda records: list(zip(*records, strict=True)), _tuples)
    if isinstance(kind, DataclassTypeInfo):
        return _dataclass_shape(kind)
    return None


def _tuples(columns: Sequence[Column], count: int) -> list[Any]:
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _row_shape(kind: RowTypeInfo) -> RecordShape:
    names = kind.names
    shown = names or tuple(f"f{index}" for index in range(kind.get_arity()))
    fields = [Field(name, field, optional=True) for name, field in zip(shown, kind.get_field_types(), strict=True)]

    def build(columns: Sequence[Column], count: int) -> list[Any]:
        return [make_row(list(values), names) for values in _tuples(columns, count)]

    return RecordShape(fields, lambda rows: list(zip(*(row._values for row in rows), strict=True)), build)


def _dataclass_shape(kind: DataclassTypeInfo) -> RecordShape:
    optional = set(kind.get_optional_fields())
    defaults = {field.name: _default_of(field) for field in dataclasses.fields(kind.cls)}
    names = zip(kind.get_field_names(), kind.get_field_types(), strict=True)
    fields = [Field(name, field, name in optional, defaults.get(name)) for name, field in names]
    return RecordShape(
        fields, kind.columns_of, lambda columns, count: list(map(kind.build, _tuples(columns, count)))
    )


def _default_of(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default is not dataclasses.MISSING:
        value = field.default
        return lambda: value
    return None if field.default_factory is dataclasses.MISSING else field.default_factory


class Dialect(ABC):
    """What one format can hold. Subclasses give the leaves and put the rest together."""

    #: How the format is called in messages.
    name = ""
    #: What to do about a type that it cannot hold.
    advice = "Map the records to a type that it can hold, or take another format."

    def plan(self, kind: TypeInformation, path: str = "") -> Plan:
        """How values of a type go into this format."""
        shape = record_shape(kind)
        if shape is not None:
            return self._record(kind, shape, path)
        if isinstance(kind, MapTypeInfo):
            return self._map(kind, path)
        if isinstance(kind, _SequenceTypeInfo) and not (isinstance(kind, PrimitiveArrayTypeInfo) and kind.is_bytes):
            return self._sequence(kind, path)
        if isinstance(kind, EnumTypeInfo):
            return self._enum(kind, path)
        return self.leaf(kind, path)

    def refuse(self, kind: TypeInformation, path: str, why: str = "") -> NoReturn:
        """The error of a type that the format cannot hold."""
        where = f" (field {path!r})" if path else ""
        reason = f": {why}" if why else ""
        raise ProgramError(f"{self.name} cannot hold {kind.describe()}{where}{reason}", action=self.advice)

    # --- what a format says about itself ---------------------------------------------------------------------

    @abstractmethod
    def leaf(self, kind: TypeInformation, path: str) -> Plan:
        """How an indivisible type goes in; bytes are one."""

    @abstractmethod
    def record(self, kind: TypeInformation, fields: list[Field], plans: list[Plan], path: str) -> Plan:
        """How plain columns become plain records: `to_plain` and `from_plain` take and give lists of columns."""

    @abstractmethod
    def sequence(self, kind: TypeInformation, element: Plan, nullable_elements: bool, path: str) -> Any:
        """The format's own type of a list."""

    @abstractmethod
    def mapping(self, kind: MapTypeInfo, key: Plan, item: Plan, path: str) -> Any:
        """The format's own type of a map."""

    def enum(self, kind: EnumTypeInfo, path: str) -> Any:
        """The format's own type of an enum: what it has for strings."""
        return self.leaf(BasicTypeInfo.STRING_TYPE_INFO(), path).native

    # --- how the parts are put together ----------------------------------------------------------------------

    def _enum(self, kind: EnumTypeInfo, path: str) -> Plan:
        if issubclass(kind.enum_class, Flag):
            number = self.leaf(BasicTypeInfo.LONG_TYPE_INFO(), path).native
            return Plan(number, each(_flag_number), each(kind.enum_class))
        return Plan(self.enum(kind, path), each(_name_of), each(lambda name: member_of(kind, name)))

    def _record(self, kind: TypeInformation, shape: RecordShape, path: str) -> Plan:
        names = [field.name for field in shape.fields]
        if len(set(names)) < len(names):
            self.refuse(kind, path, "two fields have the same name")
        plans = [self.plan(field.kind, _join(path, field.name)) for field in shape.fields]
        plan = self.record(kind, shape.fields, plans, path)
        to_plain = [nullable(field.to_plain) for field in plans]
        from_plain = [nullable(field.from_plain) for field in plans]
        assert plan.to_plain is not None
        assert plan.from_plain is not None
        assemble, take_apart = plan.to_plain, plan.from_plain

        def go(records: Column) -> Column:
            if not names:
                return assemble([[()] * len(records)])
            columns = shape.columns_of(records)
            return assemble([convert(column) for convert, column in zip(to_plain, columns, strict=True)])

        def come(plain: Column) -> Column:
            columns = take_apart(plain) if names else []
            done = [convert(column) for convert, column in zip(from_plain, columns, strict=True)]
            return shape.build(done, len(plain))

        return Plan(plan.native, go, come)

    def _sequence(self, kind: Any, path: str) -> Plan:
        element = self.plan(kind.get_element_type(), f"{path}[]")
        native = self.sequence(kind, element, kind._element_may_be_none, path)
        return Plan(native, _over_elements(element.to_plain), _over_elements(element.from_plain))

    def _map(self, kind: MapTypeInfo, path: str) -> Plan:
        key = self.plan(kind.get_key_type(), f"{path}{{key}}")
        item = self.plan(kind.get_value_type(), f"{path}{{}}")
        native = self.mapping(kind, key, item, path)

        def over(keys_of: Convert | None, items_of: Convert | None, check: bool) -> Convert:
            convert_keys, convert_items = keys_of or (lambda keys: keys), nullable(items_of)

            def convert(maps: Column) -> Column:
                keys, items = flatten_maps(maps)
                if check and None in keys:
                    raise TypeMismatchError(kind.describe(), None, f"{self.name} has no key None")
                return rebuild_maps(convert_keys(keys), convert_items(items), maps)

            return convert

        return Plan(native, over(key.to_plain, item.to_plain, True), over(key.from_plain, item.from_plain, False))


def member_of(kind: EnumTypeInfo, name: Any) -> Enum:
    """The member of an enum with this name."""
    found = kind.enum_class.__members__.get(name)
    if found is None:
        raise TypeMismatchError(kind.describe(), name, "no member of the enum")
    return found


def _name_of(member: Enum) -> str:
    return member.name


def _flag_number(member: Flag) -> int:
    return int(member.value)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _over_elements(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    over = nullable(convert)
    return lambda lists: regroup(over([element for elements in lists for element in elements]), lists)


def dicts_of(names: Sequence[str]) -> tuple[Convert, Convert]:
    """Plain columns into dicts and back: how formats without a class of their own hold records."""

    def assemble(columns: Column) -> Column:
        if not names:
            return [{} for _ in columns[0]]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def take_apart(records: Column) -> Column:
        return [[record.get(name) for record in records] for name in names]

    return assemble, take_apart

