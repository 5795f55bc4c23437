"""Fixtures: one real broker for the run, and a Spark session that has Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.broker import Broker, NoBrokerError, fetched

# What is tried with where the exact connector cannot be had: Spark 4.3.0 is on PyPI, but its Kafka connector was not in
# Maven's central repository when this was written. No program is ever given these; see docs/kafka.md.
STAND_IN = [
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
]


_NOTES: list[str] = []


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say with what the tests ran."""
    for note in _NOTES:
        terminalreporter.write_line(note)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (the extra `kafka`)")
    try:
        broker = Broker(tmp_path_factory.mktemp("kafka")).start()
    except NoBrokerError as error:
        pytest.skip(f"no Kafka broker: {error}")
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def connector_jars() -> list[Path]:
    """Spark's Kafka connector of the very release, or else the stand-in, which the run's summary then tells."""
    from millrace.spark.connectors import coordinate

    exact = coordinate("spark-sql-kafka-0-10")
    try:
        return fetched(exact.replace(":", "_"), [exact])
    except NoBrokerError as error:
        reason = str(error)
    try:
        jars = fetched("spark-kafka-stand-in", STAND_IN, transitive=False)
    except NoBrokerError as error:
        pytest.skip(f"neither {exact} nor its stand-in could be fetched: {error}")
    _NOTES.append(f"Spark's Kafka connector: tried with the stand-in {STAND_IN[0]}, because {reason}")
    return jars


@pytest.fixture(scope="session")
def kafka_spark(connector_jars: list[Path]) -> Iterator[Any]:
    """Millrace's own session, in a JVM of its own: a JVM that runs already does not have the connector."""
    from millrace.spark.executor import close_own_session, own_session

    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (the extra `kafka`)")
    end_of_jvm()
    yield own_session({"spark.master": "local[2]", "spark.jars": ",".join(map(str, connector_jars))})
    close_own_session()
    end_of_jvm()


def end_of_jvm() -> None:
    from pyspark import SparkContext

    from millrace.spark.executor import close_own_session

    close_own_session()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
