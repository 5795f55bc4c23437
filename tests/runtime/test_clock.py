"""The clock of a subtask with several input channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.runtime.clock import WatermarkClock


def test_the_slowest_channel_decides() -> None:
    clock = WatermarkClock(3)
    assert [clock.update(0, 30), clock.update(1, 10), clock.update(2, 20)] == [False, False, True]
    assert clock.current == 10
    assert clock.update(1, 25)
    assert clock.current == 20


def test_a_watermark_that_goes_back_is_not_heard() -> None:
    clock = WatermarkClock(1)
    assert clock.update(0, 10)
    assert not clock.update(0, 5)
    assert not clock.update(0, 10)
    assert clock.current == 10


def test_nobody_waits_for_an_idle_channel() -> None:
    clock = WatermarkClock(2)
    clock.update(0, 10)
    assert clock.mark_idle(1)
    assert clock.current == 10
    assert clock.update(0, 20)
    assert clock.current == 20


def test_a_channel_that_wakes_up_behind_the_clock_does_not_turn_it_back() -> None:
    clock = WatermarkClock(2)
    clock.update(0, 50)
    clock.mark_idle(1)
    clock.activate(1)
    assert not clock.update(1, 20)
    assert clock.current == 50
    assert not clock.update(0, 60)
    assert clock.update(1, 70)
    assert clock.current == 60


def test_when_all_are_idle_the_furthest_counts_and_the_clock_is_idle() -> None:
    clock = WatermarkClock(2)
    clock.update(0, 10)
    clock.update(1, 40)
    assert clock.current == 10
    assert not clock.mark_idle(1)
    assert not clock.all_idle
    assert clock.mark_idle(0)
    assert clock.current == 40
    assert clock.all_idle


def test_time_does_not_end_while_a_channel_is_only_idle() -> None:
    clock = WatermarkClock(3)
    clock.update(1, 10)
    clock.mark_idle(2)
    assert clock.update(0, MAX_WATERMARK)
    assert clock.current == 10
    assert not clock.mark_idle(1)
    assert clock.current == 10
    assert clock.all_idle
    clock.activate(2)
    assert not clock.all_idle
    assert not clock.update(1, MAX_WATERMARK)
    assert clock.update(2, MAX_WATERMARK)
    assert clock.current == MAX_WATERMARK
    assert not clock.all_idle


def test_nobody_waits_for_a_channel_that_has_ended() -> None:
    clock = WatermarkClock(2)
    clock.update(0, MAX_WATERMARK)
    assert clock.update(1, 5)
    assert clock.current == 5


def test_a_restored_clock_goes_on_where_it_was() -> None:
    clock = WatermarkClock(2)
    clock.update(0, 10)
    clock.mark_idle(1)
    other = WatermarkClock(2)
    other.restore(clock.snapshot())
    clock.update(0, 99)
    assert (other.current, other.idle, other.watermarks) == (10, [False, True], [10, MIN_TIMESTAMP])


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["update", "idle", "activate"]), st.integers(0, 20))))
def test_the_clock_never_goes_back(events: list[tuple[int, str, int]]) -> None:
    clock = WatermarkClock(3)
    before = clock.current
    for channel, event, watermark in events:
        moved = {
            "update": lambda: clock.update(channel, watermark),  # noqa: B023 (called at once)
            "idle": lambda: clock.mark_idle(channel),  # noqa: B023
            "activate": lambda: bool(clock.activate(channel)),  # noqa: B023
        }[event]()
        assert moved is (clock.current > before)
        assert clock.current >= before
        before = clock.current
