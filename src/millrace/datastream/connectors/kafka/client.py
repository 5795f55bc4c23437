"""What the driver asks a broker: which partitions there are, and offsets. On confluent-kafka, the extra `kafka`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millrace.common.errors import ConfigurationError, ExternalSystemError
from millrace.runtime.sources.spark_read import redacted

from .offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from .properties import for_librdkafka, secrets_of

_T = TypeVar("_T")

# How long the driver waits for an answer, in seconds, unless `default.api.timeout.ms` says otherwise.
_PATIENCE = 30.0

# librdkafka's names for "no offset", "the beginning" and "the end".
_NONE, _BEGINNING, _END = -1001, -2, -1

Offsets = dict[KafkaTopicPartition, int]


def confluent() -> Any:
    """The client library."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise ConfigurationError(
            "Kafka's client for Python is not installed.", action="pip install 'millrace[kafka]'"
        ) from None
    return confluent_kafka


def patience(properties: Mapping[str, str]) -> float:
    """How many seconds to wait for an answer."""
    return float(properties.get("default.api.timeout.ms", _PATIENCE * 1000)) / 1000


def system_name(properties: Mapping[str, str]) -> str:
    """The system and its address.

    >>> system_name({"bootstrap.servers": "one:9092"})
    'Kafka at one:9092'
    """
    return f"Kafka at {properties['bootstrap.servers']}"


def is_passing(error: Any) -> bool:
    """Whether the broker says: not yet."""
    codes = confluent().KafkaError
    passing = (codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR)
    return error.args[0].code() in {*passing, codes.UNSTABLE_OFFSET_COMMIT, codes.CONCURRENT_TRANSACTIONS}


class LastError:
    """Remembers what librdkafka last complained about: its time-outs do not say why."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, error: Any) -> None:
        if not self.text or "brokers are down" not in error.str():
            self.text = error.str()


def kafka_error(what: str, error: BaseException, properties: Mapping[str, str], last: str = "") -> ExternalSystemError:
    """A client's error as one that names the system, the address and the last cause."""
    cause = f"{error}" if not last or last in str(error) else f"{error} (last: {last})"
    text = f"{system_name(properties)}: could not {what}: {cause}"
    return ExternalSystemError(
        redacted(text, secrets_of(properties)),
        action="See whether the brokers run, whether this machine reaches them, and whether the login is right.",
    )


class KafkaLookup:
    """Asks about partitions and offsets. Holds one connection until it is closed."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._patience = patience(properties)
        self._last = LastError()
        settings = {
            "group.id": "millrace-lookup",
            **for_librdkafka(properties),
            "enable.auto.commit": "false",
            "error_cb": self._last,
            "log_level": 0,
        }
        self._library = confluent()
        self._consumer = self._asking("connect", lambda: self._library.Consumer(settings))

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def partitions(self, topics: tuple[str, ...], pattern: str | None) -> list[KafkaTopicPartition]:
        """The partitions of the topics, or of those whose whole name matches."""
        known = self._asking("list the topics", lambda: self._consumer.list_topics(timeout=self._patience)).topics
        names = topics if pattern is None else [name for name in known if re.fullmatch(pattern, name)]
        missing = [name for name in names if name not in known or known[name].error is not None]
        if missing:
            raise ExternalSystemError(
                f"{system_name(self._properties)} has no topic {', '.join(map(repr, missing))}.",
                action="Create the topic, or mend its name.",
            )
        return sorted(KafkaTopicPartition(name, number) for name in names for number in known[name].partitions)

    def resolve(self, wanted: KafkaOffsetsInitializer, partitions: list[KafkaTopicPartition]) -> Offsets:
        """An offset for each partition."""
        found = self._found(wanted, partitions)
        for partition in partitions:
            if partition not in found:
                found[partition] = self._reset(wanted, partition)
        return found

    def _found(self, wanted: KafkaOffsetsInitializer, partitions: list[KafkaTopicPartition]) -> Offsets:
        if wanted.kind == "offsets":
            return {partition: wanted.given[partition] for partition in partitions if partition in wanted.given}
        asked = [self._library.TopicPartition(p.topic, p.partition, wanted.at) for p in partitions]
        if wanted.kind == "committed":
            answers = self._asking("look up committed offsets", lambda: self._consumer.committed(asked, self._patience))
        elif wanted.kind == "timestamp":
            answers = self._asking(
                "look up offsets by time", lambda: self._consumer.offsets_for_times(asked, self._patience)
            )
        else:
            return {}
        return {KafkaTopicPartition(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def _reset(self, wanted: KafkaOffsetsInitializer, partition: KafkaTopicPartition) -> int:
        if wanted.reset is KafkaOffsetResetStrategy.NONE:
            raise ExternalSystemError(
                f"{system_name(self._properties)}: there is no {wanted.kind} offset of {partition}.",
                action="Give the offsets initializer a KafkaOffsetResetStrategy.",
            )
        low, high = self._asking(
            "look up offsets",
            lambda: self._consumer.get_watermark_offsets(
                self._library.TopicPartition(partition.topic, partition.partition), timeout=self._patience
            ),
        )
        return int(low if wanted.reset is KafkaOffsetResetStrategy.EARLIEST else high)

    def commit(self, offsets: Offsets) -> None:
        """Tell the consumer group how far the job is."""
        asked = [self._library.TopicPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
        self._asking("commit offsets", lambda: self._consumer.commit(offsets=asked, asynchronous=False))

    def _asking(self, what: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except self._library.KafkaException as error:
            with contextlib.suppress(Exception):
                self._consumer.poll(0)  # hear what it last complained about
            raise kafka_error(what, error, self._properties, self._last.text) from None
