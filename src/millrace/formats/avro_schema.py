"""From an Avro schema to a type, as Flink's AvroSchemaConverter does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation, Types

__all__ = ["type_from_avro", "without_logical_strings"]

_PRIMITIVES = {
    "string": Types.STRING(),
    "boolean": Types.BOOLEAN(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "fixed": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "enum": Types.STRING(),
}
_LOGICAL = {
    "decimal": Types.BIG_DEC(),
    "date": Types.SQL_DATE(),
    "time-millis": Types.SQL_TIME(),
    "time-micros": Types.SQL_TIME(),
    "timestamp-millis": Types.SQL_TIMESTAMP(),
    "timestamp-micros": Types.SQL_TIMESTAMP(),
    "local-timestamp-millis": Types.SQL_TIMESTAMP(),
    "local-timestamp-micros": Types.SQL_TIMESTAMP(),
}


def type_from_avro(schema: Any) -> TypeInformation:
    """The type of what an Avro schema (as parsed JSON) describes; a timestamp is one in UTC, without a zone.

    >>> type_from_avro({"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "long"]}]})
    Row(id: Long)
    """
    return _Reader().type_of(schema, "")


class _Reader:
    def __init__(self) -> None:
        self._named: dict[str, TypeInformation | None] = {}

    def type_of(self, schema: Any, space: str) -> TypeInformation:
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._known(schema, space)
        if not isinstance(schema, Mapping):
            raise _cannot(schema)
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.type_of(kind, space)
        if kind == "array":
            return Types.OBJECT_ARRAY(self.type_of(schema.get("items"), space))
        if kind == "map":
            return Types.MAP(Types.STRING(), self.type_of(schema.get("values"), space))
        if kind in ("record", "error"):
            return self._record(schema, space)
        found = _LOGICAL.get(schema.get("logicalType", "")) or self.type_of(kind, space)
        if "name" in schema:
            self._named[_full(schema, space)] = found
        return found

    def _record(self, schema: Mapping[str, Any], space: str) -> TypeInformation:
        name = _full(schema, space)
        inner = name.rpartition(".")[0]
        self._named[name] = None
        fields = schema.get("fields", [])
        kinds = [self.type_of(field.get("type"), inner) for field in fields]
        found = self._named[name] = Types.ROW_NAMED([field["name"] for field in fields], kinds)
        return found

    def _union(self, schema: list[Any], space: str) -> TypeInformation:
        present = [branch for branch in schema if branch != "null"]
        if len(present) != 1:
            raise _cannot(schema)
        return self.type_of(present[0], space)

    def _known(self, name: str, space: str) -> TypeInformation:
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            found = self._named.get(candidate)
            if found is not None:
                return found
        raise _cannot(name)


def _full(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema.get("name", ""))
    space = schema.get("namespace", space)
    return name if "." in name or not space else f"{space}.{name}"


def _cannot(schema: Any) -> ProgramError:
    return ProgramError(
        f"no type can be made of this part of an Avro schema: {schema!r}",
        action="A union is of null and one other type; a record cannot be inside itself.",
    )


def without_logical_strings(schema: Any) -> Any:
    """The schema without `uuid`: such strings stay strings."""
    if isinstance(schema, list):
        return [without_logical_strings(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: without_logical_strings(part) if name in ("type", "items", "values", "fields") else part
        for name, part in schema.items()
        if (name, part) != ("logicalType", "uuid")
    }
