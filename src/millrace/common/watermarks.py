"""Watermarks and what makes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from .errors import ProgramError
from .time import MAX_WATERMARK, MIN_TIMESTAMP

__all__ = [
    "AscendingTimestampsWatermarks",
    "BatchWatermarkGenerator",
    "BoundedOutOfOrdernessWatermarks",
    "NoWatermarksGenerator",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
]


@dataclass(frozen=True, order=True, slots=True)
class Watermark:
    """A promise that no record with this timestamp or an earlier one will follow.

    >>> Watermark(5) < Watermark.MAX_WATERMARK
    True
    """

    timestamp: int

    MAX_WATERMARK: ClassVar[Watermark]

    def get_timestamp(self) -> int:
        return self.timestamp


Watermark.MAX_WATERMARK = Watermark(MAX_WATERMARK)


class WatermarkOutput(Protocol):
    """Where a generator sends what it knows."""

    def emit_watermark(self, watermark: Watermark) -> None: ...

    def mark_idle(self) -> None:
        """Until something else is emitted, nobody should wait for this output."""

    def mark_active(self) -> None: ...


class WatermarkGenerator(ABC):
    """Makes watermarks out of the records that pass, one instance per source split.

    ``on_event`` is called for every record, ``on_periodic_emit`` after each chunk of records and at the end
    of an epoch: never by the clock, so that a replay emits the same. An instance is pickled into every
    checkpoint.
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None: ...

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


class BatchWatermarkGenerator(WatermarkGenerator):
    """A generator that needs only the timestamps, and so can take a chunk of them at once.

    ``on_batch(timestamps)`` and then ``current()`` say the same as ``on_event`` for each and then
    ``on_periodic_emit``.
    """

    __slots__ = ()

    @abstractmethod
    def on_batch(self, timestamps: list[int]) -> None: ...

    @abstractmethod
    def current(self) -> int:
        """The timestamp of the watermark that holds now; MIN_TIMESTAMP when there is none yet."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.on_batch([event_timestamp])

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(self.current()))


class BoundedOutOfOrdernessWatermarks(BatchWatermarkGenerator):
    """Trails the highest timestamp by a fixed delay: ``max_timestamp - delay - 1``.

    >>> generator = BoundedOutOfOrdernessWatermarks(10)
    >>> generator.on_batch([100, 120, 90])
    >>> generator.current()
    109
    """

    __slots__ = ("delay_ms", "max_timestamp")

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        if max_out_of_orderness_ms < 0:
            raise ProgramError(f"the out-of-orderness must not be negative, got {max_out_of_orderness_ms} ms")
        self.delay_ms = max_out_of_orderness_ms
        # So that current() begins at MIN_TIMESTAMP and never below it.
        self.max_timestamp = MIN_TIMESTAMP + max_out_of_orderness_ms + 1

    def on_batch(self, timestamps: list[int]) -> None:
        self.max_timestamp = max(self.max_timestamp, max(timestamps, default=self.max_timestamp))

    def current(self) -> int:
        return self.max_timestamp - self.delay_ms - 1


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """For timestamps that never go back.

    >>> generator = AscendingTimestampsWatermarks()
    >>> generator.on_batch([1, 2, 3])
    >>> generator.current()
    2
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarksGenerator(BatchWatermarkGenerator):
    """Never emits anything."""

    __slots__ = ()

    def on_batch(self, timestamps: list[int]) -> None:
        pass

    def current(self) -> int:
        return MIN_TIMESTAMP

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass
