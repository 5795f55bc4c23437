"""Two streams that meet in windows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import Types, WatermarkStrategy
from millrace.datastream import CoGroupFunction, FlatJoinFunction, JoinFunction, StreamExecutionEnvironment
from millrace.datastream import window as w
from millrace.testing import EpochSource, InProcessExecutor

Record = tuple[str, int, int]
RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
records = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(-9, 40)), max_size=15)
TEN = w.TumblingEventTimeWindows.of(10)


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


def streams(left: list[Record], right: list[Record], typed: bool = False, parallelism: int = 2) -> list[Any]:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    env.set_parallelism(parallelism)
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda record, _: record[2])
    kind = RECORD if typed else None
    return [env.from_source(EpochSource([side], 4), strategy, "source", kind) for side in (left, right)]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(left=records, right=records, parallelism=st.integers(1, 3), typed=st.booleans())
def test_a_join_gives_the_pairs_of_equal_keys_in_the_same_window(
    left: list[Record], right: list[Record], parallelism: int, typed: bool
) -> None:
    first, second = streams(left, right, typed, parallelism)
    joined = first.join(second).where(0).equal_to(lambda record: record[0]).window(TEN).apply(Pair())
    wanted = Counter(
        (one, other) for one in left for other in right if one[0] == other[0] and one[2] // 10 == other[2] // 10
    )
    assert Counter(joined.execute_and_collect()) == wanted


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(left=records, right=records, parallelism=st.integers(1, 3))
def test_a_co_group_gives_both_sides_of_each_key_and_window(
    left: list[Record], right: list[Record], parallelism: int
) -> None:
    class Both(CoGroupFunction):
        def co_group(self, first: Any, second: Any) -> Any:
            yield tuple(sorted(first)), tuple(sorted(second))

    first, second = streams(left, right, parallelism=parallelism)
    grouped = first.co_group(second).where(0).equal_to(0).window(TEN).apply(Both())
    places = {(record[0], record[2] // 10) for record in left + right}
    wanted = Counter(
        tuple(tuple(sorted(one for one in side if (one[0], one[2] // 10) == place)) for side in (left, right))
        for place in places
    )
    assert Counter(grouped.execute_and_collect()) == wanted


def test_a_flat_join_function_gives_any_number_of_results() -> None:
    class Copies(FlatJoinFunction):
        def join(self, first: Any, second: Any) -> Any:
            return [first[1]] * second[1] or None

    first, second = streams([("a", 7, 1)], [("a", 2, 2), ("a", 0, 3)])
    joined = first.join(second).where(0).equal_to(0).window(TEN).apply(Copies())
    assert list(joined.execute_and_collect()) == [7, 7]


def test_a_join_takes_trigger_evictor_and_lateness() -> None:
    first, second = streams([("a", 1, 1), ("a", 2, 2)], [("a", 3, 3)])
    windows = first.join(second).where(0).equal_to(0).window(TEN)
    joined = windows.trigger(w.CountTrigger.of(3)).evictor(w.CountEvictor.of(2)).allowed_lateness(5).apply(Pair())
    assert len(list(joined.execute_and_collect())) <= 1


def test_a_join_of_keyed_streams_uses_the_keys_that_it_is_given() -> None:
    first, second = streams([("a", 1, 1)], [("b", 1, 2)])
    windows = first.key_by(0).join(second.key_by(0)).where(1).equal_to(1).window(TEN)
    joined = windows.apply(lambda one, other: one[0] + other[0])
    assert list(joined.execute_and_collect()) == ["ab"]


@pytest.mark.parametrize("verb", ["join", "co_group"])
def test_streams_of_two_environments_do_not_meet(verb: str) -> None:
    [first, _], [second, _] = streams([], []), streams([], [])
    with pytest.raises(Exception, match="different environments"):
        getattr(first, verb)(second)
