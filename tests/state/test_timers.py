"""The live timers of one operator."""

from __future__ import annotations

from millrace.state import TimerTable
from millrace.state.timers import Timer


def drain(timers: TimerTable, until: int) -> list[Timer]:
    due = []
    while (timer := timers.pop_due(until)) is not None:
        due.append(timer)
    return due


def test_timers_come_in_the_order_of_time_then_of_registration() -> None:
    timers = TimerTable("event")
    for key, timestamp in (("b", 5), ("a", 5), ("c", 1), ("d", 9)):
        timers.add(key, None, timestamp)
    assert [timer[2] for timer in drain(timers, 8)] == ["c", "b", "a"]
    assert (timers.next_timestamp(), len(timers)) == (9, 1)


def test_registering_a_timer_again_does_nothing_and_removing_it_once_is_enough() -> None:
    timers = TimerTable("event")
    assert [timers.add("k", None, 5), timers.add("k", None, 5), timers.add("k", "other", 5)] == [True, False, True]
    assert [timers.remove("k", None, 5), timers.remove("k", None, 5)] == [True, False]
    assert [timer[3] for timer in drain(timers, 5)] == ["other"]


def test_a_timer_that_was_removed_and_registered_again_fires_once_and_last() -> None:
    timers = TimerTable("event")
    timers.add("a", None, 5)
    timers.add("b", None, 5)
    timers.remove("a", None, 5)
    timers.add("a", None, 5)
    assert [timer[2] for timer in drain(timers, 5)] == ["b", "a"]


def test_a_timer_registered_while_another_fires_is_due_at_once() -> None:
    timers = TimerTable("event")
    timers.add("a", None, 5)
    assert timers.pop_due(5) == (5, 0, "a", None)
    timers.add("a", None, 5)
    timers.add("a", None, 4)
    assert [timer[0] for timer in drain(timers, 5)] == [4, 5]


def test_an_earlier_timer_registered_in_the_midst_of_a_bucket_fires_before_the_rest_of_it() -> None:
    timers = TimerTable("event")
    for key in "abc":
        timers.add(key, None, 5)
    assert timers.pop_due(5) == (5, 0, "a", None)
    timers.add("d", None, 4)
    timers.add("a", None, 5)
    timers.remove("b", None, 5)
    timers.add("b", None, 5)
    assert [timer[2] for timer in drain(timers, 5)] == ["d", "c", "a", "b"]


def test_keys_that_cannot_be_compared_may_share_a_timestamp() -> None:
    timers = TimerTable("event")
    keys = [(1, "a"), ("a", 1), None, 3]
    for key in keys:
        timers.add(key, None, 5)
    assert [timer[2] for timer in drain(timers, 5)] == keys


def test_timers_of_a_key_are_listed_in_order() -> None:
    timers = TimerTable("event")
    for key, timestamp in (("a", 7), ("b", 1), ("a", 3)):
        timers.add(key, None, timestamp)
    assert [timer[0] for timer in timers.timers_of("a")] == [3, 7]


def test_removed_timers_do_not_pile_up() -> None:
    timers = TimerTable("event")
    for n in range(50_000):
        timers.add("k", None, 10**9 + n)
        timers.remove("k", None, 10**9 + n)
    assert len(timers._times) < 2000
    assert timers.delta() is None


def test_a_delta_of_timers_holds_what_was_added_and_removed_and_nothing_that_came_and_went() -> None:
    timers, copy = TimerTable("event"), TimerTable("event")
    for timestamp in range(4):
        timers.add("k", None, timestamp)
    copy.apply(timers.delta() or {})
    timers.commit(None, coerced=False)
    timers.add("gone", None, 1)
    timers.remove("gone", None, 1)
    timers.pop_due(0)
    timers.add("new", None, 2)
    delta = timers.delta()
    assert delta is not None
    assert (delta["gone.time"], delta["put.key"]) == ([0], ["new"])
    copy.apply(delta)
    assert [timer[::2] for timer in drain(copy, 9)] == [timer[::2] for timer in drain(timers, 9)]
