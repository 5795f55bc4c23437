"""Timers of event time and of processing time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.common import ProgramError
from millrace.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, TimeDomain
from millrace.testing import KeyedOneInputHarness, OneInputHarness

Setter = Callable[[Any, Any], None]


class Timers(KeyedProcessFunction):
    """Sets timers as `on_record` says, and tells what fires."""

    def __init__(self, on_record: Setter, on_timer: Setter | None = None) -> None:
        self._on_record = on_record
        self._on_timer = on_timer

    def process_element(self, value: Any, ctx: Any) -> None:
        self._on_record(value, ctx.timer_service())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self._on_timer is not None:
            self._on_timer(timestamp, ctx.timer_service())
        yield ctx.get_current_key(), timestamp


def event(value: Any, timers: Any) -> None:
    timers.register_event_time_timer(value[1])


def processing(value: Any, timers: Any) -> None:
    timers.register_processing_time_timer(value[1])


def harness(on_record: Setter, on_timer: Setter | None = None, **options: Any) -> KeyedOneInputHarness:
    return KeyedOneInputHarness(Timers(on_record, on_timer), key_selector=lambda value: value[0], **options)


def test_a_key_has_one_timer_for_each_timestamp() -> None:
    with harness(event) as timers:
        timers.push_all([("a", 10), ("a", 10), ("b", 10), ("a", 20)])
        assert timers.event_time_timers == [("a", 10), ("b", 10), ("a", 20)]
        timers.watermark(20)
        assert timers.output == [("a", 10), ("b", 10), ("a", 20)]


def test_timers_fire_in_the_order_of_their_time_and_then_of_their_registration() -> None:
    with harness(event) as timers:
        timers.push_all([("z", 30), ("b", 10), ("a", 10), ("c", 20)])
        timers.watermark(100)
        assert timers.output == [("b", 10), ("a", 10), ("c", 20), ("z", 30)]


def test_a_timer_fires_when_the_watermark_reaches_it_and_not_before() -> None:
    with harness(event) as timers:
        timers.push(("a", 10))
        timers.watermark(9)
        assert timers.output == []
        timers.watermark(10)
        assert timers.records == [(("a", 10), 10)]
        assert timers.event_time_timers == []


def test_the_watermark_goes_on_behind_what_the_timers_emit() -> None:
    class Order:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def emit(self, batch: Any) -> None:
            self.seen += batch.values

        def watermark(self, watermark: int) -> None:
            self.seen.append(watermark)

    order = Order()
    with harness(event) as timers:
        timers._subtask.operators[timers._last].output.main.append(order)  # type: ignore[arg-type]
        timers.push(("a", 10))
        timers.watermark(10)
    assert order.seen == [("a", 10), 10]


def test_a_deleted_timer_does_not_fire() -> None:
    def on_record(value: Any, timers: Any) -> None:
        timers.delete_event_time_timer(value[1]) if value[2:] else timers.register_event_time_timer(value[1])

    with harness(on_record) as timers:
        timers.push_all([("a", 10), ("b", 10), ("a", 20), ("a", 10, "delete"), ("b", 99, "delete")])
        timers.watermark(100)
        assert timers.output == [("b", 10), ("a", 20)]


def test_a_timer_set_in_on_timer_fires_with_the_same_watermark_if_it_is_due() -> None:
    def again(timestamp: int, timers: Any) -> None:
        timers.register_event_time_timer(timestamp + 10)

    with harness(event, again) as timers:
        timers.push(("a", 10))
        timers.watermark(35)
        assert timers.output == [("a", 10), ("a", 20), ("a", 30)]
        assert timers.event_time_timers == [("a", 40)]


def test_on_timer_can_delete_another_timer_that_is_due() -> None:
    def drop_next(timestamp: int, timers: Any) -> None:
        timers.delete_event_time_timer(timestamp + 10)

    with harness(event, drop_next) as timers:
        timers.push_all([("a", 10), ("a", 20), ("a", 30), ("b", 20)])
        timers.watermark(100)
        assert timers.output == [("a", 10), ("b", 20), ("a", 30)]


def test_a_timer_for_a_time_that_is_over_fires_with_the_next_watermark() -> None:
    with harness(event) as timers:
        timers.watermark(50)
        timers.push(("a", 10))
        assert timers.output == []
        timers.watermark(51)
        assert timers.output == [("a", 10)]


def test_the_timers_of_a_silent_key_fire_when_another_keys_records_move_time() -> None:
    with harness(event) as timers:
        timers.push(("silent", 10))
        for _ in range(3):
            timers.end_epoch()
        timers.push(("loud", 1000))
        timers.watermark(10)
        assert timers.output == [("silent", 10)]


def test_timers_survive_into_another_process() -> None:
    with harness(event) as timers:
        timers.push_all([("a", 10), ("b", 5)])
        snapshot = timers.snapshot()
        timers.watermark(100)
        assert timers.output == [("b", 5), ("a", 10)]
    with harness(event, snapshot=snapshot) as timers:
        assert timers.event_time_timers == [("b", 5), ("a", 10)]
        timers.push(("c", 5))
        timers.watermark(7)
        assert timers.output == [("b", 5), ("c", 5)]


def test_a_timer_that_has_fired_is_gone_in_the_next_process() -> None:
    with harness(event) as timers:
        timers.push_all([("a", 10), ("a", 20)])
        timers.watermark(10)
        snapshot = timers.snapshot()
    with harness(event, snapshot=snapshot) as timers:
        timers.watermark(100)
        assert timers.output == [("a", 20)]


def test_processing_time_timers_fire_when_an_epoch_begins() -> None:
    with harness(processing, processing_time=1000) as timers:
        timers.push_all([("b", 1500), ("a", 1200), ("c", 900)])
        assert timers.output == []
        assert timers.processing_time_timers == [("c", 900), ("a", 1200), ("b", 1500)]
        timers.advance_processing_time(0)
        assert timers.take() == [("c", 900)]
        timers.advance_processing_time(499)
        assert timers.take() == [("a", 1200)]
        timers.set_processing_time(1500)
        assert timers.records == [(("b", 1500), None)]


def test_processing_time_stands_still_within_an_epoch() -> None:
    class Now(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
            yield ctx.timer_service().current_processing_time()

    with KeyedOneInputHarness(Now(), key_selector=lambda value: value, processing_time=77) as now:
        now.push_all([1, 2])
        now.set_processing_time(90)
        now.push(3)
        assert now.output == [77, 77, 90]


def test_the_two_kinds_of_timers_do_not_mix() -> None:
    def both(value: Any, timers: Any) -> None:
        timers.register_event_time_timer(value[1])
        timers.register_processing_time_timer(value[1])
        timers.delete_processing_time_timer(99)

    class Domains(Timers):
        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.time_domain(), timestamp, ctx.timestamp()

    with KeyedOneInputHarness(Domains(both), key_selector=lambda value: value[0]) as timers:
        timers.push(("a", 10))
        timers.watermark(10)
        timers.set_processing_time(10)
        assert timers.output == [(TimeDomain.EVENT_TIME, 10, 10), (TimeDomain.PROCESSING_TIME, 10, 10)]


def test_on_timer_sees_the_watermark_that_made_it_fire_and_may_use_side_outputs() -> None:
    late = OutputTag("late")

    class Tell(Timers):
        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.timer_service().current_watermark()
            yield late, timestamp

    with KeyedOneInputHarness(Tell(event), key_selector=lambda value: value[0]) as timers:
        timers.push(("a", 10))
        timers.watermark(15)
        assert timers.output == [15]
        assert timers.side_records(late) == [(10, 10)]


def test_an_error_in_on_timer_comes_out_whatever_the_policy_for_records_is() -> None:
    def fails(timestamp: int, timers: Any) -> None:
        raise LookupError("in on_timer")

    with harness(event, fails, on_error="skip") as timers:
        timers.push(("a", 10))
        with pytest.raises(LookupError, match="in on_timer"):
            timers.watermark(10)


@pytest.mark.parametrize("timestamp", [1.0, "1", None, True])
def test_a_timestamp_that_is_no_int_is_refused(timestamp: Any) -> None:
    with harness(event) as timers, pytest.raises(ProgramError, match="int of milliseconds"):
        timers.push(("a", timestamp))


def test_a_stream_without_keys_has_no_timers() -> None:
    class Sets(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(1)

    with OneInputHarness(Sets()) as timers, pytest.raises(ProgramError, match="key_by"):
        timers.push(1)


def test_in_batch_mode_a_keys_timers_fire_when_its_records_are_over() -> None:
    class Both(Timers):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            ctx.timer_service().register_event_time_timer(value[1])
            ctx.timer_service().register_processing_time_timer(value[1])
            yield "record", value[0]

    with KeyedOneInputHarness(Both(event), key_selector=lambda value: value[0], batch=True) as timers:
        timers.push_all([("a", 10), ("b", 10), ("a", 5)], [1, 2, 3])
        assert timers.output == []
        timers.end_of_input()
        assert timers.output == [
            ("record", "a"), ("record", "a"), ("a", 5), ("a", 10), ("a", 5), ("a", 10),
            ("record", "b"), ("b", 10), ("b", 10),
        ]  # fmt: skip


def test_in_batch_mode_a_timer_that_sets_itself_again_comes_to_an_end() -> None:
    def again(timestamp: int, timers: Any) -> None:
        timers.register_event_time_timer(timestamp + 1)
        timers.register_processing_time_timer(timestamp + 1)

    with harness(event, again, batch=True) as timers:
        timers.push(("a", 10))
        timers.end_of_input()
        assert timers.output == [("a", 10)]
        assert timers.event_time_timers == timers.processing_time_timers == []
