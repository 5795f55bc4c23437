"""The statements of the seeds' chapter on windows, one by one, and what Flink adds to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from millrace.common import Types
from millrace.common.serializer import TypeSerializer
from millrace.datastream import (
    AggregateFunction,
    AllWindowFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millrace.datastream import window as w
from millrace.runtime.windowing.operator import LATE_RECORDS
from millrace.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from millrace.testing import HarnessSnapshot, WindowHarness

LATE = OutputTag("late")
MAX = 2**63 - 1


class Contents(ProcessWindowFunction):
    """(key, start, end, records)."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, context.window().start, context.window().end, [value for _, value in elements]


class Listed(ProcessWindowFunction):
    """(key, records)."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, [value for _, value in elements]


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def add_up(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def harness(build: Any, **options: Any) -> WindowHarness:
    return WindowHarness(build, 0, key_type=Types.STRING(), **options)


def contents(assigner: Any) -> WindowHarness:
    return harness(lambda stream: stream.window(assigner).process(Contents()))


def feed(windows: WindowHarness, *stamps: int, key: str = "a") -> None:
    """Records whose value is their timestamp."""
    for stamp in stamps:
        windows.push((key, stamp), timestamp=stamp)


TEN = w.TumblingEventTimeWindows.of(10)


# --- assigners -----------------------------------------------------------------------------------------------------


def test_a_time_window_holds_its_start_and_not_its_end() -> None:
    with contents(TEN) as windows:
        feed(windows, 0, 9, 10)
        windows.watermark(9)
        assert windows.output == [("a", 0, 10, [0, 9])]


def test_a_window_fires_when_the_watermark_reaches_its_last_timestamp_and_not_before() -> None:
    with contents(TEN) as windows:
        feed(windows, 3)
        windows.watermark(8)
        assert windows.output == []
        windows.watermark(9)
        assert windows.records == [(("a", 0, 10, [3]), 9)]


def test_a_window_without_records_never_fires() -> None:
    with contents(TEN) as windows:
        feed(windows, 3, 35)
        windows.watermark(100)
        assert windows.output == [("a", 0, 10, [3]), ("a", 30, 40, [35])]


def test_windows_have_the_offset_that_they_are_given() -> None:
    with contents(w.TumblingEventTimeWindows.of(10, 3)) as windows:
        feed(windows, 2, 3)
        windows.watermark(100)
        assert windows.output == [("a", -7, 3, [2]), ("a", 3, 13, [3])]


def test_negative_timestamps_lie_in_windows_like_others() -> None:
    with contents(TEN) as windows:
        feed(windows, -1, -10, -11)
        windows.watermark(0)
        assert windows.output == [("a", -20, -10, [-11]), ("a", -10, 0, [-1, -10])]


def test_a_record_lies_in_every_sliding_window_around_it() -> None:
    with contents(w.SlidingEventTimeWindows.of(10, 5)) as windows:
        feed(windows, 7)
        windows.watermark(100)
        assert windows.output == [("a", 0, 10, [7]), ("a", 5, 15, [7])]


def test_with_a_slide_beyond_the_size_records_between_windows_are_dropped_and_are_not_late() -> None:
    with late_windows(0, assigner=w.SlidingEventTimeWindows.of(5, 10)) as windows:
        feed(windows, 4, 5, 9, 10)
        windows.watermark(100)
        assert windows.output == [("a", 0, 5, [4]), ("a", 10, 15, [10])]
        assert windows.side_output(LATE) == []


def test_a_session_ends_when_nothing_came_for_the_gap() -> None:
    with contents(w.EventTimeSessionWindows.with_gap(10)) as windows:
        feed(windows, 0, 5, 30)
        windows.watermark(14)
        assert windows.output == [("a", 0, 15, [0, 5])]
        windows.watermark(39)
        assert windows.output[1:] == [("a", 30, 40, [30])]


def test_sessions_that_touch_are_one() -> None:
    with contents(w.EventTimeSessionWindows.with_gap(10)) as windows:
        feed(windows, 0, 10)
        windows.watermark(100)
        assert windows.output == [("a", 0, 20, [0, 10])]


def test_a_record_between_two_sessions_makes_them_one() -> None:
    with contents(w.EventTimeSessionWindows.with_gap(10)) as windows:
        feed(windows, 0, 15)
        assert windows.event_time_timers == [("a", 9), ("a", 24)]
        feed(windows, 8)
        assert windows.event_time_timers == [("a", 24)]
        windows.watermark(100)
        assert windows.output == [("a", 0, 25, [0, 15, 8])]
        assert windows.entries == {}


def test_each_record_may_tell_its_own_gap() -> None:
    gaps = w.EventTimeSessionWindows.with_dynamic_gap(lambda record: record[1] + 1)
    with contents(gaps) as windows:
        feed(windows, 10, 3, 30)
        windows.watermark(100)
        assert windows.output == [("a", 3, 7, [3]), ("a", 10, 21, [10]), ("a", 30, 61, [30])]


def test_a_gap_that_is_not_positive_fails_on_the_record() -> None:
    with (
        contents(w.DynamicEventTimeSessionWindows.with_dynamic_gap(lambda record: 0)) as windows,
        pytest.raises(Exception, match="gap must be positive"),
    ):
        feed(windows, 10)


def test_processing_time_windows_hold_what_came_while_they_were_open() -> None:
    with contents(w.TumblingProcessingTimeWindows.of(10)) as windows:
        windows.push(("a", 1))
        windows.set_processing_time(8)
        windows.push(("a", 2))
        windows.set_processing_time(9)
        assert windows.records == [(("a", 0, 10, [1, 2]), 9)]
        assert windows.entries == {}


def test_processing_time_windows_slide() -> None:
    with contents(w.SlidingProcessingTimeWindows.of(10, 5)) as windows:
        windows.set_processing_time(6)
        windows.push(("a", 1))
        windows.set_processing_time(20)
        assert windows.output == [("a", 0, 10, [1]), ("a", 5, 15, [1])]
        assert windows.entries == {}


def test_processing_time_sessions_end_by_the_clock() -> None:
    with contents(w.ProcessingTimeSessionWindows.with_gap(10)) as windows:
        windows.push(("a", 1))
        windows.set_processing_time(9 - 1)
        windows.push(("a", 2))
        windows.set_processing_time(17)
        assert windows.output == [("a", 0, 18, [1, 2])]
        assert windows.entries == {}


def test_global_windows_never_fire_by_themselves() -> None:
    with harness(lambda stream: stream.window(w.GlobalWindows.create()).process(Listed())) as windows:
        feed(windows, 1, 2)
        windows.watermark(MAX)
        assert windows.output == []


def test_count_windows_fire_when_they_are_full_and_go() -> None:
    with harness(lambda stream: stream.count_window(2).process(Listed())) as windows:
        windows.push_all([("a", 1), ("b", 1), ("a", 2), ("a", 3)])
        assert windows.output == [("a", [1, 2])]
        assert windows.entries == {"window-contents": 2, "trigger-count": 2, "tumble-count-assigner": 2}


def test_count_windows_slide() -> None:
    with harness(lambda stream: stream.count_window(3, 2).process(Listed())) as windows:
        windows.push_all([("a", number) for number in range(8)])
        assert windows.output == [("a", [0, 1, 2]), ("a", [2, 3, 4]), ("a", [4, 5, 6])]


@dataclass(frozen=True)
class Parity(w.Window):
    """A window type of the program's own."""

    odd: bool

    def max_timestamp(self) -> int:
        return 100


