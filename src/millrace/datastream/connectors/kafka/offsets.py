"""Where reading a topic begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from millrace.common.errors import ConfigurationError

Kind = Literal["earliest", "latest", "committed", "timestamp", "offsets"]


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic.

    >>> str(KafkaTopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class KafkaOffsetResetStrategy(Enum):
    """What to do about a partition that has no offset: begin at its end, at its beginning, or fail."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """An offset for each partition, looked up when the job starts without a checkpoint.

    >>> KafkaOffsetsInitializer.timestamp(1_700_000_000_000).kind
    'timestamp'
    """

    kind: Kind
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    at: int = 0
    given: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the consumer group has committed."""
        return KafkaOffsetsInitializer("committed", offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record whose timestamp (in milliseconds) is not before the given one, or else the end."""
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
            raise ConfigurationError(f"a timestamp is a number of milliseconds from 0 on, got {timestamp!r}")
        return KafkaOffsetsInitializer("timestamp", KafkaOffsetResetStrategy.LATEST, at=timestamp)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record that there is."""
        return KafkaOffsetsInitializer("earliest", KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """The end, as it is when the job starts."""
        return KafkaOffsetsInitializer("latest", KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; the strategy is for the partitions that are not among them."""
        return KafkaOffsetsInitializer("offsets", offset_reset_strategy, given=dict(offsets))
