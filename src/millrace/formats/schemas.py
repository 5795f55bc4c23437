"""Schemas over codecs: what connectors call, for one message or a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from millrace.common.errors import DecodingError, TypeMismatchError
from millrace.common.serialization import DeserializationSchema, SerializationSchema
from millrace.common.typeinfo import TypeInformation

__all__ = ["Codec", "CodecDeserializationSchema", "CodecSerializationSchema"]


class Codec(Protocol):
    """Texts or bytes to records and back, many at a time; the first that is wrong raises."""

    def decode_all(self, messages: Sequence[bytes]) -> list[Any]:
        """The records of messages."""

    def encode_all(self, values: Sequence[Any]) -> list[bytes]:
        """The messages of records."""


class CodecDeserializationSchema(DeserializationSchema):
    """Reads records by a codec. With `ignore_errors`, what cannot be read is left out in silence.

    To count such messages, or to see them in a side output, leave that to the stream's `on_error`.
    """

    def __init__(self, codec: Codec, produced: TypeInformation, ignore_errors: bool = False) -> None:
        self._codec = codec
        self._produced = produced
        self._ignore_errors = ignore_errors

    def deserialize(self, message: bytes) -> Any:
        return self._deserialize_all((message,))[0]

    def get_produced_type(self) -> TypeInformation:
        return self._produced

    def _deserialize_all(self, messages: Sequence[bytes]) -> list[Any]:
        try:
            return self._codec.decode_all(messages)
        except (DecodingError, TypeMismatchError):
            if not self._ignore_errors:
                raise
        if len(messages) == 1:
            return [None]
        return [record for message in messages for record in self._deserialize_all((message,))]


class CodecSerializationSchema(SerializationSchema):
    """Writes records by a codec."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def serialize(self, element: Any) -> bytes:
        return self._codec.encode_all((element,))[0]

    def _serialize_all(self, elements: Sequence[Any]) -> list[Any]:
        return self._codec.encode_all(elements)
