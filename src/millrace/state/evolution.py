"""Type evolution: what a program may change about the type of a state that was written before.

A pure comparison of the type that a file names with the one that the program declares. The answer is one of three:
the same; another one, and here is how values become it; refused, and why. Nothing is read, nothing is imported.

Safe are: integers to wider ones, to FLOAT, DOUBLE and BIG_DEC; FLOAT to DOUBLE; CHAR to STRING; fields of a row or
dataclass added (where there is a default, or None fits), removed, reordered; members of an enum added; one kind of
list for another; and all that inside of each other. What decides where state is kept, keys, may change in fewer ways:
equal before must be equal after, with the same hash.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from millrace.common.errors import MillraceError
from millrace.common.typeinfo import (
    BasicTypeInfo,
    DataclassTypeInfo,
    EnumTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    classes_named,
    stand_in_classes,
    type_from_json,
)
from millrace.common.types import make_row
from millrace.state.conversions import (
    KEEP_THE_TYPE,
    Convert,
    FieldColumn,
    coerced,
    new_records,
    over_lists,
    over_maps,
)

TypeJson = Mapping[str, Any]

_INTEGERS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
# The same value, equal and with the same hash, in another type.
_EXACT = {
    **{tag: {*_INTEGERS[place + 1 :], "BIG_DEC"} for place, tag in enumerate(_INTEGERS)},
    "CHAR": {"STRING"},
}
# The nearest value. A BIG_INT may be too large for any float.
_NEAREST = {**{tag: {"FLOAT", "DOUBLE"} for tag in _INTEGERS[:-1]}, "FLOAT": {"DOUBLE"}}

_KEEP_THE_KEY = "Keep the type of the key, or start this operator's state anew under another uid."

_SEQUENCES = frozenset({"LIST", "BASIC_ARRAY", "OBJECT_ARRAY", "PRIMITIVE_ARRAY"})
_BYTES = PrimitiveArrayTypeInfo(BasicTypeInfo.BYTE_TYPE_INFO())


@dataclass(frozen=True)
class Evolution:
    """What becomes of values that were written as one type, where another is declared.

    `changes` are the safe changes in words. Of a refusal, `reason` says which field and why, `action` what to do.
    `classes` are those whose instances the program gets although its declared type does not name them.
    """

    verdict: Literal["same", "safe", "refused"]
    changes: tuple[str, ...] = ()
    reason: str = ""
    action: str = ""
    classes: frozenset[tuple[str, str]] = frozenset()
    convert: Convert | None = field(default=None, repr=False, compare=False)


def compare_types(written: TypeJson, declared: TypeInformation, *, key: bool = False) -> Evolution:
    """Compare a written type, as JSON, with a declared one. `key`: values must keep equality and hash.

    >>> from millrace.common import Types
    >>> compare_types({"type": "INT"}, Types.LONG()).changes
    ('INT becomes LONG',)
    >>> compare_types({"type": "STRING"}, Types.LONG()).reason
    'STRING cannot become LONG'
    """
    if written == declared.to_json():
        return Evolution("same")
    planner = _Planner(key)
    try:
        convert = planner.plan(written, declared, "")
    except _RefusedError as refusal:
        action = _KEEP_THE_KEY if key and refusal.action == KEEP_THE_TYPE else refusal.action
        return Evolution("refused", reason=refusal.reason, action=action)
    return Evolution("safe", tuple(planner.changes), classes=frozenset(planner.classes), convert=convert)


def type_in_words(type_json: TypeJson | None) -> str:
    """A type as a program would write it.

    >>> type_in_words({"type": "LIST", "element": {"type": "INT"}})
    'LIST(INT)'
    """
    if type_json is None:
        return "untyped"
    try:
        return type_from_json(type_json, stand_in_classes(type_json)).describe()
    except (MillraceError, LookupError, TypeError, ValueError, AttributeError):
        return str(type_json.get("type", "a type that is unknown here"))


class _RefusedError(Exception):
    def __init__(self, path: str, reason: str, action: str = KEEP_THE_TYPE) -> None:
        self.reason = f"field {path!r}: {reason}" if path else reason
        self.action = action


class _Planner:
    """Walks two types side by side, and gathers what changed."""

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self.changes: list[str] = []
        self.classes: set[tuple[str, str]] = set()

    def plan(self, written: TypeJson, declared: TypeInformation, path: str) -> Convert | None:
        """How values of the written type become values of the declared one; None: as they are."""
        if written == declared.to_json():
            return None
        tag = written.get("type")
        if isinstance(declared, PickledBytesTypeInfo):
            self.classes.update(name for name, _ in classes_named(written))
            self._note(path, f"{type_in_words(written)} becomes a type that holds anything")
            return None
        if tag == PickledBytesTypeInfo.tag:
            self._note(path, f"a type that held anything becomes {declared.describe()}, if the values fit")
            return lambda values: coerced(declared, values, key=self._exact)
        if tag in _SEQUENCES and _is_sequence(declared) and _BYTES.to_json() != written:
            return self._sequence(written, declared, path)
        plan = self._PLANS.get((tag, type(declared)))
        if plan is not None:
            return plan(self, written, declared, path)
        return self._basic(written, declared, path)

    def _note(self, path: str, change: str) -> None:
        self.changes.append(f"field {path!r}: {change}" if path else change)

    def _refuse(
        self, path: str, written: TypeJson, declared: TypeInformation, why: str = "", action: str = KEEP_THE_TYPE
    ) -> _RefusedError:
        return _RefusedError(path, f"{type_in_words(written)} cannot become {declared.describe()}{why}", action)

    def _basic(self, written: TypeJson, declared: TypeInformation, path: str) -> Convert:
        old, new = str(written.get("type")), declared.tag
        if isinstance(declared, BasicTypeInfo):
            new = declared.basic_type.name
        if new in _NEAREST.get(old, ()) and self._exact:
            why = ", for a key must keep its hash, which says where its state is"
            raise self._refuse(path, written, declared, why, _KEEP_THE_KEY)
        if new not in _EXACT.get(old, ()) and new not in _NEAREST.get(old, ()):
            raise self._refuse(path, written, declared)
        self._note(path, f"{old} becomes {new}")
        return declared.coerce_batch

    # -- lists and maps ----------------------------------------------------------------------------------------------

    def _sequence(self, written: TypeJson, declared: Any, path: str) -> Convert | None:
        if isinstance(declared, PrimitiveArrayTypeInfo) and written["type"] != declared.tag:
            raise self._refuse(path, written, declared, ", whose elements are never None")
        if written["type"] != declared.tag:
            self._note(path, f"{written['type']} becomes {declared.tag}")
        return over_lists(self.plan(written["element"], declared.get_element_type(), f"{path}[]"))

    def _map(self, written: TypeJson, declared: MapTypeInfo, path: str) -> Convert | None:
        before, self._exact = self._exact, True  # two keys that became one would lose an entry
        try:
            keys = self.plan(written["key"], declared.get_key_type(), f"{path}[key]")
        finally:
            self._exact = before
        return over_maps(keys, self.plan(written["value"], declared.get_value_type(), f"{path}[]"))

    # -- records -----------------------------------------------------------------------------------------------------

    def _tuple(self, written: TypeJson, declared: TupleTypeInfo, path: str) -> Convert | None:
        columns = self._by_position(written, declared, path)
        if all(column.convert is None for column in columns):
            return None
        return lambda records: new_records(columns, records)

    def _by_position(
        self, written: TypeJson, declared: RowTypeInfo | TupleTypeInfo, path: str
    ) -> list[FieldColumn]:
        old, new = written["fields"], declared.get_field_types()
        if len(old) != len(new):
            why = f": {len(old)} and not {len(new)} fields, and without names none can be told apart"
            raise self._refuse(path, written, declared, why)
        return [
            FieldColumn(place, self.plan(before, after, _inside(path, f"f{place}")))
            for place, (before, after) in enumerate(zip(old, new, strict=True))
        ]

    def _row(self, written: TypeJson, declared: RowTypeInfo, path: str) -> Convert:
        names = declared.names
        if written["names"] is None or names is None:
            columns = self._by_position(written, declared, path)
            if (written["names"] is None) != (names is None):
                self._note(path, "its fields have names now" if names else "its fields have no names any more")
        else:
            fields = dict(zip(written["names"], written["fields"], strict=True))
            missing = {name: _nothing for name in names if name not in fields}
            types = dict(zip(names, declared.get_field_types(), strict=True))
            columns = self._by_name(fields, types, missing, path, list(fields).index)
        return lambda rows: [
            make_row(list(items), names or row._fields, row._row_kind)
            for items, row in zip(new_records(columns, rows), rows, strict=True)
        ]

    def _dataclass(self, written: TypeJson, declared: DataclassTypeInfo, path: str) -> Convert:
        self._same_class(written, declared.cls, path)
        if self._exact and _identities(written) != _identities(declared.to_json()):
            why = "other fields take part in its comparison, and so in the hash of the key"
            raise _RefusedError(path, why, _KEEP_THE_KEY)
        types = dict(zip(declared.get_field_names(), declared.get_field_types(), strict=True))
        optional = declared.get_optional_fields()
        fields = {said["name"]: said["type"] for said in written["fields"]}
        for said in written["fields"]:
            if said["optional"] and said["name"] in types and said["name"] not in optional:
                raise _RefusedError(
                    _inside(path, said["name"]),
                    "it could be None, and is now declared so that it cannot",
                    f"Declare {said['name']!r} as `... | None`, or give the state a new name and let it begin empty.",
                )
        missing = {
            name: self._default(declared.cls, name, kind, name in optional, path)
            for name, kind in types.items()
            if name not in fields
        }
        columns = self._by_name(fields, types, missing, path, str)
        return lambda records: list(map(declared.build, new_records(columns, records)))

    def _same_class(self, written: TypeJson, cls: type, path: str) -> None:
        old = f"{written['module']}.{written['qualname']}"
        new = f"{cls.__module__}.{cls.__qualname__}"
        if old != new:
            raise _RefusedError(
                path,
                f"it was of the class {old}, and is now of the class {new}",
                f"Keep the class under its name: {written['qualname']} in the module {written['module']}.",
            )

    def _default(
        self, cls: type, name: str, kind: TypeInformation, optional: bool, path: str
    ) -> Callable[[], Any]:
        spec = next(spec for spec in dataclasses.fields(cls) if spec.name == name)
        make: Callable[[], Any]
        # Not `is`: a class of the user's script comes to a worker with a MISSING of its own.
        missing = type(dataclasses.MISSING)
        factory: Any = spec.default_factory
        if not isinstance(factory, missing):
            make = factory
        elif not isinstance(spec.default, missing):
            make = lambda: spec.default  # noqa: E731 - the same shape as the factory
        elif optional:
            return _nothing
        else:
            raise _RefusedError(
                _inside(path, name),
                "it is new, has no default and cannot be None, so that older values have nothing for it",
                f"Give the field {name!r} a default.",
            )
        return lambda: None if (value := make()) is None else kind.coerce(value)

    def _by_name(
        self,
        written: dict[str, TypeJson],
        declared: dict[str, TypeInformation],
        missing: dict[str, Callable[[], Any]],
        path: str,
        source: Callable[[str], str | int],
    ) -> list[FieldColumn]:
        """What the declared fields are made of. `missing` are those that were not written."""
        if self._exact and list(written) != list(declared):
            why = "its fields are others, or in another order, which changes the hash of the key"
            raise _RefusedError(path, why, _KEEP_THE_KEY)
        for name in missing:
            self._note(_inside(path, name), "added")
        for name in written:
            if name not in declared:
                self._note(_inside(path, name), "removed")
        if [name for name in written if name in declared] != [name for name in declared if name in written]:
            self._note(path, "its fields are in another order")
        return [
            FieldColumn(None, None, missing[name])
            if name in missing
            else FieldColumn(source(name), self.plan(written[name], kind, _inside(path, name)))
            for name, kind in declared.items()
        ]

    # -- enums -------------------------------------------------------------------------------------------------------

    def _enum(self, written: TypeJson, declared: EnumTypeInfo, path: str) -> Convert:
        self._same_class(written, declared.enum_class, path)
        old, new = _members(written), _members(declared.to_json())
        gone = [name for name in old if name not in new]
        if gone:
            raise _RefusedError(
                path,
                f"its members {', '.join(gone)} are gone",
                "Keep the members, also those that are no longer used, or give the state a new name.",
            )
        if (self._exact or written.get("flag")) and any(old[name] != new[name] for name in old):
            raise _RefusedError(path, "its members have other values, which are what they are compared by")
        added = [name for name in new if name not in old]
        self._note(path, f"members added: {', '.join(added)}" if added else "its members changed, their names did not")
        cls = declared.enum_class
        if written.get("flag"):
            return lambda members: [cls(member.value) for member in members]
        return lambda members: [cls[member.name] for member in members]

    _PLANS: Mapping[tuple[Any, type], Callable[..., Convert | None]] = {
        ("MAP", MapTypeInfo): _map,
        ("TUPLE", TupleTypeInfo): _tuple,
        ("ROW", RowTypeInfo): _row,
        ("DATACLASS", DataclassTypeInfo): _dataclass,
        ("ENUM", EnumTypeInfo): _enum,
    }


def _nothing() -> None:
    return None


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_sequence(declared: TypeInformation) -> bool:
    return isinstance(declared, (ListTypeInfo, ObjectArrayTypeInfo)) or (
        declared.tag in _SEQUENCES and declared != _BYTES
    )


def _members(type_json: TypeJson) -> dict[str, Any]:
    names = type_json["members"]
    return dict(zip(names, type_json.get("values") or [None] * len(names), strict=True))


def _identities(type_json: TypeJson) -> list[tuple[str, Any, Any]]:
    return [(said["name"], said.get("compare", True), said.get("hash")) for said in type_json["fields"]]
