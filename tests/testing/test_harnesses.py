"""The harnesses for users' own functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millrace.testing
from millrace.common import ProgramError, Types
from millrace.common.time import MAX_WATERMARK
from millrace.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
)
from millrace.datastream.accumulators import IntCounter
from millrace.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from millrace.testing import (
    BroadcastHarness,
    KeyedBroadcastHarness,
    KeyedOneInputHarness,
    KeyedTwoInputHarness,
    OneInputHarness,
    TwoInputHarness,
)

TOTAL = ValueStateDescriptor("total", Types.LONG())
RULES = MapStateDescriptor("rules")
LATE = OutputTag("late", Types.LONG())


class Total(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()


def total(**options: Any) -> KeyedOneInputHarness:
    return KeyedOneInputHarness(Total(), key_selector=lambda value: value[0], **options)


# --- one input --------------------------------------------------------------------------------------------------


def test_a_bare_callable_is_a_map_unless_it_is_said_otherwise() -> None:
    with OneInputHarness(lambda value: value > 1) as harness:
        harness.push_all([1, 2])
        assert harness.output == [False, True]
    with OneInputHarness(lambda value: value > 1, method="filter") as harness:
        harness.push_all([1, 2])
        assert harness.output == [2]
    with OneInputHarness(lambda value: [value] * value, method="flat_map") as harness:
        harness.push_all([1, 2])
        assert harness.output == [1, 2, 2]


def test_reductions_of_a_keyed_stream() -> None:
    with KeyedOneInputHarness(lambda one, other: one + other, lambda value: value % 2, method="reduce") as harness:
        harness.push_all([1, 2, 3, 4])
        assert harness.output == [1, 2, 4, 6]
    with KeyedOneInputHarness(1, 0, method="sum") as harness:
        harness.push_all([("a", 1), ("a", 2)])
        assert harness.output == [("a", 1), ("a", 3)]


def test_a_sink_function_is_given_what_is_pushed() -> None:
    seen: list[Any] = []

    class Keeps(SinkFunction):
        def invoke(self, value: Any, context: Any) -> None:
            seen.append((value, context.timestamp(), context.current_watermark()))

    with OneInputHarness(Keeps()) as harness:
        harness.watermark(3)
        harness.push("a", timestamp=7)
    assert seen == [("a", 7, 3)]


def test_take_gives_what_is_new() -> None:
    with OneInputHarness(lambda value: value + 1) as harness:
        harness.push(1)
        assert harness.take() == [2]
        harness.push(2, timestamp=9)
        assert (harness.output, harness.records) == ([3], [(3, 9)])


def test_side_outputs_by_tag_or_name() -> None:
    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            if value < 0:
                yield LATE, value
                ctx.output(OutputTag("other"), "seen")
            else:
                yield value

    with OneInputHarness(Split()) as harness:
        harness.push_all([1, -1, 2], [10, 20, 30])
        assert harness.output == [1, 2]
        assert harness.side_output(LATE) == harness.side_output("late") == [-1]
        assert harness.side_records("other") == [("seen", 20)]
        assert harness.side_output("never") == []


def test_a_side_output_of_the_wrong_type_fails() -> None:
    class Wrong(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield LATE, "no number"

    with OneInputHarness(Wrong()) as harness, pytest.raises(Exception, match="no number"):
        harness.push(1)


def test_output_types_are_applied() -> None:
    with OneInputHarness(lambda value: value, output_type=Types.TUPLE([Types.LONG(), Types.STRING()])) as harness:
        harness.push([1, "a"])
        assert harness.output == [(1, "a")]


def test_the_runtime_context_tells_what_the_harness_was_told() -> None:
    class Asks(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.ctx = runtime_context

        def map(self, value: Any) -> Any:
            ctx = self.ctx
            return (
                ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks(),
                ctx.get_job_parameter("mode"), ctx.get_broadcast_variable("rates"), ctx.get_cached_file("model"),
            )  # fmt: skip

    with OneInputHarness(
        Asks(), subtask=1, parallelism=3, parameters={"mode": "x"}, broadcast_variables={"rates": [1]},
        cached_files={"model": "/m"},
    ) as harness:  # fmt: skip
        harness.push(0)
        assert harness.output == [(1, 3, "x", [1], "/m")]


def test_metrics_and_accumulators_add_up_over_epochs() -> None:
    class Counts(MapFunction):
        def open(self, runtime_context: Any) -> None:
            group = runtime_context.get_metrics_group().add_group("mine")
            self.counter, self.sizes = group.counter("seen"), group.distribution("sizes")
            group.gauge("level", lambda: 42)
            self.total = IntCounter()
            runtime_context.add_accumulator("total", self.total)

        def map(self, value: int) -> int:
            self.counter.inc()
            self.sizes.update(value)
            self.total.add(value)
            return value

    with OneInputHarness(Counts()) as harness:
        harness.push_all([1, 5])
        assert (harness.metrics["mine.seen"], harness.accumulators) == (2, {"total": 6})
        harness.end_epoch()
        harness.push(3)
        expected = {"mine.seen": 3, "mine.sizes": (3, 9, 1, 5), "mine.level": 42}
        assert harness.metrics == harness.metrics == expected
        assert harness.accumulators == {"total": 9}


# --- keyed ------------------------------------------------------------------------------------------------------


def test_state_can_be_read_by_key() -> None:
    with total() as harness:
        harness.push_all([("a", 1), ("b", 2), ("a", 3)])
        assert (harness.state(TOTAL, "a"), harness.state(TOTAL, "b"), harness.state(TOTAL, "c")) == (4, 2, None)
        assert harness.keys(TOTAL) == ["a", "b"]
        harness.push(("a", 1))
        assert harness.output[-1] == ("a", 5)


class Average:
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[0] / accumulator[1])

    def merge(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1]


def test_every_kind_of_state_is_read_as_a_plain_value() -> None:
    listed, mapped = ListStateDescriptor("list"), MapStateDescriptor("map")
    reduced, averaged = ReducingStateDescriptor("sum", lambda a, b: a + b), AggregatingStateDescriptor("avg", Average())

    class All(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.list, self.map = runtime_context.get_list_state(listed), runtime_context.get_map_state(mapped)
            self.sum = runtime_context.get_reducing_state(reduced)
            self.average = runtime_context.get_aggregating_state(averaged)

        def process_element(self, value: int, ctx: Any) -> None:
            self.list.add(value)
            self.map.put(value, -value)
            self.sum.add(value)
            self.average.add(value)

    with KeyedOneInputHarness(All(), key_selector=lambda value: "k") as harness:
        assert [harness.state(each, "k") for each in (listed, mapped, reduced, averaged)] == [[], {}, None, None]
        harness.push_all([1, 3])
        found = [harness.state(each, "k") for each in (listed, mapped, reduced, averaged)]
        assert found == [[1, 3], {1: -1, 3: -3}, 4, 2.0]


def test_a_value_that_does_not_fit_its_states_type_is_found_when_the_epoch_ends() -> None:
    class Wrong(Total):
        def process_element(self, value: Any, ctx: Any) -> None:
            self.total.update("no number")

    with pytest.raises(Exception, match="no number"), KeyedOneInputHarness(Wrong(), key_selector=0) as harness:
        harness.push(("a", 1))


def test_a_key_that_cannot_be_one_is_refused_as_on_spark() -> None:
    with KeyedOneInputHarness(Total(), key_selector=lambda value: object()) as harness, pytest.raises(
        Exception, match="object"
    ):
        harness.push(("a", 1))


def test_keyed_state_without_a_key_says_what_to_do() -> None:
    class Asks(MapFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_state(TOTAL)

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(ProgramError, match="key_by"):
        OneInputHarness(Asks()).open()


# --- two inputs, broadcast ----------------------------------------------------------------------------------------


def test_the_clock_of_two_inputs_is_their_minimum() -> None:
    class Tell(CoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value, ctx.timer_service().current_watermark()

        def process_element2(self, value: Any, ctx: Any) -> None:
            return None

    with TwoInputHarness(Tell()) as harness:
        harness.watermark1(10)
        assert harness.current_watermark is None
        harness.watermark2(5)
        harness.push1("a")
        harness.idle2()
        harness.push1("b")
        assert harness.output == [("a", 5), ("b", 10)]
        assert harness.watermarks == [5, 10]
        harness.end_of_input()
        assert harness.current_watermark == MAX_WATERMARK


def test_two_keyed_inputs_share_state_and_timers() -> None:
    class Join(KeyedCoProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

        def process_element1(self, value: Any, ctx: Any) -> None:
            self.seen.add(value)
            ctx.timer_service().register_event_time_timer(10)

        process_element2 = process_element1

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), list(self.seen.get())

    with KeyedTwoInputHarness(Join(), lambda value: value[0], "key") as harness:
        harness.push1(("a", 1))
        harness.push2({"key": "a"})
        harness.watermark1(10)
        assert harness.output == []
        harness.watermark2(10)
        assert harness.output == [("a", [("a", 1), {"key": "a"}])]


def test_a_co_map_of_two_keyed_inputs_may_use_state() -> None:
    class Last(CoMapFunction):
        def open(self, runtime_context: Any) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last"))

        def map1(self, value: Any) -> Any:
            before = self.last.value()
            self.last.update(value)
            return before

        map2 = map1

    with KeyedTwoInputHarness(Last(), 0, 0) as harness:
        harness.push1(("a", 1))
        harness.push2(("a", 2))
        harness.push2(("b", 3))
        assert harness.output == [None, ("a", 1), None]


class Limit(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put("x", 1)
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(MapStateDescriptor("unknown"))


def test_broadcast_state_is_read_only_on_the_other_side() -> None:
    with BroadcastHarness(Limit(), RULES) as harness, pytest.raises(ProgramError, match="process_broadcast_element"):
        harness.push(1)


def test_an_unknown_broadcast_state_is_named() -> None:
    with BroadcastHarness(Limit(), RULES) as harness, pytest.raises(ProgramError, match="unknown"):
        harness.push_broadcast(1)


def test_the_broadcast_side_can_reach_every_key() -> None:
    class Reset(KeyedBroadcastProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.total = runtime_context.get_state(TOTAL)

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.total.update((self.total.value() or 0) + value[1])
            factor = ctx.get_broadcast_state(RULES).get("factor") or 1
            yield value[0], self.total.value() * factor

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(RULES).put("factor", value)
            ctx.apply_to_keyed_state(TOTAL, lambda key, state: state.update(state.value() + 100))

    def make(**options: Any) -> KeyedBroadcastHarness:
        return KeyedBroadcastHarness(Reset(), lambda value: value[0], RULES, **options)

    with make() as harness:
        harness.push_all([("a", 1), ("b", 2)])
        harness.push_broadcast(10)
        assert (harness.state(TOTAL, "a"), harness.state(TOTAL, "b")) == (101, 102)
        snapshot = harness.snapshot()
    with make(snapshot=snapshot) as harness:
        assert harness.broadcast_state(RULES) == {"factor": 10}
        harness.push(("a", 0))
        assert harness.output == [("a", 1010)]


# --- snapshots, opening and closing -------------------------------------------------------------------------------


def test_a_snapshot_restores_state_and_clocks() -> None:
    with total(processing_time=500) as harness:
        harness.push_all([("a", 1), ("b", 2)])
        harness.watermark(77)
        snapshot = harness.snapshot()
        harness.push(("a", 100))
        assert harness.output[-1] == ("a", 101)
    for _ in range(2):  # A snapshot can be used again.
        with total(snapshot=snapshot) as harness:
            assert (harness.processing_time, harness.current_watermark) == (500, 77)
            harness.push(("a", 10))
            assert harness.output == [("a", 11)]
            harness.end_epoch()


def test_a_checkpointed_function_is_restored_before_it_is_opened() -> None:
    class Field(CheckpointedFunction, MapFunction):
        def initialize_state(self, context: Any) -> None:
            self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("field"))
            self.seen, self.restored = list(self.state.get()), context.is_restored()

        def open(self, runtime_context: Any) -> None:
            self.at_open = list(self.seen)

        def map(self, value: Any) -> Any:
            self.seen.append(value)
            return self.restored, self.at_open

        def snapshot_state(self, context: Any) -> None:
            self.state.update(self.seen)

    with OneInputHarness(Field()) as harness:
        harness.push(1)
        assert harness.operator_state(ListStateDescriptor("field")) == []
        snapshot = harness.snapshot()
        assert harness.operator_state(ListStateDescriptor("field")) == [1]
    with OneInputHarness(Field(), snapshot=snapshot) as harness:
        harness.push(2)
        assert harness.output == [(True, [1])]


class Closes(MapFunction):
    def __init__(self, fails: bool = False) -> None:
        self.calls: list[str] = []
        self.fails = fails

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def map(self, value: Any) -> Any:
        return 1 // value

    def close(self) -> None:
        self.calls.append("close")
        if self.fails:
            raise OSError("in close")


def test_the_function_under_test_is_the_very_object_that_was_given() -> None:
    function = Closes()
    with OneInputHarness(function) as harness:
        assert function.calls == ["open"]
        harness.push(1)
    assert function.calls == ["open", "close"]


def test_the_function_is_closed_after_a_failure_whose_exception_stays() -> None:
    function = Closes(fails=True)
    with pytest.raises(ZeroDivisionError), OneInputHarness(function) as harness:
        harness.push(0)
    assert function.calls == ["open", "close"]


def test_an_error_in_close_comes_out() -> None:
    with pytest.raises(OSError, match="in close"), OneInputHarness(Closes(fails=True)):
        pass


def test_a_harness_that_is_not_open_says_so() -> None:
    with pytest.raises(ProgramError, match="not open"):
        OneInputHarness(Closes()).push(1)


def test_processing_time_goes_forward() -> None:
    with total(processing_time=10) as harness, pytest.raises(ValueError, match="forward"):
        harness.set_processing_time(9)


def test_a_function_of_another_shape_is_refused() -> None:
    with pytest.raises(ProgramError, match="key_by"):
        OneInputHarness(Total())
    with pytest.raises(ProgramError, match="none of the methods"):
        OneInputHarness(object())
    with pytest.raises(ProgramError, match="none of the methods"):
        TwoInputHarness(lambda value: value)


def test_public_names_are_sorted_and_there() -> None:
    names = millrace.testing.__all__
    assert names == sorted(names)
    assert all(getattr(millrace.testing, name).__name__ == name for name in names)
    with pytest.raises(AttributeError):
        millrace.testing.nothing  # noqa: B018
