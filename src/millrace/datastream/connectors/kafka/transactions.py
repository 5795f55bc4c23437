"""Exactly once: what a checkpoint has staged goes to Kafka in one transaction, once.

    manifest (names the files) ─► init_transactions ─► has it been committed?  yes ─► delete the files
                                    (ends what an earlier       │ no
                                     run has left open)         ╰─► begin ─► records ─► marker ─► commit ─► delete

The **marker** is an offset that the transaction commits for a consumer group of the sink's own. Its metadata lists the
last checkpoints by epoch and by a digest of their files. Records and marker become visible together or not at all, so
that a commit which is asked for a second time, after any crash, finds the marker and does nothing.

A worker cannot leave a prepared transaction for another process to commit: librdkafka does not offer to resume one.
That is why the records pass through files, and why the driver produces them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from millrace.common.errors import MillraceError
from millrace.datastream.connectors.base import Committer
from millrace.state.errors import StateCorruptedError
from millrace.state.files import open_files

from .client import LastError, confluent, is_passing, kafka_error, patience, system_name
from .properties import for_librdkafka
from .records import KafkaProducerRecord, produce

# Checkpoints in a marker. A commit is asked for again only for one of the newest; 50 stay far below the 4,096 bytes
# that brokers allow for an offset's metadata.
_REMEMBERED = 50

# How long a transaction may take, in milliseconds: below the 15 minutes that brokers allow by default.
_TRANSACTION_TIMEOUT = "600000"

# Between two questions to a broker that is not ready yet, in seconds.
_PAUSE = 0.1

Committable = dict[str, Any]


class KafkaCommitter(Committer):
    """Commits checkpoints of one sink, in the driver."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        self._properties = dict(properties)
        self._prefix = prefix
        self._last = LastError()
        self._producer: Any = None
        self._markers: dict[str, Marker] = {}

    def commit(self, committables: list[Any]) -> None:
        """Commit; what has been committed before is only cleared away."""
        library = confluent()
        try:
            for job, staged in groupby(sorted(committables, key=itemgetter("job", "epoch")), itemgetter("job")):
                self._commit(job, list(staged))
        except library.KafkaException as error:
            self._forget()
            raise kafka_error("commit a transaction", error, self._properties, self._last.text) from None
        except BaseException:
            self._forget()
            raise

    def _commit(self, job: str, staged: list[Committable]) -> None:
        producer = self._begun()
        marker = self._marker(job)
        epoch, digest = staged[-1]["epoch"], _digest(staged)
        if not marker.has(epoch, digest) and not (marker.forgot(epoch) and self._is_cleared(staged[0])):
            self._transact(producer, staged, marker.group, marker.with_entry(epoch, digest))
        for committable in staged:
            open_files(committable["root"]).delete(committable["file"])
        self._sweep(staged[-1])

    def _transact(self, producer: Any, staged: list[Committable], group: str, after: Marker) -> None:
        producer.begin_transaction()
        topic = ""
        for committable in staged:
            for record in self._records(committable):
                topic = record.topic
                self._produce(producer, record)
        while producer.flush(1):  # until all is delivered, or has failed, which the commit then tells
            continue
        library = confluent()
        place = library.TopicPartition(topic, 0, after.entries[-1][0], after.encoded())
        with _consumer(library, self._properties, group) as consumer:
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], metadata, self._patience)
        producer.commit_transaction(self._patience)
        self._markers[after.job] = after

    def _is_cleared(self, committable: Committable) -> bool:
        """Whether the file is gone: it goes only after the commit."""
        directory = committable["file"].rpartition("/")[0]
        return committable["file"] not in open_files(committable["root"]).list(directory)

    def _records(self, committable: Committable) -> list[KafkaProducerRecord]:
        try:
            data = open_files(committable["root"]).read(committable["file"])
        except StateCorruptedError as error:
            raise MillraceError(
                f"{system_name(self._properties)}: a checkpoint has records that were never committed, and their file "
                f"is gone: {committable['root']}/{committable['file']}.",
                action="Begin from a later checkpoint, or put the file back.",
            ) from error
        return msgspec.msgpack.decode(data, type=list[KafkaProducerRecord])

    def _produce(self, producer: Any, record: KafkaProducerRecord) -> None:
        while True:
            try:
                produce(producer, record)
                return
            except BufferError:
                producer.poll(0.5)

    def _sweep(self, committed: Committable) -> None:
        """Files of attempts that failed: no epoch up to this one has anything to commit any more."""
        files = open_files(committed["root"])
        directory = committed["file"].rpartition("/")[0]
        for path in files.list(directory):
            if int(path.rpartition("/")[2].partition("-")[0]) <= committed["epoch"]:
                files.delete(path)

    # --- Kafka ---------------------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        return patience(self._properties)

    def _begun(self) -> Any:
        """The producer. To begin ends a transaction that an earlier run has left open, and shuts out what still runs
        of it: from then on nobody else can commit under this id."""
        if self._producer is not None:
            self._producer.poll(0)
            if self._last.text:  # It lost its brokers, and may wait for ever for one that is back (librdkafka 2.16).
                self._forget()
        if self._producer is None:
            self._last.text = ""
            settings = {
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT,
                **for_librdkafka(self._properties),
                "transactional.id": self._prefix,
                "error_cb": self._last,
                "log_level": 0,
            }
            producer = make_producer(settings)
            try:
                producer.init_transactions(self._patience)
            except BaseException:
                producer.poll(0)  # hear what it last complained about
                raise
            self._producer = producer
        return self._producer

    def _forget(self) -> None:
        """After an error nothing is known of the transaction: the next commit begins anew, and looks."""
        producer, self._producer = self._producer, None
        self._markers = {}
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.purge()
                producer.poll(0)  # hear what it last complained about

    def _marker(self, job: str) -> Marker:
        if job not in self._markers:
            group = f"{self._prefix}-{job}"
            self._markers[job] = Marker(job, group, _entries(self._properties, group, self._patience))
        return self._markers[job]


