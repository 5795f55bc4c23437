"""Records of Kafka: as the program sees them, and as they are written."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from millrace.common.errors import ConfigurationError
from millrace.common.serialization import DeserializationSchema, SerializationSchema
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.batch import Batch
from millrace.runtime.sources.spark_read import EntryReader, OnBadRecord, RawRecords

from .offsets import KafkaTopicPartition

Headers = list[tuple[str, bytes | None]]


class KafkaConsumerRecord(NamedTuple):
    """One record as Kafka has it. `timestamp` is in milliseconds; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    topic: str
    partition: int
    offset: int
    timestamp: int


class KafkaRecordDeserializationSchema(ABC):
    """Turns a whole record into what the program sees.

    >>> class WithKey(KafkaRecordDeserializationSchema):
    ...     def deserialize(self, record):
    ...         return record.key, record.value
    >>> WithKey().deserialize(KafkaConsumerRecord(b"k", b"v", [], "t", 0, 7, 0))
    (b'k', b'v')
    """

    def open(self) -> None:  # noqa: B027 - optional
        """Called once on every worker before the first record."""

    @abstractmethod
    def deserialize(self, record: KafkaConsumerRecord) -> Any:
        """The program's record; None when it is to be left out."""

    def get_produced_type(self) -> TypeInformation | None:
        """The type of what `deserialize` gives, if it is known."""
        return None

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Looks at the value alone. A tombstone, which has none, is left out."""
        return _ValueOnly(deserialization_schema)


class _ValueOnly(KafkaRecordDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        self.schema = schema

    def open(self) -> None:
        self.schema.open()

    def deserialize(self, record: KafkaConsumerRecord) -> Any:
        return None if record.value is None else self.schema.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation | None:
        return self.schema.get_produced_type()


# The columns that the workers are given; a value-only source leaves out the last three.
COLUMNS = ("topic", "partition", "unix_millis(timestamp)", "value")
FURTHER_COLUMNS = ("key", "offset", "headers")


class KafkaEntryReader(EntryReader):
    """Splits are topic-partitions, whichever of Spark's tasks has read them."""

    def __init__(self, deserializer: KafkaRecordDeserializationSchema) -> None:
        self._deserializer = deserializer
        self.value_only = isinstance(deserializer, _ValueOnly)

    def slot_hint(self, split_id: str) -> int:
        topic, _, number = split_id.rpartition("-")
        return zlib.crc32(topic.encode()) + int(number)

    def splits(self, columns: list[list[Any]]) -> Iterator[RawRecords]:
        topics, partitions, timestamps, values, *further = columns
        start = 0
        for (topic, number), run in groupby(zip(topics, partitions, strict=True)):
            end = start + sum(1 for _ in run)
            piece = slice(start, end)
            raw = values[piece] if self.value_only else _records(topic, number, piece, timestamps, values, further)
            split_id = str(KafkaTopicPartition(topic, number))
            yield RawRecords(split_id, self.slot_hint(split_id), raw, timestamps[piece])
            start = end

    def open(self) -> None:
        self._deserializer.open()

    def decode(self, batch: Batch, on_bad_record: OnBadRecord) -> Batch:
        decode = self._decoder()
        values: list[Any] = []
        rest = iter(batch.values)
        raw = None
        while True:
            try:
                for raw in rest:
                    values.append(decode(raw))
                break
            except Exception as error:
                on_bad_record(raw, error)
                values.append(None)
        kept = [index for index, value in enumerate(values) if value is not None]
        stamps = batch.timestamps
        if len(kept) == len(values):
            return Batch(values, stamps)
        return Batch([values[index] for index in kept], None if stamps is None else [stamps[index] for index in kept])

    def _decoder(self) -> Callable[[Any], Any]:
        if not isinstance(self._deserializer, _ValueOnly):
            return self._deserializer.deserialize
        schema = self._deserializer.schema
        return lambda value: None if value is None else schema.deserialize(value)


def _records(
    topic: str, number: int, piece: slice, timestamps: list[int], values: list[Any], further: list[list[Any]]
) -> list[KafkaConsumerRecord]:
    keys, offsets, headers = (column[piece] for column in further)
    return [
        KafkaConsumerRecord(key, value, _headers(given), topic, number, offset, timestamp)
        for key, value, given, offset, timestamp in zip(
            keys, values[piece], headers, offsets, timestamps[piece], strict=True
        )
    ]


def _headers(given: list[dict[str, Any]] | None) -> Headers:
    return [(header["key"], header["value"]) for header in given or ()]


class KafkaProducerRecord(NamedTuple):
    """One record on its way to Kafka; with a partition of None, the key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


def produce(producer: Any, record: KafkaProducerRecord) -> None:
    """Hand a record to a producer; BufferError when it has no room for now."""
    further: dict[str, Any] = {}
    if record.partition is not None:
        further["partition"] = record.partition
    if record.timestamp is not None and record.timestamp >= 0:
        further["timestamp"] = record.timestamp
    if record.headers:
        further["headers"] = record.headers
    producer.produce(record.topic, record.value, record.key, **further)


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic's name."""


class KafkaRecordSerializationSchema(ABC):
    """Turns a record of the program into one of Kafka. The builder makes those that most programs need; a subclass
    can set headers, the partition and the timestamp as well."""

    def open(self) -> None:  # noqa: B027 - optional
        """Called once on every worker before the first record."""

    @abstractmethod
    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord:
        """The record to write; `timestamp` is the element's event time, if it has one."""

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """A builder for a topic (or a choice of topics), a key and a value.

        >>> from millrace.common import SimpleStringSchema
        >>> schema = (
        ...     KafkaRecordSerializationSchema.builder()
        ...     .set_topic("words")
        ...     .set_value_serialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
        >>> schema.serialize("hello", None).value
        b'hello'
        """
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    """See `KafkaRecordSerializationSchema.builder`."""

    def __init__(self) -> None:
        self._topic: str | KafkaTopicSelector | Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """All records go to this topic."""
        if not isinstance(topic, str) or not topic:
            raise ConfigurationError(f"a topic has a name, got {topic!r}")
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """The topic is chosen for each record."""
        if not isinstance(topic_selector, KafkaTopicSelector) and not callable(topic_selector):
            raise ConfigurationError(f"a topic selector is a KafkaTopicSelector or a callable, not {topic_selector!r}")
        self._topic = topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """What makes the key; without it there is none."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """What makes the value."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema."""
        if self._topic is None:
            raise ConfigurationError("a Kafka record needs a topic", action="Call set_topic or set_topic_selector.")
        if self._value is None:
            raise ConfigurationError("a Kafka record needs a value", action="Call set_value_serialization_schema.")
        return _Built(self._topic, self._key, self._value)


class _Built(KafkaRecordSerializationSchema):
    def __init__(
        self,
        topic: str | KafkaTopicSelector | Callable[[Any], str],
        key: SerializationSchema | None,
        value: SerializationSchema,
    ) -> None:
        self._topic = topic
        self._key = key
        self._value = value

    def open(self) -> None:
        self._value.open()
        if self._key is not None:
            self._key.open()

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord:
        topic = self._topic
        if not isinstance(topic, str):
            topic = topic.apply(element) if isinstance(topic, KafkaTopicSelector) else topic(element)
        key = None if self._key is None else self._key.serialize(element)
        return KafkaProducerRecord(topic, key, self._value.serialize(element), timestamp=timestamp)
