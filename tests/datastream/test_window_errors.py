"""Mistakes with windows are told while the program is built."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.common import Duration, ProgramError
from millrace.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from millrace.datastream import window as w


def keyed() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)]).key_by(0)


class Count(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


TEN = w.TumblingEventTimeWindows.of(10)
SESSIONS = w.EventTimeSessionWindows.with_gap(Duration.of_seconds(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: w.TumblingEventTimeWindows.of(0), "TumblingEventTimeWindows: the size must be positive, got 0 ms"),
        (lambda: w.TumblingProcessingTimeWindows.of(-5), "TumblingProcessingTimeWindows: the size must be positive"),
        (lambda: w.TumblingEventTimeWindows.of(10, 10), r"abs\(offset\) < size"),
        (lambda: w.SlidingEventTimeWindows.of(10, 0), "SlidingEventTimeWindows: the slide must be positive"),
        (lambda: w.SlidingProcessingTimeWindows.of(-1, 5), "the size must be positive"),
        (lambda: w.SlidingEventTimeWindows.of(10, 5, -5), r"abs\(offset\) < slide"),
        (lambda: w.EventTimeSessionWindows.with_gap(0), "EventTimeSessionWindows: the gap must be positive"),
        (lambda: w.ProcessingTimeSessionWindows.with_gap(-1), "the gap must be positive"),
        (lambda: w.EventTimeSessionWindows.with_dynamic_gap(5), "takes a SessionWindowTimeGapExtractor"),
        (lambda: w.CountTrigger.of(0), "CountTrigger takes a positive number"),
        (lambda: w.PurgingTrigger.of(w.CountTrigger), "PurgingTrigger takes a Trigger"),
        (lambda: w.ContinuousEventTimeTrigger.of(0), "interval of ContinuousEventTimeTrigger must be positive"),
        (lambda: w.ProcessingTimeoutTrigger.of(w.NeverTrigger(), -1), "is not negative"),
        (lambda: w.DeltaTrigger.of(1, "delta"), "DeltaTrigger takes a callable"),
        (lambda: w.CountEvictor.of(-1), "CountEvictor takes a number"),
        (lambda: w.TimeEvictor.of(-1), "is not negative"),
        (lambda: keyed().count_window(0), "the size must be a positive number of records"),
        (lambda: keyed().count_window(3, -1), "the slide must be a positive number of records"),
        (lambda: keyed().window(10), "window takes a WindowAssigner"),
        (lambda: keyed().window(TEN).trigger("often"), "trigger takes a Trigger"),
        (lambda: keyed().window(TEN).evictor("some"), "evictor takes an Evictor"),
        (lambda: keyed().window(TEN).allowed_lateness(-1), "cannot be negative"),
        (
            lambda: keyed().window(w.TumblingProcessingTimeWindows.of(5)).allowed_lateness(1),
            "Nothing is late in TumblingProcessingTimeWindows",
        ),
        (lambda: keyed().window(TEN).side_output_late_data("late"), "takes an OutputTag"),
        (
            lambda: keyed().window(SESSIONS).trigger(w.DeltaTrigger.of(1, lambda one, other: 1)),
            "cannot be used with a trigger that does not support merging",
        ),
        (
            lambda: keyed().window(SESSIONS).trigger(w.PurgingTrigger.of(w.NeverTrigger())),
            "cannot be used with a trigger that does not support merging",
        ),
        (
            lambda: keyed().window(TEN).evictor(w.CountEvictor.of(1)).aggregate(Count()),
            r"an evictor \(CountEvictor\) needs all records",
        ),
        (lambda: keyed().window(TEN).evictor(w.CountEvictor.of(1)).sum(1), "needs all records"),
        (lambda: keyed().window(TEN).reduce(3), "reduce on windows takes a ReduceFunction"),
        (lambda: keyed().window(TEN).aggregate(lambda value: value), "aggregate on windows takes an AggregateFunction"),
        (lambda: keyed().window(TEN).aggregate(Count), "given the class Count"),
        (lambda: keyed().window(TEN).process(lambda value: value), "process on windows takes a ProcessWindowFunction"),
        (lambda: keyed().window(TEN).apply(ProcessWindowFunction), "instead of an instance"),
        (lambda: keyed().window(TEN).aggregate(Count(), 3), "aggregate with a window function takes a WindowFunction"),
        (lambda: keyed().window(TEN).sum(None), "sum takes a field's position or name"),
        (lambda: keyed().join(3), "join takes a DataStream"),
    ],
)
def test_a_mistake_with_windows_is_told(make: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        make()


def test_an_error_about_windows_names_the_line() -> None:
    with pytest.raises(ProgramError, match=r"test_window_errors\.py:\d+"):
        keyed().window(TEN).evictor(w.CountEvictor.of(1)).reduce(lambda one, other: one)
