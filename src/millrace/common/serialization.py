"""Between records and the bytes that outside systems hold."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol, TypeAlias

from .errors import ConfigurationError, DecodingError, TypeMismatchError
from .typeinfo import TypeInformation, Types
from .types import Row

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


# Told where in a batch something is wrong, and what.
OnError: TypeAlias = Callable[[int, Exception], object]


def one_or_all(
    items: Sequence[Any], convert: Callable[[Sequence[Any]], list[Any]], on_error: OnError | None
) -> list[Any]:
    """All at once; only if that fails one by one, to see which it is."""
    try:
        return convert(items)
    except Exception:
        if on_error is None and len(items) < 2:  # One item cannot be told apart any further.
            raise
    done = []
    for index, item in enumerate(items):
        try:
            done += convert((item,))
        except Exception as error:
            if on_error is None:
                raise
            on_error(index, error)
            done.append(None)
    return done


class SerializationSchema(ABC):
    """Turns a record into bytes for a sink."""

    def open(self) -> None:  # noqa: B027 - may be overridden, need not be
        """Called once on every worker before the first record."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes: ...

    def serialize_batch(self, elements: Sequence[Any], on_error: OnError | None = None) -> list[Any]:
        """The bytes of many records, in a list beside them.

        A record that cannot be written raises; with `on_error(index, error)` that is called instead, and None stands
        in the record's place.
        """
        return one_or_all(elements, self._serialize_all, on_error)

    def _serialize_all(self, elements: Sequence[Any]) -> list[Any]:
        """The bytes of many records, or an exception; here one may be quicker than one by one."""
        return list(map(self.serialize, elements))


class DeserializationSchema(ABC):
    """Turns the bytes of a source into a record."""

    def open(self) -> None:  # noqa: B027 - may be overridden, need not be
        """Called once on every worker before the first message."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The record; None when the message is to be left out."""

    def deserialize_batch(self, messages: Sequence[bytes], on_error: OnError | None = None) -> list[Any]:
        """The records of many messages, in a list beside them; None for a message that is to be left out.

        A message that cannot be read raises; with `on_error(index, error)` that is called instead, and None stands in
        the record's place.

        >>> bad = []
        >>> SimpleStringSchema().deserialize_batch([b"a", b"\\xff"], lambda index, error: bad.append(index)), bad
        (['a', None], [1])
        """
        return one_or_all(messages, self._deserialize_all, on_error)

    def _deserialize_all(self, messages: Sequence[bytes]) -> list[Any]:
        """The records of many messages, or an exception; here one may be quicker than one by one."""
        return list(map(self.deserialize, messages))

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Whether this record tells that the source ends."""
        return False

    @abstractmethod
    def get_produced_type(self) -> TypeInformation: ...


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings.

    >>> schema = SimpleStringSchema()
    >>> schema.deserialize(schema.serialize("grüß"))
    'grüß'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            self._charset = codecs.lookup(charset).name
        except LookupError:
            raise ConfigurationError(f"there is no charset {charset!r}") from None

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, str):
            raise TypeMismatchError("STRING", element)
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        try:
            return message.decode(self._charset)
        except UnicodeDecodeError as error:
            raise DecodingError(f"a message is not {self._charset}: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are.

    >>> ByteArraySchema().deserialize(b"x")
    b'x'
    """

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, (bytes, bytearray, memoryview)):
            raise TypeMismatchError("PRIMITIVE_ARRAY(BYTE)", element)
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which must hold bytes: a Kafka key or value, for example.

    >>> RowFieldExtractorSchema(1).serialize(Row("id", b"payload"))
    b'payload'
    """

    def __init__(self, field_index: int) -> None:
        if isinstance(field_index, bool) or not isinstance(field_index, int) or field_index < 0:
            raise ConfigurationError(f"a field index is a number from 0 on, got {field_index!r}")
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, (Row, tuple, list)) or len(element) <= self._field_index:
            raise TypeMismatchError(f"a ROW with a field {self._field_index}", element)
        field = element[self._field_index]
        if field is None:
            return b""
        if not isinstance(field, (bytes, bytearray)):
            raise TypeMismatchError("PRIMITIVE_ARRAY(BYTE)", field).inside(f"f{self._field_index}")
        return bytes(field)


class Encoder(ABC):
    """Writes records, one by one, into a file of a file sink."""

    @abstractmethod
    def encode(self, element: Any, stream: BinaryIO) -> None: ...

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """One line per record: what ``str`` makes of it."""
        return _LineEncoder(charset_name)


class _LineEncoder(Encoder):
    def __init__(self, charset: str) -> None:
        self._schema = SimpleStringSchema(charset)

    def encode(self, element: Any, stream: BinaryIO) -> None:
        stream.write(self._schema.serialize(f"{element}\n"))

    def encode_all(self, elements: list[Any], stream: BinaryIO) -> None:
        """Many records at once, which costs less."""
        stream.write(self._schema.serialize("".join([f"{element}\n" for element in elements])))


class BulkWriter(Protocol):
    """Writes a file whose records stand together, such as Parquet."""

    def add_element(self, element: Any) -> None: ...

    def finish(self) -> None:
        """Writes what is left; the stream stays open."""


class BulkWriterFactory(ABC):
    """Makes the writer of one file."""

    @abstractmethod
    def create(self, stream: BinaryIO) -> BulkWriter: ...
