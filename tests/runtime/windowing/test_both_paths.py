"""The quick paths and the general one understand each other's state, or say that they do not."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest

from millrace.common import Types
from millrace.common.errors import ProgramError
from millrace.datastream import window as w
from millrace.runtime.batch import Batch
from millrace.runtime.operators.base import Output
from millrace.runtime.windowing.choose import window_operator
from millrace.runtime.windowing.combiner import WindowCombiner
from millrace.runtime.windowing.contents import Incremental
from millrace.runtime.windowing.fast_session import SessionWindowOperator
from millrace.runtime.windowing.fast_sliding import SlidingWindowOperator
from millrace.runtime.windowing.fast_tumbling import TumblingWindowOperator
from millrace.runtime.windowing.operator import WindowOperator
from millrace.runtime.windowing.spec import WindowSpec
from millrace.testing import WindowHarness
from tests.runtime.windowing.test_random_windows import Gather, General, Labelled

TUMBLING = w.TumblingEventTimeWindows.of(10)
SLIDING = w.SlidingEventTimeWindows.of(10, 5)
SESSIONS = w.EventTimeSessionWindows.with_gap(10)


def harness(assigner: Any, own: bool, **options: Any) -> WindowHarness:
    def build(stream: Any) -> Any:
        made = stream.window(assigner)
        return (made.trigger(General()) if own else made).aggregate(Gather(), Labelled())

    return WindowHarness(build, 0, key_type=Types.STRING(), **options)


def feed(windows: WindowHarness, *stamps: int) -> None:
    for stamp in stamps:
        windows.push(("a", stamp, 0), timestamp=stamp)


@pytest.mark.parametrize("assigner", [TUMBLING, SESSIONS], ids=["tumbling", "session"])
@pytest.mark.parametrize("own", [False, True], ids=["from the quick path", "to the quick path"])
def test_state_goes_from_one_path_to_the_other(assigner: Any, own: bool) -> None:
    with harness(assigner, own) as before:
        feed(before, 1, 25, 7)
        before.end_epoch()
        feed(before, 13)
        snapshot, entries, timers = before.snapshot(), before.entries, before.event_time_timers
    with harness(assigner, not own, snapshot=snapshot) as after:
        assert (after.entries, after.event_time_timers) == (entries, timers)
        feed(after, 3)
        after.watermark(100)
        assert sorted(after.output) == (
            [("a", 0, 10, (1, 7, 3)), ("a", 10, 20, (13,)), ("a", 20, 30, (25,))]
            if assigner is TUMBLING else [("a", 1, 23, (1, 7, 13, 3)), ("a", 25, 35, (25,))]
        )
        assert after.entries == {}


@pytest.mark.parametrize("own", [False, True], ids=["from panes", "to panes"])
def test_windows_that_share_panes_refuse_the_state_of_those_that_do_not(own: bool) -> None:
    with harness(SLIDING, own) as before:
        feed(before, 1)
        snapshot = before.snapshot()
    with (
        pytest.raises(ProgramError, match="sliding windows with another trigger or allowed lateness"),
        harness(SLIDING, not own, snapshot=snapshot),
    ):
        raise AssertionError


class Stub(Gather):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


class OwnWindows(w.TumblingEventTimeWindows):
    """A subclass may assign as it likes."""


@pytest.mark.parametrize(
    ("settings", "operator"),
    [
        ({"assigner": TUMBLING}, TumblingWindowOperator),
        ({"assigner": TUMBLING, "allowed_lateness": 5}, TumblingWindowOperator),
        ({"assigner": SLIDING}, SlidingWindowOperator),
        ({"assigner": SESSIONS}, SessionWindowOperator),
        ({"assigner": SLIDING, "allowed_lateness": 5}, WindowOperator),
        ({"assigner": SESSIONS, "allowed_lateness": 5}, WindowOperator),
        ({"assigner": TUMBLING, "trigger": General()}, WindowOperator),
        ({"assigner": TUMBLING, "trigger": w.CountTrigger.of(3)}, WindowOperator),
        ({"assigner": w.SlidingEventTimeWindows.of(5, 10)}, WindowOperator),
        ({"assigner": w.TumblingProcessingTimeWindows.of(5), "trigger": w.ProcessingTimeTrigger()}, WindowOperator),
        ({"assigner": OwnWindows.__new__(OwnWindows)}, WindowOperator),
        ({"assigner": SLIDING, "incremental": Incremental(Stub(), aggregates=True)}, WindowOperator),
    ],
)
def test_only_the_common_windows_take_a_quick_path(settings: dict[str, Any], operator: type) -> None:
    incremental = Incremental(Gather(), aggregates=True)
    spec = WindowSpec(**{"trigger": w.EventTimeTrigger(), "incremental": incremental, **settings})
    assert type(window_operator(spec)) is operator


def test_a_function_that_fails_on_a_record_names_it_and_the_rest_goes_on_where_that_is_wanted() -> None:
    class Picky(Gather):
        def add(self, value: Any, accumulator: Any) -> Any:
            if value[1] == 2:
                raise ValueError("two")
            return super().add(value, accumulator)

    for assigner in (TUMBLING, SLIDING, SESSIONS):
        def build(stream: Any, assigner: Any = assigner) -> Any:
            return stream.window(assigner).aggregate(Picky(), Labelled())

        with WindowHarness(build, 0, on_error="skip") as windows:
            windows.push_all([("a", number, 0) for number in (2, 1, 2, 3)], [2, 1, 2, 3])
            windows.watermark(100)
            assert windows.skipped == 2
            assert {result for *_, result in windows.output} == {(1, 3)}
            assert windows.entries == {}
        with WindowHarness(build, 0) as windows, pytest.raises(ValueError, match="two"):
            windows.push(("a", 2, 0), timestamp=1)


def test_records_that_cannot_be_combined_are_left_to_the_operator_and_its_policy() -> None:
    def picky(record: Any) -> Any:
        if record[1] == 3:
            raise StopIteration
        return record[0]

    for bad in [("a", None, 0), ("a", 3, 0)]:
        windows = (10, 10, 10, 0)
        combiner = WindowCombiner("sum", picky, itemgetter(1), lambda record, number: (record[0], number), windows)
        combiner.output = Output()
        seen: list[Any] = []
        combiner.output.main.append(Seen(seen))
        combiner._combine = combiner._add_each
        combiner.begin()
        combiner.process(Batch([("a", 1, 0), ("a", 2, 0), bad, ("b", 5, 0)], [1, 2, 3, 4]), 0)
        assert seen == [bad, ("b", 5, 0)]
        combiner.advance(100)
        assert seen[2:] == [("a", 3), 100]


class Seen:
    """What an operator sends on."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    def emit(self, batch: Batch) -> None:
        self._seen += batch.values

    def watermark(self, watermark: int) -> None:
        self._seen.append(watermark)

    def idle(self) -> None:
        """Not heard of."""