def make_producer(settings: dict[str, Any]) -> Any:
    """A producer of librdkafka."""
    return confluent().Producer(settings)


class Marker:
    """Which checkpoints of a job have been committed: the last ones, by epoch and digest.

    >>> marker = Marker("job", "group", []).with_entry(4, "aa")
    >>> marker.has(4, "aa"), marker.has(5, "bb"), marker.forgot(3)
    (True, False, True)
    """

    def __init__(self, job: str, group: str, entries: list[tuple[int, str]]) -> None:
        self.job = job
        self.group = group
        self.entries = entries

    def has(self, epoch: int, digest: str) -> bool:
        """Whether the checkpoint is known to be committed."""
        return (epoch, digest) in self.entries

    def forgot(self, epoch: int) -> bool:
        """Whether the checkpoint is older than all that are remembered: that of an old savepoint, say."""
        return bool(self.entries) and epoch < self.entries[0][0]

    def with_entry(self, epoch: int, digest: str) -> Marker:
        """The marker after a further checkpoint."""
        return Marker(self.job, self.group, [*self.entries, (epoch, digest)][-_REMEMBERED:])

    def encoded(self) -> str:
        """As the metadata of an offset."""
        return json.dumps(self.entries, separators=(",", ":"))


def _entries(properties: Mapping[str, str], group: str, timeout: float) -> list[tuple[int, str]]:
    """The newest marker of a group, whichever topic it was written for."""
    library = confluent()
    settings = {**_shared(properties), "log_level": 0}
    admin = library.admin.AdminClient(settings)
    wanted = library.ConsumerGroupTopicPartitions(group)
    give_up = time.monotonic() + timeout
    while True:
        try:
            answers = admin.list_consumer_group_offsets([wanted], require_stable=True, request_timeout=timeout)
            answer = answers[group].result()
            break
        except library.KafkaException as error:
            if not is_passing(error) or time.monotonic() > give_up:
                raise
            time.sleep(_PAUSE)
    found = [each for each in answer.topic_partitions if each.offset >= 0 and each.metadata]
    if not found:
        return []
    newest = max(found, key=lambda each: each.offset)
    return [(epoch, digest) for epoch, digest in json.loads(newest.metadata)]


def _shared(properties: Mapping[str, str]) -> dict[str, str]:
    """What every kind of client takes: where the brokers are, and how to log in."""
    taken = for_librdkafka(properties)
    return {k: v for k, v in taken.items() if k.startswith(("bootstrap.", "security.", "sasl.", "ssl.", "client.id"))}


@contextlib.contextmanager
def _consumer(library: Any, properties: Mapping[str, str], group: str) -> Iterator[Any]:
    consumer = library.Consumer({**_shared(properties), "group.id": group, "log_level": 0})
    try:
        yield consumer
    finally:
        consumer.close()


def _digest(staged: list[Committable]) -> str:
    """What tells one checkpoint's files from another's: their names are unique."""
    names = "\n".join(sorted(committable["file"] for committable in staged))
    return hashlib.sha256(names.encode()).hexdigest()[:16]