class ParitySerializer(TypeSerializer[Parity]):
    def serialize(self, element: Parity, stream: Any) -> None:
        stream.write(b"o" if element.odd else b"e")

    def deserialize(self, stream: Any) -> Parity:
        return Parity(stream.read(1) == b"o")


class ByParity(w.WindowAssigner[Any, Parity]):
    """Each record in one window of all odd ones, or all even ones."""

    def __init__(self, serializer: Any) -> None:
        self._serializer = serializer

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Parity]:
        return [Parity(element[1] % 2 == 1)]

    def get_default_trigger(self, env: Any) -> Any:
        return w.EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return self._serializer

    def is_event_time(self) -> bool:
        return True


@pytest.mark.parametrize("serializer", [ParitySerializer(), None], ids=["own serializer", "pickled"])
def test_own_assigners_with_own_windows(serializer: Any) -> None:
    class Named(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield context.window(), len(elements)

    with harness(lambda stream: stream.window(ByParity(serializer)).process(Named())) as windows:
        feed(windows, 1, 2, 3)
        windows.end_epoch()
        windows.watermark(100)
        assert windows.output == [(Parity(True), 2), (Parity(False), 1)]
        assert windows.entries == {}


class Decades(w.MergingWindowAssigner[Any, w.TimeWindow]):
    """An own assigner whose windows merge when they lie in the same hundred."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[w.TimeWindow]:
        return [w.TimeWindow(timestamp, timestamp + 1)]

    def merge_windows(self, windows: Iterable[w.TimeWindow], callback: Any) -> None:
        hundreds: dict[int, list[w.TimeWindow]] = {}
        for window in windows:
            hundreds.setdefault(window.start // 100, []).append(window)
        for parts in hundreds.values():
            if len(parts) > 1:
                whole = w.TimeWindow(min(part.start for part in parts), max(part.end for part in parts))
                callback.merge(parts, whole)

    def get_default_trigger(self, env: Any) -> Any:
        return w.EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return w.TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def test_own_assigners_may_merge() -> None:
    with contents(Decades()) as windows:
        feed(windows, 10, 90, 150, 40)
        windows.watermark(500)
        assert windows.output == [("a", 10, 91, [10, 90, 40]), ("a", 150, 151, [150])]
        assert windows.entries == {}


# --- functions -----------------------------------------------------------------------------------------------------


def test_reduce_keeps_one_value_for_each_window() -> None:
    with harness(lambda stream: stream.window(TEN).reduce(add_up)) as windows:
        feed(windows, 1, 2, 3)
        windows.end_epoch()
        assert windows.entries == {"window-contents": 1, "event timers": 1}
        windows.watermark(9)
        assert windows.output == [("a", 6)]


def test_a_reduce_function_object_is_opened_and_closed() -> None:
    calls: list[str] = []

    class Sum(ReduceFunction):
        def open(self, runtime_context: Any) -> None:
            calls.append("open")

        def close(self) -> None:
            calls.append("close")

        def reduce(self, value1: Any, value2: Any) -> Any:
            return add_up(value1, value2)

    with harness(lambda stream: stream.window(TEN).reduce(Sum(), Contents())) as windows:
        feed(windows, 1, 2)
        windows.watermark(9)
        assert windows.output == [("a", 0, 10, [3])]
    assert calls == ["open", "close"]


def test_aggregate_keeps_an_accumulator_and_emits_its_result() -> None:
    with harness(lambda stream: stream.window(TEN).aggregate(Average())) as windows:
        feed(windows, 1, 2, 6)
        windows.watermark(9)
        assert windows.output == [3.0]


def test_an_incremental_function_hands_its_one_result_to_the_process_function() -> None:
    class WithWindow(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            [average] = elements
            yield key, context.window().end, average

    with harness(lambda stream: stream.window(TEN).aggregate(Average(), WithWindow())) as windows:
        feed(windows, 1, 3)
        windows.watermark(9)
        assert windows.output == [("a", 10, 2.0)]


def test_an_incremental_function_may_be_followed_by_a_window_function() -> None:
    class WithWindow(WindowFunction):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            return [(key, window.end, *inputs)]

    with harness(lambda stream: stream.window(TEN).reduce(add_up, WithWindow())) as windows:
        feed(windows, 1, 3)
        windows.watermark(9)
        assert windows.output == [("a", 10, ("a", 4))]


def test_apply_takes_a_window_function_or_a_callable() -> None:
    with harness(lambda stream: stream.window(TEN).apply(lambda key, window, inputs: [len(inputs)])) as windows:
        feed(windows, 1, 3)
        windows.watermark(9)
        assert windows.output == [2]


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("sum", ("a", 6, "x")),
        ("min", ("a", 1, "x")),
        ("max", ("a", 3, "x")),
        ("min_by", ("a", 1, "y")),
        ("max_by", ("a", 3, "z")),
    ],
)
def test_windows_have_the_built_in_aggregations(operation: str, result: Any) -> None:
    with harness(lambda stream: getattr(stream.window(TEN), operation)(1)) as windows:
        for value, name in ((2, "x"), (1, "y"), (3, "z")):
            windows.push(("a", value, name), timestamp=value)
        windows.watermark(9)
        assert windows.output == [result]


def test_windows_over_the_whole_stream_see_all_keys_in_one_subtask() -> None:
    class Count(AllWindowFunction):
        def apply(self, window: Any, inputs: Any) -> Any:
            return [(window.start, len(inputs))]

    with WindowHarness(lambda stream: stream.window_all(TEN).apply(Count())) as windows:
        for key in "abc":
            windows.push((key, 1), timestamp=1)
        windows.watermark(9)
        assert windows.output == [(0, 3)]
        assert windows.entries == {}


def test_a_process_function_over_the_whole_stream() -> None:
    class Count(ProcessAllWindowFunction):
        def process(self, context: Any, elements: Any) -> Any:
            yield context.window().start, context.current_watermark(), len(elements)

    with WindowHarness(lambda stream: stream.time_window_all(10).process(Count())) as windows:
        windows.push_all(["x", "y"], [1, 2])
        windows.watermark(9)
        assert windows.output == [(0, 9, 2)]


def test_count_windows_over_the_whole_stream() -> None:
    with WindowHarness(lambda stream: stream.count_window_all(2).reduce(lambda one, other: one + other)) as windows:
        windows.push_all([1, 2, 3, 4, 5])
        assert windows.output == [3, 7]


FIRED = ValueStateDescriptor("fired", Types.LONG())
TOTAL = ValueStateDescriptor("total", Types.LONG())
SIDE = OutputTag("side")


class Stateful(ProcessWindowFunction):
    """Counts how often this window, and how often any window of the key, has fired."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for store, descriptor in ((context.window_state(), FIRED), (context.global_state(), TOTAL)):
            state = store.get_state(descriptor)
            state.update((state.value() or 0) + 1)
        fired = context.window_state().get_state(FIRED).value()
        context.output(SIDE, "by output")
        yield SIDE, "by yield"
        yield context.window().start, fired, context.global_state().get_state(TOTAL).value()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(FIRED).clear()


def test_per_window_state_lives_from_firing_to_firing_and_global_state_from_window_to_window() -> None:
    with harness(lambda stream: stream.window(TEN).allowed_lateness(5).process(Stateful())) as windows:
        feed(windows, 1)
        windows.watermark(9)
        feed(windows, 2, 11)
        windows.watermark(100)
        assert windows.output == [(0, 1, 1), (0, 2, 2), (10, 1, 3)]
        assert windows.side_records(SIDE)[:2] == [("by output", 9), ("by yield", 9)]
        assert windows.entries == {"total": 1}


def test_all_kinds_of_per_window_state() -> None:
    listed = ListStateDescriptor("list", Types.LONG())
    mapped = MapStateDescriptor("map", Types.STRING(), Types.LONG())
    reduced = ReducingStateDescriptor("reduced", lambda one, other: one + other, Types.LONG())

    class Everything(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            state = context.window_state()
            state.get_list_state(listed).add(len(elements))
            state.get_map_state(mapped).put("n", len(elements))
            state.get_reducing_state(reduced).add(len(elements))
            yield list(state.get_list_state(listed)), state.get_map_state(mapped).get("n")
            yield state.get_reducing_state(reduced).get()

        def clear(self, context: Any) -> None:
            for descriptor in (listed, mapped, reduced):
                context.window_state().get_state(descriptor).clear()

    with harness(lambda stream: stream.window(TEN).allowed_lateness(5).process(Everything())) as windows:
        feed(windows, 1)
        windows.watermark(9)
        windows.end_epoch()
        feed(windows, 2)
        assert windows.output == [([1], 1), 1, ([1, 2], 2), 3]
        windows.watermark(100)
        assert windows.entries == {}


def test_windows_that_merge_have_no_state_of_their_own() -> None:
    with harness(lambda stream: stream.window(w.EventTimeSessionWindows.with_gap(5)).process(Stateful())) as windows:
        feed(windows, 1)
        with pytest.raises(Exception, match="Per-window state is not allowed when using merging windows"):
            windows.watermark(100)


# --- late records --------------------------------------------------------------------------------------------------


def late_windows(lateness: int, tag: bool = True, trigger: Any = None, assigner: Any = TEN) -> WindowHarness:
    def build(stream: Any) -> Any:
        made = stream.window(assigner).allowed_lateness(lateness)
        if tag:
            made.side_output_late_data(LATE)
        if trigger is not None:
            made.trigger(trigger)
        return made.process(Contents())

    return harness(build)


def test_a_late_record_is_dropped_and_counted() -> None:
    with late_windows(0, tag=False) as windows:
        feed(windows, 3)
        windows.watermark(9)
        feed(windows, 4, 5, 11)
        assert windows.output == [("a", 0, 10, [3])]
        assert windows.metrics[LATE_RECORDS] == 2


def test_a_late_record_goes_to_the_side_output_with_its_timestamp() -> None:
    with late_windows(0) as windows:
        windows.watermark(9)
        feed(windows, 4)
        assert windows.side_records(LATE) == [(("a", 4), 4)]
        assert windows.metrics[LATE_RECORDS] == 0


def test_a_late_record_within_the_allowed_lateness_fires_the_window_again_at_once() -> None:
    with late_windows(5) as windows:
        feed(windows, 3)
        windows.watermark(9)
        feed(windows, 4)
        assert windows.output == [("a", 0, 10, [3]), ("a", 0, 10, [3, 4])]


def test_late_element_after_allowed_lateness_goes_to_the_side_output() -> None:
    with late_windows(5) as windows:
        feed(windows, 3)
        windows.watermark(13)
        feed(windows, 4)
        windows.watermark(14)
        feed(windows, 5)
        assert windows.output == [("a", 0, 10, [3]), ("a", 0, 10, [3, 4])]
        assert windows.side_output(LATE) == [("a", 5)]


def test_a_window_is_cleaned_up_at_its_end_plus_the_allowed_lateness() -> None:
    with late_windows(5) as windows:
        feed(windows, 3)
        assert windows.event_time_timers == [("a", 9), ("a", 14)]
        windows.watermark(13)
        assert windows.entries == {"window-contents": 1, "event timers": 1}
        windows.watermark(14)
        assert windows.entries == {}


def test_a_lateness_beyond_the_end_of_time_keeps_windows_until_then() -> None:
    with late_windows(MAX) as windows:
        feed(windows, 3)
        windows.watermark(MAX - 1)
        feed(windows, 4)
        assert windows.output == [("a", 0, 10, [3]), ("a", 0, 10, [3, 4])]


def test_a_purging_trigger_leaves_only_what_came_since() -> None:
    with late_windows(5, trigger=w.PurgingTrigger.of(w.EventTimeTrigger.create())) as windows:
        feed(windows, 3)
        windows.watermark(9)
        feed(windows, 4)
        assert windows.output == [("a", 0, 10, [3]), ("a", 0, 10, [4])]


def test_a_late_record_that_reaches_a_session_in_flight_is_not_late() -> None:
    with late_windows(0, assigner=w.EventTimeSessionWindows.with_gap(10)) as windows:
        feed(windows, 8)
        windows.watermark(12)
        feed(windows, 0, -5)
        windows.watermark(17)
        assert windows.output == [("a", -5, 18, [8, 0, -5])]
        feed(windows, 1)
        assert windows.side_output(LATE) == [("a", 1)]
        assert windows.entries == {}


def test_a_record_without_a_timestamp_is_refused_by_windows_of_event_time() -> None:
    for build in (lambda stream: stream.window(TEN).process(Contents()), lambda stream: stream.window(TEN).sum(1)):
        with harness(build) as windows, pytest.raises(Exception, match=r"Long\.MIN_VALUE timestamp"):
            windows.push(("a", 1))


# --- life over epochs ----------------------------------------------------------------------------------------------

KINDS = {
    "listed": lambda stream: stream.window(TEN).process(Contents()),
    "reduced": lambda stream: stream.window(TEN).reduce(add_up, Contents()),
    "sliding": lambda stream: stream.window(w.SlidingEventTimeWindows.of(10, 5)).reduce(add_up, Contents()),
    "session": lambda stream: stream.window(w.EventTimeSessionWindows.with_gap(4)).reduce(add_up, Contents()),
    "listed session": lambda stream: stream.window(w.EventTimeSessionWindows.with_gap(4)).process(Contents()),
    "evicted": lambda stream: stream.window(TEN).evictor(w.CountEvictor.of(2)).process(Contents()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_windows_go_on_from_a_snapshot_as_if_nothing_had_been(kind: str) -> None:
    def run(cut: bool) -> list[Any]:
        found: list[Any] = []
        snapshot: HarnessSnapshot | None = None
        for stamps in ((1, 2), (4, 11), (9, 3, 13), (14,)):
            with harness(KINDS[kind], snapshot=snapshot) as windows:
                feed(windows, *stamps)
                windows.watermark(max(stamps) - 5)
                snapshot = windows.snapshot()
                found += windows.records
        with harness(KINDS[kind], snapshot=snapshot) as windows:
            windows.watermark(100)
            assert windows.entries == {}
            return found + windows.records

    with harness(KINDS[kind]) as whole:
        for stamps in ((1, 2), (4, 11), (9, 3, 13), (14,)):
            feed(whole, *stamps)
            whole.watermark(max(stamps) - 5)
        whole.watermark(100)
        assert run(cut=True) == whole.records


@pytest.mark.parametrize("kind", KINDS)
def test_no_window_needs_pickle_in_state(kind: str) -> None:
    record = Types.TUPLE([Types.STRING(), Types.LONG()])
    with harness(KINDS[kind], input_types=(record,)) as windows:
        feed(windows, 1, 6)
        windows.end_epoch()
        for table in (*windows._backends.keyed.tables(), *windows._backends.timers.tables()):
            for role, codec in table.codecs.items():
                kept = codec.type_info
                assert role in {"time", "seq", "count"} or (kept is not None and not kept.uses_pickle()), table.name


def test_batch_mode_gives_each_keys_windows_once_in_the_order_of_time() -> None:
    for build in KINDS.values():
        with harness(build, batch=True) as windows:
            feed(windows, 12, 3, 1)
            feed(windows, 25, 4, key="b")
            windows.end_of_input()
            found = [(key, start) for key, start, _, _ in windows.output]
            assert {key for key, _ in found} == {"a", "b"}
            assert found == sorted(set(found))
            assert windows.entries == {}
