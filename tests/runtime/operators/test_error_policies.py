"""A user's function that fails on a record: fail, skip, or a side output, in every kind of operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.common import Types
from millrace.datastream import (
    BadRecord,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
)
from millrace.state import MapStateDescriptor
from millrace.testing import (
    BroadcastHarness,
    Harness,
    KeyedBroadcastHarness,
    KeyedOneInputHarness,
    KeyedTwoInputHarness,
    OneInputHarness,
    TwoInputHarness,
)

BAD = OutputTag("bad")
RULES = MapStateDescriptor("rules")


def checked(value: Any) -> Any:
    if value == "bad":
        raise ValueError("no good")
    if value == "stop":
        raise StopIteration
    return value


def partly(value: Any) -> Iterator[Any]:
    yield value
    if value in {"bad", "stop"}:
        raise ValueError("no good")


class Map(MapFunction):
    def map(self, value: Any) -> Any:
        return checked(value)


class Filter(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(checked(value))


class FlatMap(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return partly(value)


class Process(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return partly(value)


class KeyedProcess(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return partly(value)


class Reduce(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return checked(value2)


class CoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return checked(value)

    def map2(self, value: Any) -> Any:
        return value


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return partly(value)

    def flat_map2(self, value: Any) -> Any:
        return None


class CoProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return partly(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return None


class KeyedCoProcess(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return partly(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return None


class Broadcast(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return partly(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


class KeyedBroadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return partly(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


def key(value: Any) -> str:
    return "key"


MAKERS: dict[str, Callable[..., Harness]] = {
    "map": lambda **options: OneInputHarness(Map(), **options),
    "map by a callable": lambda **options: OneInputHarness(checked, **options),
    "filter": lambda **options: OneInputHarness(Filter(), **options),
    "flat_map": lambda **options: OneInputHarness(FlatMap(), **options),
    "process": lambda **options: OneInputHarness(Process(), **options),
    "keyed map": lambda **options: KeyedOneInputHarness(Map(), key, **options),
    "keyed filter": lambda **options: KeyedOneInputHarness(Filter(), key, **options),
    "keyed flat_map": lambda **options: KeyedOneInputHarness(FlatMap(), key, **options),
    "keyed process": lambda **options: KeyedOneInputHarness(KeyedProcess(), key, **options),
    "reduce": lambda **options: KeyedOneInputHarness(Reduce(), key, **options),
    "co-map": lambda **options: TwoInputHarness(CoMap(), **options),
    "co-flat-map": lambda **options: TwoInputHarness(CoFlatMap(), **options),
    "co-process": lambda **options: TwoInputHarness(CoProcess(), **options),
    "keyed co-process": lambda **options: KeyedTwoInputHarness(KeyedCoProcess(), key, key, **options),
    "keyed co-map": lambda **options: KeyedTwoInputHarness(CoMap(), key, key, **options),
    "broadcast": lambda **options: BroadcastHarness(Broadcast(), RULES, **options),
    "keyed broadcast": lambda **options: KeyedBroadcastHarness(KeyedBroadcast(), key, RULES, **options),
}
every_operator = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def push(harness: Harness, values: list[Any], stamped: bool = False) -> None:
    harness._push(0, values, [number * 10 for number in range(len(values))] if stamped else None)


@every_operator
def test_by_default_the_functions_own_exception_comes_out(make: Callable[..., Harness]) -> None:
    with make() as harness:
        push(harness, ["a"])
        with pytest.raises(ValueError, match="no good"):
            push(harness, ["b", "bad"])


@every_operator
@pytest.mark.parametrize("place", [0, 1, 3], ids=["first", "in the middle", "last"])
@pytest.mark.parametrize("stamped", [False, True], ids=["plain", "stamped"])
@pytest.mark.parametrize("wrong", ["bad", "stop"])
def test_a_skipped_record_leaves_nothing_behind(
    make: Callable[..., Harness], place: int, stamped: bool, wrong: str
) -> None:
    values = ["a", "b", "c"]
    values.insert(place, wrong)
    with make(on_error="skip") as harness:
        push(harness, ["z"])
        push(harness, values, stamped)
        assert harness.output == ["z", "a", "b", "c"]
        stamps = [index * 10 for index in range(4) if index != place] if stamped else [None] * 3
        assert [stamp for _, stamp in harness.records[1:]] == stamps
        assert harness.skipped == 1


@every_operator
def test_several_failures_in_a_row_are_each_counted(make: Callable[..., Harness]) -> None:
    with make(on_error="skip") as harness:
        push(harness, ["z", "bad", "bad", "a", "bad", "b", "bad"])
        assert harness.output == ["z", "a", "b"]
        assert harness.skipped == 4
        harness.end_epoch()
        push(harness, ["bad"])
        assert harness.skipped == 5


@every_operator
def test_a_bad_record_goes_to_its_side_output_with_its_error(make: Callable[..., Harness]) -> None:
    with make(on_error=BAD) as harness:
        push(harness, ["z", "bad", "a"])
        assert harness.output == ["z", "a"]
        [bad] = harness.side_output(BAD)
        assert isinstance(bad, BadRecord)
        assert (bad.value, bad.error) == ("bad", "ValueError: no good")
        assert harness.skipped == 1


def test_a_result_that_does_not_fit_the_declared_type_is_a_bad_record_too() -> None:
    with OneInputHarness(lambda value: value, output_type=Types.LONG(), on_error=BAD) as harness:
        harness.push_all([1, "two", 3])
        assert harness.output == [1, 3]
        assert [bad.value for bad in harness.side_output(BAD)] == ["two"]


@pytest.mark.parametrize("on_error", ["fail", "skip", BAD], ids=["fail", "skip", "side output"])
@pytest.mark.parametrize("stamped", [False, True], ids=["plain", "stamped"])
def test_a_key_selector_that_fails_always_fails_the_job(on_error: Any, stamped: bool) -> None:
    """Else it would depend on the parallelism: with several subtasks, the exchange calls it first."""
    calls = {"selector": 0}

    def selector(value: Any) -> Any:
        calls["selector"] += 1
        if calls["selector"] > 3:  # The exchange's three calls go well.
            raise KeyError(value)
        return "key"

    with KeyedOneInputHarness(KeyedProcess(), selector, on_error=on_error) as harness, pytest.raises(KeyError):
        push(harness, ["a", "b", "c"], stamped)


def test_an_exception_of_the_function_keeps_its_own_cause_and_shows_no_operator() -> None:
    def fails(value: Any) -> Any:
        try:
            return {}[value]
        except KeyError as error:
            raise RuntimeError("outer") from error

    with OneInputHarness(fails) as harness:
        with pytest.raises(RuntimeError, match="outer") as failure:
            harness.push("missing")
        assert isinstance(failure.value.__cause__, KeyError)
