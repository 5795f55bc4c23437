"""What needs no broker: builders, properties, the reader of the workers, the choice of the connector."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from millrace.common import SimpleStringSchema
from millrace.common.errors import ConfigurationError, NotSupportedError
from millrace.datastream.connectors import DeliveryGuarantee
from millrace.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from millrace.datastream.connectors.kafka.properties import for_librdkafka, for_spark, secrets_of
from millrace.datastream.connectors.kafka.transactions import Marker
from millrace.runtime.batch import Batch
from millrace.spark.connectors import coordinate, not_fetched, with_connectors

KAFKA = KafkaSource.connector


def builder() -> KafkaSourceBuilder:
    source = KafkaSource.builder().set_bootstrap_servers("one:9092").set_topics("t")
    return source.set_value_only_deserializer(SimpleStringSchema())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it.set_bootstrap_servers(""), "set_bootstrap_servers"),
        (lambda it: it.set_topics(), "set_topics"),
        (lambda it: it.set_topic_pattern("t.*"), "2 of these are set"),
        (lambda it: it.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()), "set_group_id"),
        (lambda it: it.set_starting_offsets("earliest"), "not a KafkaOffsetsInitializer: 'earliest'"),
        (lambda it: it.set_max_records_per_epoch(0), "one record or more"),
        (lambda it: it.set_deserializer(SimpleStringSchema()), "not a KafkaRecordDeserializationSchema"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(change: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        change(builder()).build()


def test_an_unbounded_source_with_an_end_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="Use set_bounded"):
        builder().set_unbounded(KafkaOffsetsInitializer.latest())


def test_an_exactly_once_sink_needs_a_name_for_its_transactions() -> None:
    records = KafkaRecordSerializationSchema.builder().set_topic("t")
    sink = KafkaSink.builder().set_bootstrap_servers("one:9092")
    sink.set_record_serializer(records.set_value_serialization_schema(SimpleStringSchema()).build())
    with pytest.raises(ConfigurationError, match="set_transactional_id_prefix"):
        sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()


def test_a_login_is_spelled_as_each_client_wants_it() -> None:
    plain = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'a"b'}
    spark = for_spark(plain)
    assert spark["sasl.jaas.config"].endswith('PlainLoginModule required username="me" password="a\\"b";')
    assert "sasl.password" not in spark
    back = for_librdkafka({"sasl.jaas.config": spark["sasl.jaas.config"], "sasl.mechanism": "PLAIN"})
    assert back == {"sasl.username": "me", "sasl.password": 'a"b', "sasl.mechanisms": "PLAIN"}
    assert 'a"b' in secrets_of({"sasl.jaas.config": spark["sasl.jaas.config"]})


def test_workers_are_given_no_password() -> None:
    source = builder().set_property("sasl.password", "hunter2").build()
    assert b"hunter2" not in pickle.dumps(source.reader())
    assert "hunter2" not in repr(source)


def test_the_rows_of_one_spark_task_become_splits_by_topic_and_partition() -> None:
    reader = builder().build().reader()
    rows = reader.splits([["t", "t", "t"], [0, 0, 1], [1, 2, 3], [b"a", None, b"c"]])
    assert [(row.split_id, row.values, row.timestamps) for row in rows] == [
        ("t-0", [b"a", None], [1, 2]),
        ("t-1", [b"c"], [3]),
    ]


def test_a_tombstone_is_left_out_and_a_bad_record_goes_where_the_policy_says() -> None:
    bad: list[Any] = []
    reader = builder().build().reader()
    batch = reader.decode(Batch([b"a", None, b"\xff", b"d"], [1, 2, 3, 4]), lambda raw, error: bad.append(raw))
    assert (batch.values, batch.timestamps, bad) == (["a", "d"], [1, 4], [b"\xff"])


def test_a_split_is_always_read_by_the_same_subtask() -> None:
    reader = builder().build().reader()
    assert {reader.slot_hint(f"my-topic-{number}") % 4 for number in range(4)} == {0, 1, 2, 3}
    assert reader.slot_hint("my-topic-3") == pickle.loads(pickle.dumps(reader)).slot_hint("my-topic-3")


def test_a_topic_partition_is_written_with_its_number() -> None:
    assert str(KafkaTopicPartition("a-b", 2)) == "a-b-2"


def test_a_marker_forgets_what_is_long_ago() -> None:
    marker = Marker("job", "group", [])
    for epoch in range(60):
        marker = marker.with_entry(epoch, f"{epoch:016}")
    assert marker.has(59, f"{59:016}")
    assert not marker.has(59, "another one")
    assert [marker.forgot(9), marker.forgot(10)] == [True, False]
    assert len(marker.encoded()) < 4096


def test_the_connector_of_the_installed_spark_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    wanted = coordinate("spark-sql-kafka-0-10")
    assert with_connectors({}, [KAFKA]) == {"spark.jars.packages": wanted}
    assert with_connectors({"spark.jars.packages": "a:b:1"}, [KAFKA]) == {"spark.jars.packages": f"a:b:1,{wanted}"}
    for options in ({"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.3.0.jar"}, {"spark.jars.packages": wanted}):
        assert with_connectors(options, [KAFKA]) == options
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--packages {wanted} pyspark-shell")
    assert with_connectors({}, [KAFKA]) == {}


def test_a_connector_that_cannot_be_fetched_is_named_with_what_to_do() -> None:
    error = not_fetched([KAFKA], "noise\nException in thread: [unresolved dependency: x]\n\tat y")
    assert f"{coordinate('spark-sql-kafka-0-10')} could not be fetched: Exception in thread" in str(error)
    assert "Action: Let this machine reach" in str(error)


@pytest.mark.spark
def test_a_session_that_runs_without_the_connector_is_told_what_to_set() -> None:
    from millrace.spark.connectors import require_connectors
    from millrace.spark.executor import own_session
    from tests.kafka.conftest import end_of_jvm

    end_of_jvm()
    try:
        session = own_session({"spark.master": "local[1]"})
        with pytest.raises(ConfigurationError, match=r"spark\.jars\.packages set to org\.apache\.spark:spark-sql"):
            require_connectors(session, [KAFKA])
    finally:
        end_of_jvm()
