"""A real Kafka broker for tests: one process in KRaft mode, on free ports of 127.0.0.1.

Its jars come through Maven once and stay in the user's cache.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

VERSION = "4.3.1"


class NoBrokerError(Exception):
    """This machine cannot have one; says why."""


def cache() -> Path:
    """Where fetched jars stay."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "millrace")


def fetched(name: str, dependencies: list[str], *, transitive: bool = True) -> list[Path]:
    """The jars of Maven artifacts (`group:artifact:version`); `transitive` with all that they need."""
    directory = cache() / name
    if not directory.is_dir():
        if shutil.which("mvn") is None or shutil.which("java") is None:
            raise NoBrokerError("no mvn or no java to fetch Kafka's jars with")
        work = cache() / f"{name}.{uuid4().hex}.partial"
        work.mkdir(parents=True)
        try:
            _fetch(work, dependencies, transitive)
            with contextlib.suppress(OSError):  # another run was faster
                (work / "jars").rename(directory)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return sorted(directory.glob("*.jar"))


def _fetch(work: Path, dependencies: list[str], transitive: bool) -> None:
    exclusions = "" if transitive else (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    rows = []
    for dependency in dependencies:
        group, artifact, version = dependency.split(":")
        rows.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{exclusions}</dependency>"
        )
    (work / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>millrace</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencies>{''.join(rows)}</dependencies></project>"
    )
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        why = errors[0][:300] if errors else "it does not say why"
        raise NoBrokerError(f"mvn could not fetch {', '.join(dependencies)}: {why}")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Broker:
    """One broker, which can be stopped and started again with what it holds. With `login`, clients need a password."""

    def __init__(self, directory: Path, login: tuple[str, str] | None = None) -> None:
        self._directory = directory
        self._jars = fetched(f"kafka-{VERSION}", [f"org.apache.kafka:kafka_2.13:{VERSION}"])
        self._port, controller = free_ports(2)
        self._login = login
        self.address = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        protocol = "PLAINTEXT" if login is None else "SASL_PLAINTEXT"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"CLIENTS://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"CLIENTS://{self.address}",
            "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENTS",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.ms": "-1",  # tests write records with the timestamps of 1970
            "auto.create.topics.enable": "false",
        }
        if login is not None:
            name, word = login
            module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
            settings |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": (
                    f'{module} username="{name}" password="{word}" user_{name}="{word}";'
                ),
            }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (directory / "server.properties").write_text(text)
        cluster = "AAAAAAAAAAAAAAAAAAAAAQ"
        self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties").wait(60)

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        classpath = os.pathsep.join(map(str, self._jars))
        with (self._directory / "log").open("ab") as log:
            return subprocess.Popen(
                ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", classpath, main, *arguments],
                cwd=self._directory,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self) -> Broker:
        self._process = self._java("kafka.Kafka", "server.properties")
        end = time.monotonic() + 60
        while True:
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise NoBrokerError(f"the broker did not start: {(self._directory / 'log').read_text()[-500:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
                break
            time.sleep(0.1)
        with contextlib.suppress(Exception):
            self.admin().list_topics(timeout=30)
        return self

    def stop(self) -> None:
        """At once, as by a loss of power: what it had promised is on the disk."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(30)

    # --- what tests do with it -----------------------------------------------------------------------------

    def client(self, **settings: Any) -> dict[str, Any]:
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        login = {}
        if self._login is not None:
            login = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": self._login[0],
                "sasl.password": self._login[1],
            }
        return {"bootstrap.servers": self.address, "log_level": 0, **login, **settings}

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.client())

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        """A new topic."""
        from confluent_kafka.admin import NewTopic

        name = name or f"topic-{uuid4().hex[:8]}"
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    def widen(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def send(self, topic: str, values: list[str], partitions: int = 1, **further: Any) -> None:
        """Write values, by turns to the partitions."""
        from confluent_kafka import Producer

        producer = Producer(self.client())
        for index, value in enumerate(values):
            producer.produce(topic, value, partition=index % partitions, **further)
            producer.poll(0)
        assert producer.flush(30) == 0

    def content(self, *topics: str, committed_only: bool = True) -> list[str]:
        """All values of topics, sorted."""
        return sorted(value.decode() for value in self._values(topics, committed_only))

    def _values(self, topics: tuple[str, ...], committed_only: bool) -> Iterator[bytes]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        level = "read_committed" if committed_only else "read_uncommitted"
        consumer = Consumer(
            self.client(group_id="content", isolation_level=level, enable_partition_eof=True, enable_auto_commit=False)
        )
        try:
            known = consumer.list_topics(timeout=30).topics
            left = {(topic, number) for topic in topics for number in known[topic].partitions}
            consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in left])
            while left:
                message = consumer.poll(30)
                assert message is not None, "the topic was not read to its end"
                if message.error() is None:
                    yield message.value()
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
        finally:
            consumer.close()
