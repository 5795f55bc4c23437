"""KafkaSink on a real broker, in one process: what arrives, also when the process dies at any step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import RestartStrategies, SimpleStringSchema, Types, WatermarkStrategy
from millrace.common.errors import ExternalSystemError, MillraceError
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors import DeliveryGuarantee
from millrace.datastream.connectors.kafka import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    transactions,
)
from millrace.testing import InProcessExecutor
from millrace.testing.crashes import Crash, Crashes
from tests.kafka.broker import Broker
from tests.spark.jobs import Steps

EPOCHS, SIZE = 4, 6
SENT = sorted(f"n{number}" for number in range(EPOCHS * SIZE))


def sink_to(broker: Broker, topic: str, guarantee: DeliveryGuarantee, prefix: str = "test") -> KafkaSinkBuilder:
    values = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(broker.address)
        .set_record_serializer(values.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix(prefix)
        .set_property("default.api.timeout.ms", "20000")
    )


def run(sink: KafkaSink, directory: Path | None = None, parallelism: int = 2) -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(every_epoch=True))
    env.set_parallelism(parallelism).set_restart_strategy(RestartStrategies.no_restart())
    if directory is not None:
        env.enable_checkpointing(10)
        env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    numbers = env.from_source(Steps(EPOCHS, SIZE), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(lambda number: f"n{number}", Types.STRING()).uid("names").sink_to(sink).uid("out")
    env.execute("to kafka")


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_all_records_arrive_once_when_nothing_fails(broker: Broker, guarantee: DeliveryGuarantee) -> None:
    topic = broker.topic(2)
    run(sink_to(broker, topic, guarantee, topic).build())
    assert broker.content(topic) == SENT


def test_a_serializer_sets_topic_key_headers_partition_and_timestamp(broker: Broker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topics = [broker.topic(3), broker.topic(3)]

    class Whole(KafkaRecordSerializationSchema):
        def serialize(self, element: str, timestamp: int | None) -> KafkaProducerRecord:
            number = int(element[1:])
            return KafkaProducerRecord(topics[number % 2], b"key", element.encode(), [("h", b"1")], 2, 1000 + number)

    run(sink_to(broker, "t", DeliveryGuarantee.EXACTLY_ONCE, topics[0]).set_record_serializer(Whole()).build())
    consumer = Consumer(broker.client(group_id="whole"))
    consumer.assign([TopicPartition(topics[1], 2, 0)])
    message = consumer.poll(20)
    consumer.close()
    assert (message.key(), message.value(), message.headers()) == (b"key", b"n1", [("h", b"1")])
    assert message.timestamp()[1] == 1001
    assert broker.content(*topics) == SENT


STEPS = ("init_transactions", "begin_transaction", "send_offsets_to_transaction", "commit_transaction")


class Producer:
    """A producer whose calls that others can see the effects of are steps, before and after."""

    def __init__(self, settings: dict[str, Any], crashes: Crashes) -> None:
        from confluent_kafka import Producer as Real

        self._real = Real(settings)
        self._crashes = crashes
        self._produced = 0

    def produce(self, *arguments: Any, **further: Any) -> None:
        self._produced += 1
        if self._produced % 5 == 0:
            self._crashes.step("producing")
            self._real.flush(10)  # so that the broker has it when the process dies
        self._real.produce(*arguments, **further)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name not in STEPS:
            return real

        def call(*arguments: Any) -> Any:
            self._crashes.step(f"before {name}")
            result = real(*arguments)
            self._crashes.step(f"after {name}")
            return result

        return call


def is_over(directory: Path) -> bool:
    """Whether the job had ended, as far as another process can tell: it would begin anew."""
    return not list((directory / "checkpoints" / "jobs").glob("*.json"))


@contextlib.contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, at: int | None = None) -> Iterator[Crashes]:
    with Crashes(at=at) as crashes, monkeypatch.context() as patch:
        patch.setattr(transactions, "make_producer", lambda settings: Producer(settings, crashes))
        yield crashes


@pytest.mark.slow
def test_exactly_once_whichever_step_of_the_commits_the_process_dies_at(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_run(number: int, topic: str) -> None:
        run(sink_to(broker, topic, DeliveryGuarantee.EXACTLY_ONCE, topic).build(), tmp_path / str(number), 1)

    with crashing(monkeypatch) as steps:
        one_run(0, broker.topic(2))
    kills = 0
    for number in range(1, steps.taken + 1):
        topic = broker.topic(2)
        with crashing(monkeypatch, number) as crash:
            with contextlib.suppress(Crash, MillraceError):
                one_run(number, topic)
            died_at = crash.last
        if "half of" in died_at or died_at.startswith("deleting state"):
            continue  # what the tests of checkpoints go through
        kills += 1
        if not is_over(tmp_path / str(number)) or not broker.content(topic):
            one_run(number, topic)
        assert broker.content(topic) == SENT, f"died at step {number}: {died_at}"
    assert kills >= 30


def test_a_process_that_was_replaced_cannot_commit_any_more(broker: Broker) -> None:
    topic = broker.topic()
    properties = {"bootstrap.servers": broker.address}
    old, new = (transactions.KafkaCommitter(properties, topic) for _ in range(2))
    old._begun().begin_transaction()
    old._begun().produce(topic, b"from the one that was replaced")
    new._begun()
    from confluent_kafka import KafkaException

    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch|newer"):
        old._begun().commit_transaction(10)
    assert broker.content(topic) == []


def test_an_address_where_nobody_is_fails_with_the_system_the_address_and_the_cause() -> None:
    pytest.importorskip("confluent_kafka")
    values = KafkaRecordSerializationSchema.builder().set_topic("t")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_record_serializer(values.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("nobody")
        .set_property("default.api.timeout.ms", "2000")
        .set_property("sasl.password", "hunter2")
        .build()
    )
    with pytest.raises(ExternalSystemError) as caught:
        run(sink)
    assert "Kafka at 127.0.0.1:1: could not commit a transaction" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(sink)
