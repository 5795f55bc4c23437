"""What a trigger is, and what it may ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Generic, TypeVar

from millrace.common.metrics import MetricGroup
from millrace.state.descriptors import StateDescriptor

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """What a trigger wants: (fire, purge).

    FIRE gives the window's contents to its function; there is no result where there are no contents. PURGE throws the
    contents away. The window, the trigger's state and its timers stay until the window is cleaned up.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Tells when a window fires. One object serves all keys and windows: what it remembers is partitioned state.

    Each window of each key has timers and state of its own, and the trigger gives both back in `clear`, which is
    called when the window is cleaned up. A trigger for windows that merge says so in `can_merge`.
    """

    class TriggerContext(ABC):
        """Time, timers and state of the window at hand. One object serves all calls: do not keep it."""

        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_metric_group(self) -> MetricGroup: ...

        @abstractmethod
        def get_current_watermark(self) -> int: ...

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called. There is one timer for each window and time."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called once the watermark has reached `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None: ...

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None: ...

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """State of the current key and window."""

    class OnMergeContext(TriggerContext):
        """What `on_merge` is given."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Move the state of the merged windows into that of the new one. It must be a kind that can be merged."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """A record was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """A timer of processing time has fired."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """A timer of event time has fired."""

    def can_merge(self) -> bool:
        """Whether `on_merge` is there, and the trigger fit for windows that merge."""
        return False

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Several windows have become this one. Those are cleared next."""
        raise NotImplementedError("This trigger does not support merging.")

    @abstractmethod
    def clear(self, window: W, ctx: TriggerContext) -> None:
        """The window goes: give back its state and timers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
