"""Dataclasses: Flink's POJOs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ..errors import ProgramError
from ._base import Column, TypeInformation


class DataclassTypeInfo(TypeInformation):
    """Type information of a dataclass: one type per field, and which fields may be None.

    Made by ``Types.DATACLASS(cls)`` from the annotations. A subclass is another type.

    >>> from dataclasses import dataclass
    >>> from millrace.common import Types
    >>> @dataclass
    ... class Reading:
    ...     sensor: str
    ...     value: float | None
    >>> info = Types.DATACLASS(Reading)
    >>> info
    Reading(sensor: String, value: Double?)
    >>> info.coerce_batch([Reading("a", 1)])
    [Reading(sensor='a', value=1.0)]
    """

    tag = "DATACLASS"

    def __init__(
        self,
        cls: type,
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        optional: Sequence[bool],
    ) -> None:
        if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            raise ProgramError(f"Types.DATACLASS needs a dataclass, got {cls!r}", action="Decorate it with @dataclass.")
        self.cls = cls
        self._names = tuple(field_names)
        self._types = tuple(field_types)
        self._optional = tuple(optional)
        self._exact = frozenset({cls})
        # Fields in slots cannot be set through the instance's dict, which is the quicker way.
        self._in_dict = not any(hasattr(getattr(cls, name, None), "__set__") for name in self._names)

    def get_field_names(self) -> list[str]:
        return list(self._names)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._types)

    def get_optional_fields(self) -> list[str]:
        """The names of the fields that may be None."""
        return [name for name, optional in zip(self._names, self._optional, strict=True) if optional]

    def _args(self) -> tuple[Any, ...]:
        return self.cls, self._names, self._types, self._optional

    def describe(self) -> str:
        return f"DATACLASS({self.cls.__qualname__})"

    def to_json(self) -> dict[str, Any]:
        fields = zip(self._names, self._types, self._optional, strict=True)
        identity = {field.name: _identity(field) for field in dataclasses.fields(self.cls)}
        return {
            "type": self.tag,
            "module": self.cls.__module__,
            "qualname": self.cls.__qualname__,
            "fields": [
                {"name": name, "type": kind.to_json(), "optional": opt, **identity.get(name, {})}
                for name, kind, opt in fields
            ],
        }

    def uses_pickle(self) -> bool:
        return any(kind.uses_pickle() for kind in self._types)

    def columns_of(self, records: Column) -> list[list[Any]]:
        """The records' fields, one list per field."""
        return [list(map(attrgetter(name), records)) for name in self._names]

    def build(self, values: Sequence[Any]) -> Any:
        """A record around field values; as in unpickling, neither ``__init__`` nor ``__post_init__`` runs."""
        record = object.__new__(self.cls)
        if self._in_dict:
            record.__dict__.update(zip(self._names, values, strict=True))
        else:
            for name, value in zip(self._names, values, strict=True):
                object.__setattr__(record, name, value)
        return record

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        try:
            columns = self.columns_of(values)
        except AttributeError:
            return None
        changed: dict[str, Column] = {}
        for name, kind, optional, column in zip(self._names, self._types, self._optional, columns, strict=True):
            done = kind._column(column, optional)
            if done is None:
                return None
            if done is not column:
                changed[name] = done
        if not changed:
            return values
        return [
            self._with(record, dict(zip(changed, items, strict=True)))
            for record, items in zip(values, zip(*changed.values(), strict=True), strict=True)
        ]

    def _coerce_one(self, value: Any) -> Any:
        if type(value) is not self.cls:
            raise self._mismatch(value, "a subclass is another type" if isinstance(value, self.cls) else "")
        changed = {}
        for name, kind, optional in zip(self._names, self._types, self._optional, strict=True):
            if not hasattr(value, name):
                raise self._mismatch(value, f"field {name!r} was never set")
            old = getattr(value, name)
            new = kind._coerce_part(old, name, optional)
            if new is not old:
                changed[name] = new
        return self._with(value, changed) if changed else value

    def _with(self, record: Any, changed: dict[str, Any]) -> Any:
        other = copy.copy(record)
        for name, value in changed.items():
            object.__setattr__(other, name, value)
        return other

    def __repr__(self) -> str:
        fields = zip(self._names, self._types, self._optional, strict=True)
        shown = ", ".join(f"{name}: {kind!r}{'?' if optional else ''}" for name, kind, optional in fields)
        return f"{self.cls.__qualname__}({shown})"


def _identity(field: dataclasses.Field[Any]) -> dict[str, bool]:
    """How a field takes part in `==` and `hash`, where it is not as usual: what decides where a key's state is."""
    said = {} if field.compare else {"compare": False}
    return said if field.hash is None else {**said, "hash": field.hash}
