"""JSON, message by message."""

from __future__ import annotations

from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation, Types
from millrace.formats.json import JsonCodec
from millrace.formats.json_schema import type_from_json_schema
from millrace.formats.schemas import CodecDeserializationSchema, CodecSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(CodecDeserializationSchema):
    """Reads JSON texts as records of a type: rows, dataclasses, maps, lists. Without a type, as plain dicts.

    Fields that the type does not have are left out; those that the text does not have are None, or what the dataclass
    has for a default.

    >>> from millrace.common import Types
    >>> row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    >>> schema = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    >>> schema.deserialize(b'{"id": 1, "name": "Ada"}')
    Row(id=1, name='Ada')
    """

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Says what the texts hold."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """The type of the records."""
            self._type_info = _require_type(type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """The same, by a JSON Schema."""
            self._type_info = type_from_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """A text that lacks a field is an error."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """What cannot be read is left out, and neither counted nor reported; see also `on_error` of a stream."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ProgramError("fail_on_missing_field and ignore_parse_errors contradict each other")
            return JsonRowDeserializationSchema(
                JsonCodec(self._type_info, self._fail_on_missing_field),
                self._type_info or Types.PICKLED_BYTE_ARRAY(),
                self._ignore_parse_errors,
            )


class JsonRowSerializationSchema(CodecSerializationSchema):
    """Writes records of a type as JSON texts. Without a type, whatever JSON can hold.

    >>> JsonRowSerializationSchema.builder().build().serialize({"id": 1, "tags": ["a"]})
    b'{"id":1,"tags":["a"]}'
    """

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Says what the records are."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """The type of the records."""
            self._type_info = _require_type(type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            return JsonRowSerializationSchema(JsonCodec(self._type_info))


def _require_type(type_info: TypeInformation) -> TypeInformation:
    if not isinstance(type_info, TypeInformation):
        raise ProgramError(f"{type_info!r} is no type information", action="Call it: Types.STRING() and not str.")
    return type_info
