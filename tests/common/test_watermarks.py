from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common import (
    MAX_WATERMARK,
    MIN_TIMESTAMP,
    AscendingTimestampsWatermarks,
    AssignerWithPeriodicWatermarksWrapper,
    BoundedOutOfOrdernessWatermarks,
    Duration,
    NoWatermarksGenerator,
    ProgramError,
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkStrategy,
)


class Output:
    def __init__(self) -> None:
        self.emitted: list[int] = []

    def emit_watermark(self, watermark: Watermark) -> None:
        self.emitted.append(watermark.get_timestamp())

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


@given(st.lists(st.integers(0, 10**15)), st.integers(0, 10**6))
def test_a_batch_of_timestamps_says_what_the_events_say_one_by_one(timestamps, delay):
    batched, single, output = (
        BoundedOutOfOrdernessWatermarks(delay),
        BoundedOutOfOrdernessWatermarks(delay),
        Output(),
    )
    batched.on_batch(timestamps)
    for timestamp in timestamps:
        single.on_event(None, timestamp, output)
    single.on_periodic_emit(output)
    assert output.emitted == [batched.current()]
    assert batched.current() == (max(timestamps) - delay - 1 if timestamps else MIN_TIMESTAMP)


def test_a_generator_goes_on_where_it_was_pickled():
    generator = AscendingTimestampsWatermarks()
    generator.on_batch([5, 9])
    restored = pickle.loads(pickle.dumps(generator))
    restored.on_batch([7])
    assert restored.current() == 8


def test_no_watermarks_emits_nothing():
    generator, output = WatermarkStrategy.no_watermarks().create_watermark_generator(), Output()
    assert isinstance(generator, NoWatermarksGenerator)
    generator.on_batch([1])
    generator.on_periodic_emit(output)
    assert output.emitted == []
    assert generator.current() == MIN_TIMESTAMP


def test_each_with_returns_another_strategy():
    plain = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1))
    full = (
        plain.with_timestamp_assigner(Second())
        .with_idleness(Duration.of_minutes(1))
        .with_watermark_alignment("group", Duration.of_seconds(20))
    )
    assert (plain.timestamp_assigner, plain.idle_timeout_ms, plain.alignment, plain.extract_timestamp) == (None,) * 4
    assert full.extract_timestamp(("a", 7), MIN_TIMESTAMP) == 7
    assert full.idle_timeout_ms == 60_000
    assert (full.alignment.group, full.alignment.max_drift_ms, full.alignment.update_interval_ms) == (
        "group",
        20_000,
        1000,
    )
    assert full.with_watermark_alignment("g", 1, timedelta(seconds=2)).alignment.update_interval_ms == 2_000
    assert pickle.loads(pickle.dumps(full)).create_watermark_generator().delay_ms == 1_000


def test_a_plain_function_assigns_timestamps():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, old: value + old)
    assert strategy.extract_timestamp(1, 2) == 3


def test_a_generator_of_ones_own():
    class Punctuated(WatermarkGenerator):
        def on_event(self, event, event_timestamp, output):
            output.emit_watermark(Watermark(event_timestamp))

        def on_periodic_emit(self, output):
            pass

    generator, output = WatermarkStrategy.for_generator(Punctuated).create_watermark_generator(), Output()
    generator.on_event("x", 5, output)
    assert output.emitted == [5]


def test_flinks_older_assigner_becomes_a_strategy():
    class Old:
        mark: int | None = None

        def extract_timestamp(self, value, record_timestamp):
            return value

        def get_current_watermark(self):
            return self.mark

    old, output = Old(), Output()
    strategy = AssignerWithPeriodicWatermarksWrapper(old).to_strategy()
    generator = strategy.create_watermark_generator()
    for mark in (None, 5, 3, Watermark(9)):
        old.mark = mark
        generator.on_event(None, 0, output)
        generator.on_periodic_emit(output)
    assert output.emitted == [5, 9]
    assert strategy.extract_timestamp(4, 0) == 4


def test_the_last_watermark_is_the_end_of_time():
    assert Watermark.MAX_WATERMARK == Watermark(MAX_WATERMARK) > Watermark(0)
    assert pickle.loads(pickle.dumps(Watermark(5))) == Watermark(5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: WatermarkStrategy.for_bounded_out_of_orderness(-1),
            "the out-of-orderness must not be negative, got -1 ms",
        ),
        (lambda: BoundedOutOfOrdernessWatermarks(-1), "the out-of-orderness must not be negative, got -1 ms"),
        (
            lambda: WatermarkStrategy.no_watermarks().with_idleness(0),
            "the idle timeout must be positive, got 0 ms",
        ),
        (
            lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(5),
            "5 cannot assign timestamps\nAction: Give",
        ),
        (
            lambda: WatermarkStrategy.for_generator(NoWatermarksGenerator()),
            "for_generator needs something to call",
        ),
        (
            lambda: WatermarkStrategy.for_generator(lambda: 5).create_watermark_generator(),
            "the strategy's supplier made 5, which is no WatermarkGenerator",
        ),
    ],
)
def test_mistakes_are_named(build, message):
    with pytest.raises(ProgramError, match=message):
        build()
