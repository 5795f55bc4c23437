"""Writes to topics.

    NONE, AT_LEAST_ONCE     worker: produce ... ─► flush at the end of the epoch
    EXACTLY_ONCE            worker: records into files of the job ─► driver, after the checkpoint: one transaction
                            (`transactions.py`)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import msgspec

from millrace.common.errors import ConfigurationError
from millrace.datastream.connectors.base import Committer, DeliveryGuarantee, Sink, SinkWriter
from millrace.runtime.context import RuntimeContext

from .client import LastError, confluent, kafka_error, system_name
from .properties import checked_properties, for_librdkafka
from .records import KafkaProducerRecord, KafkaRecordSerializationSchema, produce
from .transactions import KafkaCommitter

# How long to wait for the buffer of a producer to have room, in seconds, before looking for errors.
_POLL = 0.5

# Records of one staged file: what the committer holds in memory at once.
_STAGED_RECORDS = 50_000

# What Flink's and Java's producers do; librdkafka has other defaults.
_PRODUCER_DEFAULTS = {"partitioner": "murmur2_random", "delivery.timeout.ms": "120000", "linger.ms": "5"}


class KafkaSink(Sink):
    """Writes records to topics: never waiting (NONE), at least once, or exactly once by transactions.

    With EXACTLY_ONCE a record is seen after the checkpoint of its epoch, by consumers that read committed records only.

    >>> from millrace.common import SimpleStringSchema
    >>> words = KafkaRecordSerializationSchema.builder().set_topic("words")
    >>> sink = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_record_serializer(words.set_value_serialization_schema(SimpleStringSchema()).build())
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_transactional_id_prefix("word-count")
    ...     .build()
    ... )
    >>> sink
    KafkaSink(EXACTLY_ONCE to Kafka at localhost:9092)
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        serializer: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee,
        prefix: str,
    ) -> None:
        self._properties = dict(properties)
        self._serializer = serializer
        self._guarantee = guarantee
        self._prefix = prefix

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """A builder, as in PyFlink."""
        return KafkaSinkBuilder()

    def __repr__(self) -> str:
        return f"KafkaSink({self._guarantee.name} to {system_name(self._properties)})"

    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        self._serializer.open()
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return _StagingWriter(self._serializer, runtime_context)
        return _DirectWriter(self._serializer, self._properties, self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE)

    def create_committer(self) -> Committer | None:
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return KafkaCommitter(_PRODUCER_DEFAULTS | self._properties, self._prefix)


class _DirectWriter(SinkWriter):
    """Produces at once; what an attempt has written stays when the attempt fails."""

    def __init__(self, serializer: KafkaRecordSerializationSchema, properties: dict[str, str], waits: bool) -> None:
        self._serializer = serializer
        self._properties = properties
        self._waits = waits
        self._last = LastError()
        self._failure: Any = None
        library = confluent()
        settings = {
            **for_librdkafka(_PRODUCER_DEFAULTS | properties),
            "error_cb": self._last,
            "on_delivery": self._delivered,
            "delivery.report.only.error": True,
            "log_level": 0,
        }
        try:
            self._producer = library.Producer(settings)
        except library.KafkaException as error:
            raise kafka_error("connect", error, properties) from None

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def write(self, value: Any, context: Any) -> None:
        record = self._serializer.serialize(value, context.timestamp())
        while True:
            try:
                produce(self._producer, record)
                return
            except BufferError:
                self._producer.poll(_POLL)
                self._check()

    def _check(self) -> None:
        if self._failure is not None and self._waits:
            failure, self._failure = self._failure, None
            raise kafka_error("write", _Refusal(failure.str()), self._properties, self._last.text)

    def flush(self, end_of_input: bool) -> None:
        if not self._waits:
            self._producer.poll(0)
            return
        while self._producer.flush(_POLL) and self._failure is None:
            continue
        self._check()

    def close(self) -> None:
        self._producer.flush(0 if self._waits else 10)


class _Refusal(Exception):
    """What a broker said of a record."""


class _StagingWriter(SinkWriter):
    """Puts the epoch's records into files of the job, which the committer reads. A file's name is drawn anew by each
    attempt, so that two attempts of one task never touch the same file."""

    def __init__(self, serializer: KafkaRecordSerializationSchema, context: RuntimeContext) -> None:
        self._serializer = serializer
        self._context = context
        self._records: list[KafkaProducerRecord] = []
        self._staged: list[dict[str, Any]] = []

    def write(self, value: Any, context: Any) -> None:
        self._records.append(self._serializer.serialize(value, context.timestamp()))
        if len(self._records) >= _STAGED_RECORDS:
            self._stage()

    def _stage(self) -> None:
        records, self._records = self._records, []
        place = self._context.staging_area()
        path = f"{place.directory}/{place.epoch}-{self._context.get_index_of_this_subtask()}-{uuid4().hex}"
        place.files.write(path, msgspec.msgpack.encode(records))
        self._staged.append(
            {"job": self._context.get_job_id(), "root": place.root, "file": path, "epoch": place.epoch}
        )

    def flush(self, end_of_input: bool) -> None:
        if self._records:
            self._stage()

    def prepare_commit(self) -> list[Any]:
        staged, self._staged = self._staged, []
        return staged


class KafkaSinkBuilder:
    """See `KafkaSink.builder`."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = ""

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Where the brokers are: `host:port`, several with commas between."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """How often a record arrives. The default is NONE, as in Flink."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ConfigurationError(f"not a DeliveryGuarantee: {delivery_guarantee!r}")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """For EXACTLY_ONCE: the name of the sink's transactions, unlike that of every other sink of the cluster, and
        the same whenever the job starts again."""
        if not isinstance(transactional_id_prefix, str) or not transactional_id_prefix:
            raise ConfigurationError(f"a transactional id has a prefix, got {transactional_id_prefix!r}")
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """What makes Kafka's records."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise ConfigurationError(f"not a KafkaRecordSerializationSchema: {record_serializer!r}")
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A property of Kafka's producers."""
        self._properties |= checked_properties({key: value})
        return self

    def build(self) -> KafkaSink:
        """The sink."""
        if not self._properties.get("bootstrap.servers"):
            raise ConfigurationError("a Kafka sink needs brokers", action="Call set_bootstrap_servers.")
        if self._serializer is None:
            raise ConfigurationError("a Kafka sink needs a serializer", action="Call set_record_serializer.")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self._prefix:
            raise ConfigurationError(
                "a Kafka sink with EXACTLY_ONCE needs a name for its transactions",
                action="Call set_transactional_id_prefix.",
            )
        return KafkaSink(self._properties, self._serializer, self._guarantee, self._prefix)


