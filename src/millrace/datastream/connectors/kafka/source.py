"""Reads topics through Spark's own Kafka connector.

    driver:  partitions and starting offsets ─► Spark's options      Spark moves the records and logs its offsets
    worker:  Spark's task ─► records by topic-partition ─► deserializer ─► timestamps and watermarks for each partition
"""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

from millrace.common.errors import ConfigurationError, ExternalSystemError, NotSupportedError
from millrace.common.serialization import DeserializationSchema
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.sources.spark_read import SparkRead

from .client import KafkaLookup, Offsets, system_name
from .offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from .properties import checked_properties, for_spark, secrets_of
from .records import COLUMNS, FURTHER_COLUMNS, KafkaEntryReader, KafkaRecordDeserializationSchema

_LOG = logging.getLogger("millrace.kafka")


class KafkaSource(SparkRead):
    """The records of topics, each partition a split with a watermark of its own.

    A record's timestamp is the one that Kafka has. Offsets are part of checkpoints and savepoints; with a group id
    they are also committed to Kafka after each checkpoint, for others to see.

    >>> from millrace.common import SimpleStringSchema
    >>> source = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("orders")
    ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source
    KafkaSource(orders of Kafka at localhost:9092)
    """

    connector = ("spark-sql-kafka-0-10", "org.apache.spark.sql.kafka010.KafkaSourceProvider")

    def __init__(self, builder: KafkaSourceBuilder) -> None:
        assert builder._deserializer is not None
        self._properties = dict(builder._properties)
        self._topics = builder._topics
        self._pattern = builder._pattern
        self._partitions = builder._partitions
        self._start = builder._start
        self._stop = builder._stop
        self._most_records = builder._most_records
        self._deserializer = builder._deserializer
        self.bounded = self._stop is not None
        self._started: Offsets = {}
        self._ends: Offsets | None = None
        self._lookup: KafkaLookup | None = None

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """A builder, as in PyFlink."""
        return KafkaSourceBuilder()

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records, if the deserializer tells it."""
        return self._deserializer.get_produced_type()

    def __repr__(self) -> str:
        return f"KafkaSource({self._what()} of {system_name(self._properties)})"

    def _what(self) -> str:
        return self._pattern or ", ".join(map(str, self._topics or self._partitions))

    # --- in the driver ------------------------------------------------------------------------------------

    def for_job(self) -> Self:
        """A copy that remembers where one job has begun and ends."""
        mine = copy.copy(self)
        mine._started, mine._ends, mine._lookup = {}, None, None
        return mine

    def describe(self) -> str:
        return f"{system_name(self._properties)}, {self._what()}"

    def secrets(self) -> tuple[str, ...]:
        return secrets_of(self._properties)

    def data_frame(self, spark: Any, epoch_records: int | None, restored: bool) -> Any:
        partitions = self._look_up(restored)
        reader = spark.read if self.bounded else spark.readStream
        options = self._options(partitions, restored)
        most = self._most_records or epoch_records
        if most is not None and not self.bounded:
            options["maxOffsetsPerTrigger"] = str(most)
        columns = COLUMNS if self.reader().value_only else COLUMNS + FURTHER_COLUMNS
        return reader.format("kafka").options(**options).load().selectExpr(*columns)

    def _look_up(self, restored: bool) -> list[KafkaTopicPartition]:
        """The partitions. Their beginnings (and ends) are looked up once for each job: an attempt that has no
        checkpoint to begin from begins where the first one did."""
        lookup = KafkaLookup(self._properties)
        try:
            if self._partitions:
                known = set(lookup.partitions(tuple({each.topic for each in self._partitions}), None))
                self._require(known)
                found = sorted(self._partitions)
            else:
                found = lookup.partitions(self._topics, self._pattern)
            if not restored:
                again = bool(self._started)
                new = [partition for partition in found if partition not in self._started]
                self._started.update(lookup.resolve(KafkaOffsetsInitializer.earliest() if again else self._start, new))
            if self._stop is not None and self._ends is None:
                self._ends = lookup.resolve(self._stop, found)
            return found
        finally:
            lookup.close()

    def _require(self, known: set[KafkaTopicPartition]) -> None:
        missing = sorted(set(self._partitions) - known)
        if missing:
            raise ExternalSystemError(
                f"{system_name(self._properties)} has no partition {', '.join(map(str, missing))}.",
                action="Mend the partitions of the source.",
            )

    def _options(self, partitions: list[KafkaTopicPartition], restored: bool) -> dict[str, str]:
        options = {f"kafka.{key}": value for key, value in for_spark(self._properties).items()}
        options["includeHeaders"] = "true"
        if "group.id" in self._properties:
            options["groupIdPrefix"] = self._properties["group.id"]
        if self._ends is not None:
            ends, starts = self._ends, self._started
            partitions = [partition for partition in partitions if partition in ends and partition in starts]
            options["endingOffsets"] = _as_json({each: max(starts[each], ends[each]) for each in partitions})
        if partitions and not restored:
            options["startingOffsets"] = _as_json({each: self._started[each] for each in partitions})
        else:
            options["startingOffsets"] = "earliest"
        if self._partitions or self._ends is not None:
            options["assign"] = _assignment(partitions)
        elif self._pattern is not None:
            options["subscribePattern"] = self._pattern
        else:
            options["subscribe"] = ",".join(self._topics)
        return options

    def split_ids(self, offset: str) -> list[str]:
        return [str(partition) for partition in _from_json(offset)]

    def known_splits(self) -> list[str]:
        ends = self._ends or {}
        return [str(each) for each in sorted(ends) if each in self._started and self._started[each] < ends[each]]

    def checkpointed(self, offset: str) -> None:
        if "group.id" not in self._properties or self._properties.get("commit.offsets.on.checkpoint") == "false":
            return
        try:
            if self._lookup is None:
                self._lookup = KafkaLookup(self._properties)
            self._lookup.commit(_from_json(offset))
        except Exception as error:
            _LOG.warning("The offsets of a checkpoint were not committed to the consumer group: %s", error)

    def close(self) -> None:
        lookup, self._lookup = self._lookup, None
        if lookup is not None:
            lookup.close()

    # --- in the workers -----------------------------------------------------------------------------------

    def reader(self) -> KafkaEntryReader:
        return KafkaEntryReader(self._deserializer)


def _as_json(offsets: Offsets) -> str:
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(topics)


def _from_json(offset: str) -> Offsets:
    return {
        KafkaTopicPartition(topic, int(number)): int(at)
        for topic, numbers in json.loads(offset).items()
        for number, at in numbers.items()
    }


def _assignment(partitions: Iterable[KafkaTopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return json.dumps(topics)


class KafkaSourceBuilder:
    """See `KafkaSource.builder`."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._partitions: tuple[KafkaTopicPartition, ...] = ()
        self._start = KafkaOffsetsInitializer.earliest()
        self._stop: KafkaOffsetsInitializer | None = None
        self._most_records: int | None = None
        self._deserializer: KafkaRecordDeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Where the brokers are: `host:port`, several with commas between."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The consumer group: where committed offsets are looked up and, after each checkpoint, written."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read these topics."""
        self._topics = tuple(topics)
        return self

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read the topics whose whole name matches, also those that come later."""
        re.compile(topic_pattern)
        self._pattern = topic_pattern
        return self

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions, and no others."""
        self._partitions = tuple(partitions)
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Where to begin, when there is no checkpoint. The default is the earliest record. A partition that comes
        later is read from its beginning."""
        self._start = _initializer(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End there: the source is bounded."""
        self._stop = _initializer(stopping_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer | None = None) -> KafkaSourceBuilder:
        """Never end, which is the default."""
        if stopping_offsets_initializer is not None:
            raise NotSupportedError(
                "A KafkaSource that is unbounded has no stopping offsets.", action="Use set_bounded(...)."
            )
        self._stop = None
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """What makes a record of a value."""
        self._deserializer = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """What makes a record of a whole Kafka record: key, value, headers, topic, partition, offset, timestamp."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise ConfigurationError(f"not a KafkaRecordDeserializationSchema: {record_deserializer!r}")
        self._deserializer = record_deserializer
        return self

    def set_max_records_per_epoch(self, records: int) -> KafkaSourceBuilder:
        """The most records that an epoch reads, over all partitions: a rate limit, and shorter epochs."""
        if isinstance(records, bool) or not isinstance(records, int) or records < 1:
            raise ConfigurationError(f"an epoch reads one record or more, got {records!r}")
        self._most_records = records
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """The name under which the brokers see the clients."""
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """A property of Kafka's consumers."""
        return self.set_properties({key: value})

    def set_properties(self, props: Mapping[str, Any]) -> KafkaSourceBuilder:
        """Properties of Kafka's consumers."""
        self._properties |= checked_properties(props)
        return self

    def build(self) -> KafkaSource:
        """The source."""
        if not self._properties.get("bootstrap.servers"):
            raise ConfigurationError("a Kafka source needs brokers", action="Call set_bootstrap_servers.")
        ways = [way for way in (self._topics, self._pattern, self._partitions) if way]
        if len(ways) != 1:
            raise ConfigurationError(
                f"a Kafka source reads topics, a pattern or partitions; {len(ways)} of these are set",
                action="Call one of set_topics, set_topic_pattern and set_partitions.",
            )
        if self._deserializer is None:
            raise ConfigurationError("a Kafka source needs a deserializer", action="Call set_value_only_deserializer.")
        if self._start.kind == "committed" and "group.id" not in self._properties:
            raise ConfigurationError("committed offsets are those of a consumer group", action="Call set_group_id.")
        if self._stop is not None and self._stop.kind == "committed" and "group.id" not in self._properties:
            raise ConfigurationError("committed offsets are those of a consumer group", action="Call set_group_id.")
        return KafkaSource(self)


def _initializer(given: Any) -> KafkaOffsetsInitializer:
    if not isinstance(given, KafkaOffsetsInitializer):
        raise ConfigurationError(f"not a KafkaOffsetsInitializer: {given!r}")
    return given
