"""What a process function is given beside the record: `ctx`, and its timer service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.common.errors import ProgramError
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.time_domain import TimeDomain

if TYPE_CHECKING:
    from millrace.runtime.operators.base import Operator
    from millrace.runtime.operators.keyed import KeyedOperator


class TimerService:
    """Time without timers: what a function on a stream without keys may ask."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        """The epoch's processing time in milliseconds: it stands still within an epoch, so that a replay agrees."""
        return self._operator.context.processing_time

    def current_watermark(self) -> int:
        """How far event time is."""
        return self._operator.watermark

    def _no_timers(self, timestamp: int) -> None:
        raise ProgramError(
            "Timers belong to a key, and this stream has none.",
            action="Put key_by(...) in front of the process function that sets the timer.",
        )

    register_event_time_timer = _no_timers
    register_processing_time_timer = _no_timers
    delete_event_time_timer = _no_timers
    delete_processing_time_timer = _no_timers


class KeyedTimerService:
    """Timers of the current key: one for each key and timestamp."""

    def __init__(self, operator: KeyedOperator, namespace: Any = None) -> None:
        self._operator = operator
        self._keys = operator.keys
        self._event = operator.event_timers
        self._processing = operator.processing_timers
        self.namespace = namespace

    def current_processing_time(self) -> int:
        """The epoch's processing time in milliseconds: it stands still within an epoch, so that a replay agrees."""
        return self._operator.context.processing_time

    def current_watermark(self) -> int:
        """How far event time is."""
        return self._operator.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for this key once the watermark has reached `timestamp`."""
        if not self._operator.time_is_over:
            self._event.add(self._keys.key, self.namespace, _checked(timestamp))

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for this key in the first epoch at or after `timestamp`."""
        if not self._operator.time_is_over:
            self._processing.add(self._keys.key, self.namespace, _checked(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget a timer; nothing happens when there is none."""
        self._event.remove(self._keys.key, self.namespace, _checked(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a timer; nothing happens when there is none."""
        self._processing.remove(self._keys.key, self.namespace, _checked(timestamp))


def _checked(timestamp: Any) -> int:
    if type(timestamp) is not int:
        raise ProgramError(
            f"A timer's timestamp is an int of milliseconds, not {type(timestamp).__name__} ({timestamp!r}).",
            action="Convert it, for example with int(...).",
        )
    return timestamp


class ElementContext:
    """`ctx` of the process functions. One object serves all records: do not keep it."""

    def __init__(self, operator: Operator, timers: TimerService | KeyedTimerService) -> None:
        self._operator = operator
        self._timers = timers
        self._timestamp: int | None = None
        self._domain: TimeDomain | None = None

    def timer_service(self) -> Any:
        """Timers and the two clocks."""
        return self._timers

    def timestamp(self) -> int | None:
        """The record's timestamp, or that of the timer; None when the stream has none."""
        return self._timestamp

    def output(self, tag: OutputTag, value: Any) -> None:
        """Send a record to a side output (`yield tag, value` does the same)."""
        self._operator.emit_side(tag, value, self._timestamp)

    def get_current_key(self) -> Any:
        """The key of the record or timer."""
        return self._operator.keys.key  # type: ignore[attr-defined]

    def current_processing_time(self) -> int:
        """Short for `timer_service().current_processing_time()`."""
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        """Short for `timer_service().current_watermark()`."""
        return self._timers.current_watermark()

    def time_domain(self) -> TimeDomain | None:
        """In `on_timer`: whether the timer was one of event time or of processing time."""

        return self._domain

    def for_timer(self, timestamp: int, domain: TimeDomain) -> ElementContext:
        """The same context, speaking of a timer."""
        self._timestamp = timestamp
        self._domain = domain
        return self
