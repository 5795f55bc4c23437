"""From a JSON Schema to a type, as Flink's JsonRowSchemaConverter does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation, Types

__all__ = ["type_from_json_schema"]

_PLAIN: dict[str, Callable[[], TypeInformation]] = {
    "boolean": Types.BOOLEAN,
    "integer": Types.BIG_INT,
    "number": Types.BIG_DEC,
}
_TEXT: dict[str, Callable[[], TypeInformation]] = {
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    "date-time": Types.SQL_TIMESTAMP,
}


def type_from_json_schema(text: str) -> TypeInformation:
    """The type of what a JSON Schema describes.

    >>> type_from_json_schema('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    Row(id: BigInteger)
    """
    try:
        schema = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ProgramError(f"the JSON Schema is not JSON: {error}") from error
    return _type_of(schema, schema)


def _type_of(schema: Any, root: Any) -> TypeInformation:
    if not isinstance(schema, Mapping):
        raise _cannot(schema)
    if "$ref" in schema:
        return _type_of(_referred(schema["$ref"], root), root)
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [name for name in kind if name != "null"]
        if len(named) != 1:
            raise _cannot(schema)
        kind = named[0]
    if kind in _PLAIN:
        return _PLAIN[kind]()
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        return _TEXT.get(schema.get("format", ""), Types.STRING)()
    return _composite(kind, schema, root)


def _composite(kind: Any, schema: Mapping[str, Any], root: Any) -> TypeInformation:
    if kind == "object":
        fields = schema.get("properties", {})
        return Types.ROW_NAMED(list(fields), [_type_of(field, root) for field in fields.values()])
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return Types.OBJECT_ARRAY(_type_of(schema["items"], root))
    if kind == "array" and isinstance(schema.get("items"), list):
        return Types.ROW([_type_of(item, root) for item in schema["items"]])
    raise _cannot(schema)


def _referred(reference: str, root: Any) -> Any:
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    if not reference.startswith("#") or found is None:
        raise ProgramError(f"the JSON Schema refers to {reference!r}, which is not in it")
    return found


def _cannot(schema: Any) -> ProgramError:
    return ProgramError(
        f"no type can be made of this part of a JSON Schema: {schema!r}",
        action="Give the type itself, with type_info(...).",
    )
