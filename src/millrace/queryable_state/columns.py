"""Values on their way through the network: by their declared type, or plain. Never by pickle."""

from __future__ import annotations

from typing import Any

from millrace.common.errors import MillraceError, short_repr
from millrace.common.typeinfo import infer_type_info, type_from_json
from millrace.queryable_state.errors import QueryTypeError
from millrace.queryable_state.wire import WireColumn
from millrace.state.codec import BatchType, ColumnCodec, EncodedColumn

PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes})

_DECLARE = "Declare a type that does without pickle, in the descriptor of the state or for the key."
_SAME_TYPE = "Use the types that the job declares for the state."


def to_wire(values: list[Any], type_info: BatchType | None, what: str) -> WireColumn:
    """Values as they may travel. `what` names them in errors."""
    declared = None if type_info is None or type_info.uses_pickle() else type_info
    if declared is None and not set(map(type, values)) <= PLAIN_TYPES:
        strange = next(value for value in values if type(value) not in PLAIN_TYPES)
        raise QueryTypeError(f"{what} is {short_repr(strange)}, which could only travel as a pickle", action=_DECLARE)
    try:
        _, encoded = ColumnCodec(declared).encode(values)
    except MillraceError as error:
        raise QueryTypeError(f"{what} does not fit its type: {error.message}", action=error.action) from error
    if encoded.pickled:
        raise QueryTypeError(f"{what} is beyond 64 bits, or no text that UTF-8 can hold", action=_DECLARE)
    return WireColumn("plain" if declared is None else "typed", encoded.type_json, bytes(encoded.data))


def key_to_wire(key: Any, type_info: BatchType | None, what: str) -> WireColumn:
    """A key or namespace. Where nobody declares its type, it is guessed."""
    if type_info is None and type(key) not in PLAIN_TYPES:
        type_info = infer_type_info(key)
    return to_wire([key], type_info, what)


def from_wire(column: WireColumn, type_info: BatchType | None, what: str) -> list[Any]:
    """Values that came through the network, as values of the type if one is given.

    No class is imported and nothing unpickled for it: a class must come with `type_info`. Without one, a dataclass
    becomes a dict and a member of an enum its name.
    """
    declared = None if type_info is None or type_info.uses_pickle() else type_info
    described = column.type if declared is None else None
    written = column.type if described is None else _without_classes(described, what)
    try:
        encoded = EncodedColumn(column.encoding, written, False, column.data)
        values = ColumnCodec(declared).decode(encoded, allow_pickle=False)
        if column.encoding == "plain":
            _require_plain(values, what)
            values = values if declared is None else declared.coerce_batch(values)
    except QueryTypeError:
        raise
    except MillraceError as error:
        raise QueryTypeError(f"{what} does not fit: {error.message or error}", action=_SAME_TYPE) from error
    return values if described is None else [_named(value, described) for value in values]


def _require_plain(values: Any, what: str) -> None:
    if not (isinstance(values, list) and set(map(type, values)) <= PLAIN_TYPES):
        raise QueryTypeError(f"{what} says that it is plain, and is not", action=_SAME_TYPE)


def one_from_wire(column: WireColumn, type_info: BatchType | None, what: str) -> Any:
    """The value of a column that must hold one."""
    values = from_wire(column, type_info, what)
    if len(values) != 1:
        raise QueryTypeError(f"{what}: {len(values)} values instead of one")
    return values[0]


def type_of(type_json: dict[str, Any] | None) -> BatchType | None:
    """The type that a job declared for its own state, None where it has none or one that only it can read.

    Its classes are imported; so this is for descriptions out of the job's own files, never from the network.
    """
    if type_json is None:
        return None
    try:
        return type_from_json(type_json)
    except MillraceError:
        return None


def _without_classes(type_json: dict[str, Any], what: str) -> dict[str, Any]:
    """The same bytes described without classes: a dataclass is encoded as a tuple, an enum as its name."""
    try:
        return _classless(type_json)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise QueryTypeError(f"{what} comes with a type that is not understood") from error


def _classless(type_json: dict[str, Any]) -> dict[str, Any]:
    tag = type_json["type"]
    if tag == "DATACLASS":
        return {"type": "TUPLE", "fields": [_classless(field["type"]) for field in type_json["fields"]]}
    if tag == "ENUM":
        return {"type": "STRING"}
    parts: dict[str, Any] = {
        role: _classless(type_json[role]) for role in ("element", "key", "value") if role in type_json
    }
    if "fields" in type_json:
        parts["fields"] = [_classless(field) for field in type_json["fields"]]
    return {**type_json, **parts}


def _named(value: Any, type_json: dict[str, Any]) -> Any:
    """A value that was decoded without its classes: dataclasses, decoded as tuples, get their fields' names."""
    if value is None:
        return None
    match type_json["type"]:
        case "DATACLASS":
            fields = zip(type_json["fields"], value, strict=True)
            return {field["name"]: _named(item, field["type"]) for field, item in fields}
        case "TUPLE":
            return tuple(_named(item, field) for item, field in zip(value, type_json["fields"], strict=True))
        case "MAP":
            return {key: _named(item, type_json["value"]) for key, item in value.items()}
        case _ if "element" in type_json and isinstance(value, list):
            return [_named(item, type_json["element"]) for item in value]
    return value
