"""When windows fire, and what is taken out of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from millrace.common import Types
from millrace.datastream import ProcessWindowFunction
from millrace.datastream import window as w
from millrace.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from millrace.testing import WindowHarness

TEN = w.TumblingEventTimeWindows.of(10)
FIRE, CONTINUE = w.TriggerResult.FIRE, w.TriggerResult.CONTINUE


class Listed(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield [value for _, value in elements]


def harness(assigner: Any, trigger: Any = None, evictor: Any = None, lateness: int = 0) -> WindowHarness:
    def build(stream: Any) -> Any:
        made = stream.window(assigner)
        if lateness:
            made.allowed_lateness(lateness)
        if trigger is not None:
            made.trigger(trigger)
        if evictor is not None:
            made.evictor(evictor)
        return made.process(Listed())

    return WindowHarness(build, 0, key_type=Types.STRING())


def feed(windows: WindowHarness, *stamps: int) -> None:
    for stamp in stamps:
        windows.push(("a", stamp), timestamp=stamp)


# --- triggers ------------------------------------------------------------------------------------------------------


def test_a_count_trigger_fires_with_every_so_many_records_and_keeps_them() -> None:
    with harness(w.GlobalWindows.create(), w.CountTrigger.of(2)) as windows:
        feed(windows, 1, 2, 3, 4)
        assert windows.output == [[1, 2], [1, 2, 3, 4]]


def test_a_purging_count_trigger_begins_anew() -> None:
    with harness(w.GlobalWindows.create(), w.PurgingTrigger.of(w.CountTrigger.of(2))) as windows:
        feed(windows, 1, 2, 3, 4)
        assert windows.output == [[1, 2], [3, 4]]
        assert windows.entries == {}


def test_a_count_trigger_replaces_the_trigger_at_the_end_and_the_window_still_goes() -> None:
    with harness(TEN, w.CountTrigger.of(2)) as windows:
        feed(windows, 1, 2, 3)
        windows.watermark(9)
        assert windows.output == [[1, 2]]
        assert windows.entries == {}


def test_counts_of_merging_windows_are_added_up() -> None:
    with harness(w.EventTimeSessionWindows.with_gap(5), w.CountTrigger.of(4)) as windows:
        feed(windows, 0, 10, 11)
        windows.end_epoch()
        feed(windows, 5)
        assert windows.output == [[0, 10, 11, 5]]
        windows.watermark(100)
        assert windows.entries == {}


def test_a_continuous_trigger_fires_as_the_watermark_goes_and_at_the_end() -> None:
    with harness(TEN, w.ContinuousEventTimeTrigger.of(4)) as windows:
        feed(windows, 1)
        windows.watermark(3)
        assert windows.output == []
        windows.watermark(4)
        feed(windows, 6)
        windows.watermark(8)
        windows.watermark(9)
        assert windows.output == [[1], [1, 6], [1, 6]]
        assert windows.entries == {}


def test_a_continuous_trigger_of_processing_time_fires_by_the_clock() -> None:
    with harness(w.GlobalWindows.create(), w.ContinuousProcessingTimeTrigger.of(10)) as windows:
        feed(windows, 1)
        windows.set_processing_time(10)
        windows.set_processing_time(15)
        feed(windows, 2)
        windows.set_processing_time(30)
        assert windows.output == [[1], [1, 2], [1, 2]]


def test_a_continuous_trigger_of_processing_time_ends_with_its_window() -> None:
    with harness(w.TumblingProcessingTimeWindows.of(10), w.ContinuousProcessingTimeTrigger.of(4)) as windows:
        feed(windows, 1)
        windows.set_processing_time(100)
        assert windows.output == [[1], [1], [1]]
        assert windows.entries == {}


def test_continuous_triggers_follow_sessions_that_merge() -> None:
    with harness(w.EventTimeSessionWindows.with_gap(5), w.ContinuousEventTimeTrigger.of(3)) as windows:
        feed(windows, 0, 8, 4)
        windows.watermark(3)
        windows.watermark(100)
        assert windows.output[-1] == [0, 8, 4]
        assert windows.entries == {}


def test_a_delta_trigger_fires_when_a_record_is_far_from_the_one_that_fired_last() -> None:
    trigger = w.DeltaTrigger.of(2, lambda old, new: new[1] - old[1])
    with harness(w.GlobalWindows.create(), trigger) as windows:
        feed(windows, 1, 3, 4, 6, 7)
        assert windows.output == [[1, 3, 4], [1, 3, 4, 6, 7]]


def test_a_timeout_trigger_fires_when_the_wait_is_over() -> None:
    trigger = w.ProcessingTimeoutTrigger.of(w.CountTrigger.of(3), 10)
    with harness(w.GlobalWindows.create(), trigger) as windows:
        feed(windows, 1)
        windows.set_processing_time(5)
        feed(windows, 2)
        windows.set_processing_time(10)
        assert windows.output == [[1, 2]]
        feed(windows, 3, 4, 5)
        assert windows.output[1:] == [[1, 2, 3, 4, 5]]
        assert windows.processing_time_timers == []


def test_a_timeout_trigger_may_begin_to_wait_with_each_record() -> None:
    trigger = w.ProcessingTimeoutTrigger.of(w.CountTrigger.of(3), 10, reset_timer_on_new_record=True)
    with harness(w.GlobalWindows.create(), trigger) as windows:
        feed(windows, 1)
        windows.set_processing_time(5)
        feed(windows, 2)
        windows.set_processing_time(14)
        assert windows.output == []
        windows.set_processing_time(15)
        assert windows.output == [[1, 2]]


def test_a_never_trigger_never_fires_and_the_window_still_goes() -> None:
    with harness(TEN, w.NeverTrigger()) as windows:
        feed(windows, 1)
        windows.watermark(9)
        assert windows.output == []
        assert windows.entries == {}


def test_event_time_windows_may_fire_by_processing_time() -> None:
    with harness(TEN, w.ProcessingTimeTrigger.create()) as windows:
        feed(windows, 1)
        windows.set_processing_time(9)
        assert windows.output == [[1]]
        windows.watermark(9)
        assert windows.entries == {}


class Hooks(w.Trigger[Any, Any]):
    """Every hook there is: state of three kinds, timers set and taken back, merging."""

    last = ValueStateDescriptor("last", Types.LONG())
    total = ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
    seen = ListStateDescriptor("seen", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> w.TriggerResult:
        ctx.get_metric_group().counter("elements").inc()
        ctx.get_partitioned_state(self.total).add(element[1])
        ctx.get_partitioned_state(self.seen).add(element[1])
        ctx.register_event_time_timer(window.max_timestamp())
        ctx.register_event_time_timer(window.max_timestamp() - 1)
        ctx.delete_event_time_timer(window.max_timestamp() - 1)
        return FIRE if ctx.get_partitioned_state(self.total).get() > 100 else CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> w.TriggerResult:
        assert time <= ctx.get_current_watermark()
        assert list(ctx.get_partitioned_state(self.seen))
        return w.TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> w.TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.total)
        ctx.merge_partitioned_state(self.seen)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.total).clear()
        ctx.get_partitioned_state(self.seen).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def test_own_triggers_have_state_timers_metrics_and_merge() -> None:
    with harness(w.EventTimeSessionWindows.with_gap(10), Hooks()) as windows:
        feed(windows, 30, 50, 40)
        assert windows.output == [[30, 50, 40]]
        windows.watermark(59)
        assert windows.output[1:] == [[30, 50, 40]]
        assert windows.metrics["elements"] == 3
        assert windows.entries == {}


def test_trigger_state_that_cannot_be_merged_is_refused() -> None:
    class Merging(Hooks):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> w.TriggerResult:
            return CONTINUE

        def on_merge(self, window: Any, ctx: Any) -> None:
            ctx.merge_partitioned_state(self.last)

    with harness(w.EventTimeSessionWindows.with_gap(10), Merging()) as windows:
        feed(windows, 1)
        with pytest.raises(Exception, match="'last' of a trigger cannot be merged"):
            feed(windows, 5)


@pytest.mark.parametrize("result", list(w.TriggerResult), ids=lambda result: result.name)
def test_what_each_trigger_result_does(result: w.TriggerResult) -> None:
    class Once(w.EventTimeTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> w.TriggerResult:
            ctx.register_event_time_timer(window.max_timestamp())
            return result if element[1] == 2 else CONTINUE

    with harness(TEN, Once()) as windows:
        feed(windows, 1, 2, 3)
        windows.watermark(9)
        early = [[1, 2]] if result.is_fire() else []
        assert windows.output == [*early, [3] if result.is_purge() else [1, 2, 3]]


# --- evictors ------------------------------------------------------------------------------------------------------


def test_a_count_evictor_leaves_the_last_records() -> None:
    with harness(TEN, evictor=w.CountEvictor.of(2)) as windows:
        feed(windows, 1, 2, 3)
        windows.watermark(9)
        assert windows.output == [[2, 3]]
        assert windows.entries == {}


def test_an_evictor_after_the_function_takes_records_out_for_the_next_firing() -> None:
    with harness(TEN, w.CountTrigger.of(2), w.CountEvictor.of(1, do_evict_after=True)) as windows:
        feed(windows, 1, 2, 3, 4)
        assert windows.output == [[1, 2], [2, 3, 4]]


def test_a_time_evictor_looks_back_from_the_newest_record() -> None:
    with harness(TEN, evictor=w.TimeEvictor.of(3)) as windows:
        feed(windows, 1, 7, 4, 5)
        windows.watermark(9)
        assert windows.output == [[7, 5]]


def test_a_time_evictor_leaves_records_without_timestamps() -> None:
    with harness(w.GlobalWindows.create(), w.CountTrigger.of(2), w.TimeEvictor.of(3)) as windows:
        windows.push_all([("a", 1), ("a", 2)])
        assert windows.output == [[1, 2]]


def test_a_delta_evictor_leaves_what_is_near_the_last_record() -> None:
    evictor = w.DeltaEvictor.of(3, lambda old, new: abs(new[1] - old[1]))
    with harness(TEN, evictor=evictor) as windows:
        feed(windows, 1, 7, 4, 5)
        windows.watermark(9)
        assert windows.output == [[7, 4, 5]]


def test_own_evictors_see_time_and_window_before_and_after() -> None:
    seen: list[Any] = []

    class Half(w.Evictor):
        def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
            seen.append((size, window, evictor_context.get_current_watermark()))
            del elements[: size // 2]

        def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
            stamps = [element.get_timestamp() for element in elements]
            seen.append((stamps, evictor_context.get_current_processing_time()))
            elements.clear()

    with harness(TEN, evictor=Half(), lateness=5) as windows:
        feed(windows, 1, 2, 3, 4)
        windows.watermark(9)
        feed(windows, 5)
        assert windows.output == [[3, 4], [5]]
        assert seen[:2] == [(4, w.TimeWindow(0, 10), 9), ([3, 4], 0)]
