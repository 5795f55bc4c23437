"""What triggers, assigners, evictors and window functions are given beside the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.common.errors import NotSupportedError
from millrace.common.metrics import MetricGroup
from millrace.runtime.context import RuntimeContext
from millrace.runtime.output_tag import OutputTag
from millrace.state.api import KeyedStateStore
from millrace.state.descriptors import StateDescriptor

from .assigners import WindowAssigner
from .evictors import Evictor
from .namespaces import Namespace
from .triggers import Trigger

if TYPE_CHECKING:
    from .operator import WindowOperator


class _Clocks:
    """The two clocks of an operator."""

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator

    def get_current_processing_time(self) -> int:
        """The epoch's processing time."""
        return self._operator.context.processing_time

    def get_current_watermark(self) -> int:
        """How far event time is."""
        return self._operator.watermark

    def get_metric_group(self) -> MetricGroup:
        """The operator's metrics."""
        return self._operator.context.metrics


class AssignerContext(_Clocks, WindowAssigner.WindowAssignerContext):
    """`context` of an assigner."""

    def get_runtime_context(self) -> RuntimeContext:
        return self._operator.context.runtime_context


class EvictorContext(_Clocks, Evictor.EvictorContext):
    """`evictor_context` of an evictor."""


class TriggerContext(_Clocks, Trigger.OnMergeContext):
    """`ctx` of a trigger. It speaks of the current key and of the window that `namespace` stands for."""

    def __init__(self, operator: WindowOperator) -> None:
        super().__init__(operator)
        self.namespace: Namespace = None
        self.merged: list[Namespace] = []

    def register_event_time_timer(self, time: int) -> None:
        self._operator.add_timer(self._operator.event_timers, self.namespace, time)

    def register_processing_time_timer(self, time: int) -> None:
        self._operator.add_timer(self._operator.processing_timers, self.namespace, time)

    def delete_event_time_timer(self, time: int) -> None:
        self._operator.event_timers.remove(self._operator.keys.key, self.namespace, time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._operator.processing_timers.remove(self._operator.keys.key, self.namespace, time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._operator.window_state(state_descriptor, self.namespace)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self.get_partitioned_state(state_descriptor)
        if not hasattr(state, "merge_namespaces"):
            raise NotSupportedError(
                f"The state {state_descriptor.name!r} of a trigger cannot be merged: it is of the kind "
                f"{state_descriptor.kind!r}.",
                action="Use reducing, aggregating or list state.",
            )
        state.merge_namespaces(self.namespace, self.merged)


class WindowStateStore(KeyedStateStore):
    """`context.window_state()`: state of the current key and window."""

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator
        self.namespace: Namespace = None

    def get_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._operator.window_state(state_descriptor, self.namespace)

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


class GlobalStateStore(KeyedStateStore):
    """`context.global_state()`: state of the current key, for all of its windows."""

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator

    def get_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._operator.backends.keyed.get_state(state_descriptor)

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


class WindowContext:
    """`context` of the process window functions. One object serves all windows: do not keep it."""

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator
        self._window: Any = None
        self._window_state = WindowStateStore(operator)
        self._global_state = GlobalStateStore(operator)

    def of(self, window: Any, namespace: Namespace) -> WindowContext:
        """The same context, speaking of a window."""
        self._window = window
        self._window_state.namespace = namespace
        return self

    def window(self) -> Any:
        """The window that fires or goes."""
        return self._window

    def current_processing_time(self) -> int:
        """The epoch's processing time."""
        return self._operator.context.processing_time

    def current_watermark(self) -> int:
        """How far event time is."""
        return self._operator.watermark

    def window_state(self) -> KeyedStateStore:
        """State of the current key and window. What is put there must be given back in `clear`."""
        if self._operator.merges:
            raise NotSupportedError(
                "Per-window state is not allowed when using merging windows.", action="Use global_state()."
            )
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        """State of the current key, for all of its windows."""
        return self._global_state

    def output(self, tag: OutputTag, value: Any) -> None:
        """Send a record to a side output; `yield tag, value` does the same."""
        self._operator.emit_side(tag, value, self._window.max_timestamp())
