"""The window operator: assigns records to windows, asks the trigger, calls the window's function, and cleans up.

Semantics are those of Flink's WindowOperator and EvictingWindowOperator. State is kept by key and window: the
contents, what the trigger remembers, the window function's per-window state, and one timer for each time. All of it is
gone once a window is cleaned up, at its end plus the allowed lateness.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

from millrace.common.errors import NotSupportedError, ProgramError
from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.time_domain import TimeDomain
from millrace.state.descriptors import StateDescriptor
from millrace.state.timers import TimerTable

from .assigners import MergingWindowAssigner, SlidingEventTimeWindows
from .contents import (
    CONTENTS_OF_SLIDING,
    WINDOW_CONTENTS,
    AccumulatedContents,
    Contents,
    ListedContents,
    TimestampedContents,
)
from .contexts import AssignerContext, EvictorContext, TriggerContext
from .evictors import TimestampedValue
from .functions import contents_themselves
from .merging import MergingWindowSet
from .namespaces import Namespace, namespaces_of
from .spec import WindowSpec
from .triggers import TriggerResult

# The metric's name in Flink.
LATE_RECORDS = "numLateRecordsDropped"

# Results are handed on when there are so many: those of all windows that end together need not fit into memory.
MOST_RESULTS = 4096


class WindowOperator(KeyedOperator):
    """Any assigner, trigger, evictor and function."""

    #: The state that the contents of windows are in.
    contents_name = WINDOW_CONTENTS

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec.functions()[0])
        self.spec = spec
        self.merges = isinstance(spec.assigner, MergingWindowAssigner)
        self.namespace_type = self._namespaces().type_info

    def _namespaces(self) -> Any:
        return namespaces_of(self.spec.assigner.get_window_serializer())

    # --- life ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        spec = self.spec
        self.namespaces = self._namespaces()
        self.results: list[Any] = []
        self.stamps: list[int] = []
        self._trigger_context = TriggerContext(self)
        self._late_records = self.context.metrics.counter(LATE_RECORDS)
        super().open()
        for function in spec.functions()[1:]:
            if callable(opening := getattr(function, "open", None)):
                opening(self.context.runtime_context)
        self._contents = self._make_contents()
        self._event_time = spec.assigner.is_event_time()
        self._assigner_context = AssignerContext(self)
        self._in_flight = None
        if isinstance(spec.assigner, MergingWindowAssigner):
            self._in_flight = MergingWindowSet(spec.assigner, self.namespaces, self.backends.keyed)
        self._call = contents_themselves if spec.call is None else spec.call.bind(self)
        self._clear_function = None if spec.call is None else spec.call.bind_clear(self)

    def _make_contents(self) -> Contents:
        spec, keyed, kind = self.spec, self.backends.keyed, self.namespaces.type_info
        if spec.evictor is not None:
            self._evictor_context = EvictorContext(self)
            return TimestampedContents(spec.element_type, keyed, kind)
        if spec.incremental is not None:
            return AccumulatedContents(spec.incremental, keyed, kind, self.contents_name)
        return ListedContents(spec.element_type, keyed, kind)

    def close(self) -> None:
        try:
            super().close()
        finally:
            for function in self.spec.functions()[1:]:
                if callable(closing := getattr(function, "close", None)):
                    closing()

    def restore(self) -> None:
        super().restore()
        incremental = self.spec.incremental
        if incremental is None or not isinstance(self.spec.assigner, SlidingEventTimeWindows):
            return
        # Sliding windows keep their state in one of two ways, and which one depends on what may have changed.
        held = {name: self.window_state(incremental.descriptor(name), None) for name in CONTENTS_OF_SLIDING}
        strange = [name for name, state in held.items() if name != self.contents_name and state.has_entries()]
        if strange:
            raise ProgramError(
                f"The state of {self.name!r} is that of sliding windows with another trigger or allowed lateness "
                f"({strange[0]!r} in place of {self.contents_name!r}).",
                action="Keep trigger, lateness and function as they were, or start anew under another uid.",
            )

    def begin(self) -> None:
        self.results, self.stamps = [], []  # An attempt that failed here may have left some.
        super().begin()

    # --- records ------------------------------------------------------------------------------------------------

    def process(self, batch: Batch, side: int) -> None:
        selector = self.selectors[side]
        stamps: Iterable[int] = repeat(MIN_TIMESTAMP) if batch.timestamps is None else batch.timestamps
        for value, stamp in zip(batch.values, stamps):  # noqa: B905 (repeat has no end)
            self.keys.key = self.key_of(value, selector)
            self.handle(value, stamp)
        self.flush_results()

    def key_of(self, value: Any, selector: Any) -> Any:
        """The key of a record."""
        try:
            return selector(value)
        except Exception as error:
            raise UserCodeError.wrap(error, selector, value, "the key selector") from error

    def handle(self, value: Any, stamp: int) -> None:
        """One record of the current key."""
        before = len(self.results)
        try:
            self._handle(value, stamp)
        except Exception as error:
            del self.results[before:], self.stamps[before:]
            self.bad_record(value, error)
        if len(self.results) >= MOST_RESULTS:
            self.flush_results()

    def _handle(self, value: Any, stamp: int) -> None:
        taken = False
        for assigned in self.spec.assigner.assign_windows(value, stamp, self._assigner_context):
            window = assigned
            if self._in_flight is not None:
                window = self._in_flight.add_window(assigned, self._on_merge)
            if self._is_late(window):
                if self._in_flight is not None:
                    self._in_flight.retire(window)
                continue
            taken = True
            self._add(window, value, stamp)
        if not taken and self._event_time and stamp + self.spec.allowed_lateness <= self.watermark:
            self.drop_late(value, stamp)

    def _is_late(self, window: Any) -> bool:
        return self._event_time and self.cleanup_time(window) <= self.watermark

    def drop_late(self, value: Any, stamp: int) -> None:
        """A record that no window takes any more goes to the side output for it or, without one, is counted."""
        if self.spec.late_tag is not None:
            self.emit_side(self.spec.late_tag, value, None if stamp == MIN_TIMESTAMP else stamp)
        else:
            self._late_records.inc()

    def _add(self, window: Any, value: Any, stamp: int) -> None:
        namespace = state = self.namespaces.of(window)
        if self._in_flight is not None:
            state = self._in_flight.state_namespace(window)
        self._contents.add(state, value, stamp)
        self._trigger_context.namespace = namespace
        result = self.spec.trigger.on_element(value, stamp, window, self._trigger_context)
        if result is not TriggerResult.CONTINUE:
            self._obey(result, window, namespace, state)
        self._add_cleanup_timer(window, namespace)

    # --- merging ------------------------------------------------------------------------------------------------

    def _on_merge(self, merged: Any, parts: list[Any], state: Namespace, moved: list[Namespace]) -> None:
        self._require_future(merged)
        context, trigger = self._trigger_context, self.spec.trigger
        of_parts = [self.namespaces.of(part) for part in parts]
        context.namespace, context.merged = self.namespaces.of(merged), of_parts
        trigger.on_merge(merged, context)
        for part, of_part in zip(parts, of_parts, strict=True):
            context.namespace = of_part
            trigger.clear(part, context)
            self._remove_cleanup_timer(part, of_part)
        if moved:
            self._contents.merge(state, moved)

    def _require_future(self, merged: Any) -> None:
        """Merging must not make a window end before now: it would never be cleaned up."""
        now = self.watermark if self._event_time else self.context.processing_time
        if self.cleanup_time(merged) <= now:
            raise NotSupportedError(
                f"The end of a window cannot become earlier than the current time by merging; the time is {now}, and "
                f"the window {merged!r}.",
                action="Let merge_windows give a window that holds all that it is made of.",
            )

    # --- timers -------------------------------------------------------------------------------------------------

    def _fire(self, timers: TimerTable, until: int, domain: TimeDomain) -> None:
        self._fire_windows(timers, until, domain)
        self.flush_results()

    def _fire_windows(self, timers: TimerTable, until: int, domain: TimeDomain) -> None:
        while (timer := timers.pop_due(until)) is not None:
            timestamp, _, self.keys.key, namespace = timer
            try:
                self.on_window_timer(timestamp, namespace, domain)
            except UserCodeError:
                raise
            except Exception as error:
                what = f"the window {self._shown(namespace)}, for the key, of"
                raise UserCodeError.wrap(error, self.function, self.keys.key, what) from error
            if len(self.results) >= MOST_RESULTS:
                self.flush_results()

    def _shown(self, namespace: Namespace) -> str:
        return repr(self.namespaces.window(namespace))

    def on_window_timer(self, timestamp: int, namespace: Namespace, domain: TimeDomain) -> None:
        """A timer of the current key and of a window has fired."""
        window, state = self.namespaces.window(namespace), namespace
        if self._in_flight is not None:
            state = self._in_flight.state_namespace(window)
            if state is None:
                return  # The window has been cleaned up, or is part of another by now.
        trigger, context = self.spec.trigger, self._trigger_context
        context.namespace = namespace
        in_event_time = domain is TimeDomain.EVENT_TIME
        fired = trigger.on_event_time if in_event_time else trigger.on_processing_time
        result = fired(timestamp, window, context)
        if result is not TriggerResult.CONTINUE:
            self._obey(result, window, namespace, state)
        if in_event_time is self._event_time and timestamp == self.cleanup_time(window):
            self._clean_up(window, namespace, state)

    def cleanup_time(self, window: Any) -> int:
        """When a window goes. At the end of time for one that never does."""
        end: int = window.max_timestamp()
        return min(end + self.spec.allowed_lateness, MAX_WATERMARK) if self._event_time else end

    def _add_cleanup_timer(self, window: Any, namespace: Namespace) -> None:
        time = self.cleanup_time(window)
        if time < MAX_WATERMARK:
            self.add_timer(self.event_timers if self._event_time else self.processing_timers, namespace, time)

    def _remove_cleanup_timer(self, window: Any, namespace: Namespace) -> None:
        time = self.cleanup_time(window)
        if time < MAX_WATERMARK:
            timers = self.event_timers if self._event_time else self.processing_timers
            timers.remove(self.keys.key, namespace, time)

    def add_timer(self, timers: TimerTable, namespace: Namespace, time: int) -> None:
        """One timer for each key, window and time."""
        if not self.time_is_over:
            timers.add(self.keys.key, namespace, time)

    # --- results ------------------------------------------------------------------------------------------------

    def _obey(self, result: TriggerResult, window: Any, namespace: Namespace, state: Namespace) -> None:
        if result.is_fire():
            self._emit_contents(window, namespace, state)
        if result.is_purge():
            self._contents.clear(state)

    def _emit_contents(self, window: Any, namespace: Namespace, state: Namespace) -> None:
        if self.spec.evictor is not None:
            self._emit_with_evictor(window, namespace, state)
        elif contents := self._contents.get(state):
            self.emit_window(window, namespace, contents)

    def _emit_with_evictor(self, window: Any, namespace: Namespace, state: Namespace) -> None:
        contents, evictor = self._contents, self.spec.evictor
        assert isinstance(contents, TimestampedContents)
        assert evictor is not None
        elements = [TimestampedValue(*pair) for pair in contents.get(state)]
        if not elements:
            return
        evictor.evict_before(elements, len(elements), window, self._evictor_context)
        self.emit_window(window, namespace, [element.value for element in elements])
        evictor.evict_after(elements, len(elements), window, self._evictor_context)
        contents.replace(state, [(element.value, element.timestamp) for element in elements])

    def emit_window(self, window: Any, namespace: Namespace, contents: list[Any]) -> None:
        """Call the window's function; its results bear the last timestamp of the window."""
        found = self._call(window, namespace, contents)
        if found is not None:
            self.results.extend(found)
            self.stamps.extend(repeat(window.max_timestamp(), len(self.results) - len(self.stamps)))

    def flush_results(self) -> None:
        """Hand on what there is."""
        if self.results:
            values, self.results = self.results, []
            stamps, self.stamps = self.stamps, []
            self.emit(values, stamps)

    # --- the end of a window ------------------------------------------------------------------------------------

    def _clean_up(self, window: Any, namespace: Namespace, state: Namespace) -> None:
        self._contents.clear(state)
        self._trigger_context.namespace = namespace
        self.spec.trigger.clear(window, self._trigger_context)
        self.clear_function(window, namespace)
        if self._in_flight is not None:
            self._in_flight.retire(window)

    def clear_function(self, window: Any, namespace: Namespace) -> None:
        """Let the window's function give back its per-window state."""
        if self._clear_function is not None:
            self._clear_function(window, namespace)

    # --- what contexts ask for ----------------------------------------------------------------------------------

    def window_state(self, descriptor: StateDescriptor, namespace: Namespace) -> Any:
        """State of the current key and a window."""
        kind: TypeInformation | None = self.namespaces.type_info
        state = self.backends.keyed.get_state(descriptor, namespaced=True, namespace_type=kind)
        state.set_namespace(namespace)
        return state
