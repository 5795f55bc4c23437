"""What `ctx.timer_service()` gives."""

from __future__ import annotations

from abc import ABC, abstractmethod

from millrace.runtime import contexts

__all__ = ["TimerService"]


class TimerService(ABC):
    """The two clocks, and the timers of the current key: one for each key, time domain and timestamp."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Processing time in milliseconds; it stands still within an epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time is, in milliseconds."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` once processing time has reached `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` once the watermark has reached `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a timer; nothing happens when there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget a timer; nothing happens when there is none."""


TimerService.register(contexts.TimerService)
TimerService.register(contexts.KeyedTimerService)
