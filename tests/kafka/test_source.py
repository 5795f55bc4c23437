"""KafkaSource and KafkaSink on a real broker and a real Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Configuration, RestartStrategies, SimpleStringSchema, Types, WatermarkStrategy
from millrace.common.errors import ExternalSystemError, MillraceError
from millrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millrace.datastream.connectors import DeliveryGuarantee
from millrace.datastream.connectors.kafka import (
    KafkaConsumerRecord,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from millrace.datastream.state import ValueStateDescriptor
from tests.kafka.broker import Broker
from tests.kafka.test_sink import sink_to
from tests.spark.jobs import environment, eventually

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("kafka_spark")]

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def source_of(broker: Broker, *topics: str) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers(broker.address).set_topics(*topics)
    return builder.set_value_only_deserializer(SimpleStringSchema())


def read(builder: KafkaSourceBuilder) -> list[Any]:
    """What a source that ends has."""
    env = environment(2)
    source = builder.set_bounded(LATEST).build()
    return sorted(env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").execute_and_collect())


def numbers(start: int, end: int) -> list[str]:
    return [f"{number:04}" for number in range(start, end)]


class Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaConsumerRecord) -> Any:
        return record


def test_whole_records_come_with_key_headers_place_and_timestamp(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.send(topic, ["a", "b"], 2, key="k", headers=[("h", b"1")], timestamp=5_000)
    assert read(source_of(broker, topic).set_deserializer(Whole())) == [
        KafkaConsumerRecord(b"k", b"a", [("h", b"1")], topic, 0, 0, 5_000),
        KafkaConsumerRecord(b"k", b"b", [("h", b"1")], topic, 1, 0, 5_000),
    ]


def test_bounded_reads_begin_and_end_where_they_are_told(broker: Broker) -> None:
    topic, other = broker.topic(2), broker.topic(1)
    for second, value in enumerate(numbers(0, 10)):
        broker.send(topic, [value, value], 2, timestamp=1_000 * (second + 1))
    broker.send(other, ["other"])
    at = KafkaOffsetsInitializer
    first = KafkaTopicPartition(topic, 0)
    assert read(source_of(broker, topic)) == sorted(numbers(0, 10) * 2)
    assert read(source_of(broker, topic).set_starting_offsets(at.timestamp(8_500))) == sorted(numbers(8, 10) * 2)
    assert read(source_of(broker, topic).set_starting_offsets(LATEST)) == []
    some = at.offsets({first: 9}, KafkaOffsetResetStrategy.LATEST)
    assert read(source_of(broker, topic).set_starting_offsets(some)) == ["0009"]
    assert read(source_of(broker).set_partitions({first})) == numbers(0, 10)
    assert read(source_of(broker).set_topic_pattern(f"{topic}|{other}")) == sorted([*numbers(0, 10) * 2, "other"])
    nothing = source_of(broker, topic).set_group_id(topic).set_starting_offsets(at.committed_offsets())
    with pytest.raises(ExternalSystemError, match=f"there is no committed offset of {topic}-0"):
        read(nothing)


class RunningCount(KeyedProcessFunction):
    """Emits `key count`: what comes twice, or not at all, shows."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {count}"


def counted(records: int) -> list[str]:
    """What RunningCount makes of `numbers(0, records)` by the last digit."""
    return sorted(f"{key} {count}" for key in range(10) for count in range(1, len(range(key, records, 10)) + 1))


def copying(
    broker: Broker,
    source: KafkaSource,
    target: str,
    directory: Path,
    parallelism: int = 2,
    savepoint: str | None = None,
) -> StreamExecutionEnvironment:
    env = environment(parallelism)
    env.enable_checkpointing(50)
    env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(30, 200))
    if savepoint is not None:
        env.configure(Configuration.from_dict({"execution.state-recovery.path": savepoint}))
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").uid("kafka")
    counts = words.key_by(lambda word: word[-1], Types.STRING()).process(RunningCount(), Types.STRING()).uid("counts")
    counts.sink_to(sink_to(broker, target, DeliveryGuarantee.EXACTLY_ONCE, target).build()).uid("out")
    return env


@pytest.mark.slow
def test_kafka_to_kafka_across_savepoints_new_partitions_and_another_parallelism(
    broker: Broker, tmp_path: Path
) -> None:
    topic, target = broker.topic(2), broker.topic(2)
    source = source_of(broker, topic).set_group_id(topic).set_max_records_per_epoch(30).build()
    savepoint = None
    for round_, parallelism in enumerate((2, 3, 1)):
        if round_ == 1:
            broker.widen(topic, 4)
        broker.send(topic, numbers(round_ * 100, round_ * 100 + 100), 4 if round_ else 2)
        client = copying(broker, source, target, tmp_path, parallelism, savepoint).execute_async("copy")
        wanted = counted((round_ + 1) * 100)
        eventually(lambda wanted=wanted: len(broker.content(target)) >= len(wanted), 60)
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        client.get_job_execution_result().result()
        assert broker.content(target) == wanted
    committed = source_of(broker, topic).set_group_id(topic)
    assert read(committed.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())) == []


@pytest.mark.slow
def test_a_broker_that_goes_away_and_comes_back_costs_restarts_and_no_record(broker: Broker, tmp_path: Path) -> None:
    mine = Broker(tmp_path / "broker").start()
    try:
        topic, target = mine.topic(2), mine.topic(2)
        mine.send(topic, numbers(0, 100), 2)
        patient = source_of(mine, topic).set_properties({"default.api.timeout.ms": 3000, "request.timeout.ms": 2000})
        client = copying(mine, patient.build(), target, tmp_path).execute_async("outage")
        eventually(lambda: len(mine.content(target)) == 100, 60)
        mine.stop()
        eventually(lambda: client.get_restarts().result(), 90)
        mine.start()
        mine.send(topic, numbers(100, 200), 2)
        end = time.monotonic() + 90
        while len(mine.content(target)) < 200:
            assert time.monotonic() < end, client.get_restarts().result()
            time.sleep(0.5)
        client.cancel().result()
        assert mine.content(target) == counted(200)
        assert f"Kafka at {mine.address}" in client.get_restarts().result()[0].cause
    finally:
        mine.stop()


def test_a_broker_that_is_not_there_fails_the_job_after_its_restarts(tmp_path: Path) -> None:
    builder = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics("t")
    builder.set_properties({"default.api.timeout.ms": 1000, "sasl.username": "me", "sasl.password": "hunter2"})
    builder.set_value_only_deserializer(SimpleStringSchema())
    env = environment(1)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    source = builder.build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").print()
    assert "hunter2" not in env.get_execution_plan() + repr(source)
    client = env.execute_async("nobody")
    with pytest.raises(MillraceError) as caught:
        client.get_job_execution_result().result()
    assert len(client.get_restarts().result()) == 2
    assert "Kafka at 127.0.0.1:1: could not list the topics" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_each_partition_has_its_own_watermark(broker: Broker) -> None:
    """Partition 1 is far behind partition 0: nothing of it may count as late, whichever is read first."""
    topic = broker.topic(2)
    broker.send(topic, ["a0", "a1"], 1, timestamp=1_000_000)
    broker.send(topic, ["x", "slow"], 2, timestamp=1_000)

    class Marks(KeyedProcessFunction):
        def process_element(self, value: str, ctx: Any) -> Iterator[tuple[str, int]]:
            yield value, ctx.timer_service().current_watermark()

    env = environment(1)
    source = source_of(broker, topic).build()
    words = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
    marks = words.key_by(lambda word: 0).process(Marks(), Types.TUPLE([Types.STRING(), Types.LONG()]))
    broker_feeds = threading.Timer(6, lambda: broker.send(topic, ["later", "later"], 2, timestamp=2_000))
    broker_feeds.start()
    seen = {}
    results = marks.execute_and_collect()
    for value, mark in results:
        seen[value] = mark
        if value == "later":
            break
    results.close()
    broker_feeds.join()
    assert seen["slow"] < 1_000
    assert seen["later"] < 2_000


def test_a_password_stays_out_of_everything_and_lets_the_job_in(tmp_path: Path, capfd: Any) -> None:
    secret = "correct horse"
    mine = Broker(tmp_path / "broker", login=("me", secret)).start()
    try:
        topic = mine.topic(1)
        mine.send(topic, ["in"])
        builder = source_of(mine, topic).set_properties(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": secret,
            }
        )
        assert read(builder) == ["in"]
        wrong = source_of(mine, topic).set_properties(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "wrong horse",
                "default.api.timeout.ms": 3000,
            }
        )
        with pytest.raises(ExternalSystemError, match=r"(?i)authentication") as caught:
            read(wrong)
        assert "wrong horse" not in str(caught.value)
        said = capfd.readouterr()
        assert "horse" not in said.out + said.err
    finally:
        mine.stop()
