from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common import (
    MAX_WATERMARK,
    MIN_TIMESTAMP,
    ConfigurationError,
    Duration,
    Instant,
    ProgramError,
    Time,
)
from millrace.common.time import to_millis
from millrace.common.units import format_duration, format_memory_size, parse_duration, parse_memory_size


def test_durations_compare_across_units():
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440)
    assert Duration.of_seconds(1) > Duration.of_millis(999)
    assert Duration.of_nanos(1_500_000).to_millis() == 1
    assert Duration.of_millis(1500).to_timedelta() == timedelta(seconds=1.5)


def test_anything_that_says_how_long_becomes_milliseconds():
    for span in (
        Duration.of_days(1),
        timedelta(days=1),
        86_400_000,
        Time.days(1),
        Time.hours(24),
        Time.minutes(1440),
    ):
        assert to_millis(span) == 86_400_000
    assert Time.milliseconds(5) == Time(5) != Time.seconds(5)
    assert hash(Time(5)) == hash(Time(5))
    assert repr(Time(5)) == "Time(5 ms)"


@pytest.mark.parametrize("span", ["5 s", True, 1.5, None])
def test_what_is_not_a_span_is_refused(span):
    with pytest.raises(ProgramError, match=r"expected a span of time, got .*\nAction: Give a Duration"):
        to_millis(span)


@given(st.integers(-(2**50), 2**50))
def test_an_instant_keeps_its_milliseconds(millis):
    assert Instant.of_epoch_milli(millis).to_epoch_milli() == millis


def test_instants():
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
    assert Instant.of_epoch_second(1, -1) == Instant(0, 999_999_999) < Instant(1, 0)
    assert Instant(1, 5_000).to_datetime() == datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)
    assert Instant.now() > Instant.of_epoch_milli(0)
    assert pickle.loads(pickle.dumps(Instant(1, 2))) == Instant(1, 2)


def test_event_time_has_flinks_ends():
    assert (MIN_TIMESTAMP, MAX_WATERMARK) == (-(2**63), 2**63 - 1)


@given(st.integers(0, 10**15))
def test_written_durations_and_sizes_read_back(amount):
    assert parse_duration(format_duration(Duration(amount))) == Duration(amount)
    assert parse_memory_size(format_memory_size(amount)) == amount


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("10 s", 10**10),
        ("200ms", 2 * 10**8),
        ("7", 7 * 10**6),
        ("1 MIN", 6 * 10**10),
        ("3us", 3000),
        ("5 µs", 5000),
    ],
)
def test_durations_are_read_as_flink_reads_them(text, nanos):
    assert parse_duration(text) == Duration(nanos)


@pytest.mark.parametrize("text", ["", "s", "1.5 s", "1 fortnight"])
def test_what_is_not_a_duration_or_size_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"is not a duration\nAction: Write a number"):
        parse_duration(text)
    with pytest.raises(ConfigurationError, match=r"is not a memory size\nAction: Write a number"):
        parse_memory_size(text)


def test_a_negative_size_is_refused():
    with pytest.raises(ConfigurationError, match="'-1 mb' is not a memory size: it is negative"):
        parse_memory_size("-1 mb")
