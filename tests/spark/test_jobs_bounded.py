"""Programs whose sources end, on Spark: what comes out, in every way in which records can travel."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Row, Types, WatermarkStrategy
from millrace.common.watermark_strategy import TimestampAssigner
from millrace.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    SourceFunction,
)
from millrace.datastream.connectors import DataGeneratorSource
from millrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.spark.jobs import Steps, collected, environment

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]


class SecondField(TimestampAssigner):
    """Event time stands in the record."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


BY_SECOND_FIELD = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


class RunningSum(KeyedProcessFunction):
    """Emits the sum of a key's values so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


def running_sums(records: list[tuple[int, int]]) -> dict[int, list[int]]:
    sums: dict[int, list[int]] = defaultdict(list)
    for key, value in records:
        sums[key].append((sums[key][-1] if sums[key] else 0) + value)
    return dict(sums)


def by_key(records: list[tuple[int, int]]) -> dict[int, list[int]]:
    """What came out for each key, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for key, value in records:
        found[key].append(value)
    return dict(found)


def test_state_is_carried_from_epoch_to_epoch() -> None:
    class Epochs(KeyedProcessFunction):
        """Emits a key's running sum, and when processing time stood."""

        def open(self, runtime_context: RuntimeContext) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int, int]]:
            self.total.update((self.total.value() or 0) + value[1])
            yield value[0], self.total.value(), ctx.current_processing_time()

    numbers = environment().from_source(Steps(8, 50), WatermarkStrategy.no_watermarks(), "numbers")
    results = collected(numbers.map(lambda number: (number % 7, number)).key_by(0).process(Epochs()))
    assert len({time for _, _, time in results}) == 8
    assert by_key([result[:2] for result in results]) == running_sums([(number % 7, number) for number in range(400)])


@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_running_sums_do_not_depend_on_the_parallelism(parallelism: int) -> None:
    records = [(number * number % 11, number) for number in range(2000)]
    env = environment(parallelism)
    stream = env.from_sequence(0, 1999).map(lambda number: (number * number % 11, number))
    assert by_key(collected(stream.key_by(0).process(RunningSum()))) == running_sums(records)


def test_one_key_holds_all_records() -> None:
    count = 50_000
    stream = environment(4).from_sequence(1, count).map(lambda number: ("all", number))
    *_, last = collected(stream.key_by(0).reduce(lambda one, two: ("all", one[1] + two[1])))
    assert last == ("all", count * (count + 1) // 2)


def test_source_without_records() -> None:
    env = environment()
    empty = env.from_collection([])
    assert collected(empty.key_by(lambda value: value).reduce(lambda one, two: one)) == []


def test_empty_stream_holds_back_nobody() -> None:
    env = environment()
    empty = env.from_collection([]).assign_timestamps_and_watermarks(BY_SECOND_FIELD)
    full = env.from_collection([("a", 1), ("a", 5)]).assign_timestamps_and_watermarks(BY_SECOND_FIELD)

    class AtTheEnd(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
            yield ctx.get_current_key(), timestamp

    assert collected(full.union(empty).key_by(0).process(AtTheEnd())) == [("a", 101), ("a", 105)]


def test_union_of_three_streams_of_different_parallelism() -> None:
    env = environment(3)
    one, two, three = (env.from_sequence(start, start + 99) for start in (0, 100, 200))
    stream = one.map(lambda n: n).set_parallelism(1).union(two, three.map(lambda n: n).set_parallelism(2))
    assert sorted(collected(stream.map(lambda number: -number))) == sorted(-number for number in range(300))


def test_connected_streams_share_state_by_key() -> None:
    class Enrich(KeyedCoProcessFunction):
        """Joins measurements with their sensor's name, whichever comes first."""

        def open(self, runtime_context: RuntimeContext) -> None:
            self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
            self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

        def process_element1(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[str, int]]:
            name = self.name.value()
            if name is None:
                self.waiting.add(value[1])
            else:
                yield name, value[1]

        def process_element2(self, value: tuple[int, str], ctx: Any) -> Iterator[tuple[str, int]]:
            self.name.update(value[1])
            for measured in self.waiting.get():
                yield value[1], measured
            self.waiting.clear()

    env = environment()
    measurements = env.from_sequence(0, 99).map(lambda number: (number % 5, number))
    names = env.from_collection([(index, f"sensor {index}") for index in range(5)])
    results = collected(measurements.key_by(0).connect(names.key_by(0)).process(Enrich()))
    assert by_key(results) == {f"sensor {index}": list(range(index, 100, 5)) for index in range(5)}  # type: ignore[comparison-overlap]


def test_connected_streams_without_keys() -> None:
    class Tell(CoMapFunction):
        def map1(self, value: int) -> tuple[str, Any]:
            return "number", value

        def map2(self, value: str) -> tuple[str, Any]:
            return "text", value

    env = environment()
    connected = env.from_sequence(1, 3).connect(env.from_collection(["a", "b"]))
    expected = [("number", 1), ("number", 2), ("number", 3), ("text", "a"), ("text", "b")]
    assert sorted(collected(connected.map(Tell()))) == expected


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def test_broadcast_state_reaches_every_subtask() -> None:
    class AboveLimit(BroadcastProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[int]:
            if value > ctx.get_broadcast_state(RULES).get("limit"):
                yield value

        def process_broadcast_element(self, value: tuple[str, int], ctx: Any) -> None:
            ctx.get_broadcast_state(RULES).put(*value)

    env = environment(3)
    rules = env.from_collection([("limit", 1), ("limit", 90)]).broadcast(RULES)
    # Two steps behind, so that the rules are there when the numbers come.
    source = DataGeneratorSource(lambda index: index, count=100, records_per_second=400)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").rebalance().map(lambda n: n)
    above = numbers.filter(lambda n: n > 40).connect(rules).process(AboveLimit())
    assert sorted(collected(above)) == list(range(91, 100))


def test_keyed_stream_with_broadcast_state() -> None:
    class Count(KeyedBroadcastProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
            self.count.update((self.count.value() or 0) + 1)
            yield ctx.get_current_key(), self.count.value()

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(RULES).put("seen", 1)

    env = environment()
    rules = env.from_collection(["x"]).broadcast(RULES)
    results = collected(env.from_sequence(0, 99).key_by(lambda n: n % 4).connect(rules).process(Count()))
    assert by_key(results) == {key: list(range(1, 26)) for key in range(4)}


def test_side_outputs_of_a_chain_and_of_a_keyed_operator() -> None:
    odd, large = OutputTag("odd", Types.LONG()), OutputTag("large", Types.LONG())

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            if value % 2:
                ctx.output(odd, value)
            else:
                yield value

    class SplitLarge(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            yield (large, value) if value > 50 else value

    env = environment()
    split = env.from_sequence(0, 99).process(Split(), Types.LONG())
    keyed = split.key_by(lambda n: n % 3).process(SplitLarge(), Types.LONG())
    label = [("small", keyed), ("large", keyed.get_side_output(large)), ("odd", split.get_side_output(odd))]
    labelled = [stream.map(lambda value, name=name: (name, value)) for name, stream in label]
    results = by_key(collected(labelled[0].union(*labelled[1:])))  # type: ignore[arg-type]
    assert {name: sorted(values) for name, values in results.items()} == {
        "small": list(range(0, 51, 2)),
        "large": list(range(52, 100, 2)),
        "odd": list(range(1, 100, 2)),
    }


class WhereAmI(ProcessFunction):
    """Emits each record with the subtask that has it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, Any]]:
        yield self.index, value


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("rebalance", {0: 25, 1: 25, 2: 25, 3: 25}),
        ("global_", {0: 100}),
        ("rescale", {0: 25, 1: 25, 2: 25, 3: 25}),
        ("broadcast", {0: 100, 1: 100, 2: 100, 3: 100}),
    ],
)
def test_distribution_deals_records_out(distribution: str, expected: dict[int, int]) -> None:
    env = environment(4)
    source = env.from_sequence(0, 99).map(lambda number: number).set_parallelism(2)
    found = collected(getattr(source, distribution)().process(WhereAmI()))
    counts = Counter(index for index, _ in found)
    assert counts.keys() == expected.keys()
    assert all(abs(counts[index] - expected[index]) <= 2 for index in counts)  # each sender begins where it likes
    assert {value for _, value in found} == set(range(100))


def test_forward_shuffle_and_custom_partitioning() -> None:
    env = environment(2)
    numbers = env.from_sequence(0, 199)
    here = numbers.process(WhereAmI())
    there = here.disable_chaining().forward().process(WhereAmI()).map(lambda v: ("forward", v[0] == v[1][0]))
    shuffled = numbers.shuffle().process(WhereAmI()).map(lambda v: ("shuffle", v[0]))
    custom = numbers.partition_custom(lambda key, count: key % count, lambda n: n // 10).process(WhereAmI())
    results = by_key(
        collected(there.union(shuffled, custom.map(lambda v: ("custom", v[0] == v[1] // 10 % 2))))  # type: ignore[arg-type]
    )
    assert set(results["forward"]) == {True}  # type: ignore[index]
    assert set(results["custom"]) == {True}  # type: ignore[index]
    assert min(Counter(results["shuffle"]).values()) > 60  # type: ignore[index]


def test_operators_of_different_parallelism_and_slot_sharing_groups() -> None:
    env = environment(2)
    numbers = env.from_sequence(0, 999).map(lambda n: (n % 5, n)).set_parallelism(3)
    left = numbers.filter(lambda r: r[1] < 500).set_parallelism(1).slot_sharing_group("left")
    right = numbers.filter(lambda r: r[1] >= 500).set_parallelism(4).slot_sharing_group("right")
    sums = left.union(right).key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1])).set_parallelism(5)
    results = by_key(collected(sums.map(lambda r: r).set_parallelism(1)))
    assert {key: max(values) for key, values in results.items()} == {k: sum(range(k, 1000, 5)) for k in range(5)}


def test_edge_that_skips_two_levels() -> None:
    env = environment(2)
    numbers = env.from_sequence(0, 99)
    deep = numbers.key_by(lambda n: n % 3).map(lambda n: n).rebalance().map(lambda n: ("deep", n)).rebalance()
    results = by_key(collected(deep.union(numbers.map(lambda n: ("straight", n)).rebalance()).map(lambda r: r)))  # type: ignore[arg-type]
    assert {name: sorted(values) for name, values in results.items()} == {  # type: ignore[comparison-overlap]
        "deep": list(range(100)),
        "straight": list(range(100)),
    }


def test_batch_mode_gives_final_results_in_order_of_time() -> None:
    env = environment(2, batch=True)
    records = [("a", 9), ("b", 2), ("a", 1), ("b", 7), ("a", 5)]

    class Times(KeyedProcessFunction):
        def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
            yield ctx.get_current_key(), ctx.timestamp()

    timed = env.from_collection(records).assign_timestamps_and_watermarks(BY_SECOND_FIELD)
    assert by_key(collected(timed.key_by(0).process(Times()))) == {"a": [1, 5, 9], "b": [2, 7]}  # type: ignore[comparison-overlap]
    reduced = timed.key_by(0).reduce(lambda one, two: (one[0], one[1] + two[1]))
    assert sorted(collected(reduced)) == [("a", 15), ("b", 9)]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_iteration_feeds_records_back_until_none_is_left(parallelism: int) -> None:
    env = environment(parallelism)
    rounds = env.from_collection([(number, 0) for number in range(6)]).map(lambda r: r).iterate()
    stepped = rounds.map(lambda record: (record[0], record[1] + 1))
    rounds.close_with(stepped.filter(lambda record: record[1] < record[0]))
    done = stepped.filter(lambda record: record[1] >= record[0])
    assert sorted(collected(done)) == [(0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]


def test_event_time_timers_fire_in_order_and_before_later_records() -> None:
    class Lag(KeyedProcessFunction):
        def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, str, int]]:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 15)
            yield ctx.get_current_key(), "record", ctx.timestamp()

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, str, int]]:
            yield ctx.get_current_key(), "timer", timestamp

    env = environment(2)
    records = env.from_collection([("a", time) for time in range(0, 60, 10)])
    results = collected(records.assign_timestamps_and_watermarks(BY_SECOND_FIELD).key_by(0).process(Lag()))
    assert [result[1:] for result in results if result[1] == "timer"] == [("timer", t + 15) for t in range(0, 60, 10)]
    assert len(results) == 12


def test_source_function_text_files_and_text_sink(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.mkdir()
    for file in range(3):
        (lines / f"{file}.txt").write_text("".join(f"line {file} {line}\n" for line in range(10)))

    class Countdown(SourceFunction):
        def run(self, ctx: Any) -> Iterator[str]:
            yield from (f"count {number}" for number in range(5))

    env = environment(2)
    env.read_text_file(str(lines)).union(env.add_source(Countdown())).write_as_text(str(tmp_path / "out"))
    env.execute("copy")
    written = [line for file in (tmp_path / "out").glob("part-*") for line in file.read_text().splitlines()]
    expected = [f"line {file} {line}" for file in range(3) for line in range(10)]
    assert sorted(written) == sorted(expected + [f"count {number}" for number in range(5)])


def test_typed_rows_cross_exchanges() -> None:
    kind = Types.ROW_NAMED(["name", "score"], [Types.STRING(), Types.FLOAT()])
    env = environment(2)
    rows = env.from_collection([Row(name="a", score=0.1), Row(name="b", score=1.5)], kind)
    doubled = rows.key_by("name").map(lambda row: Row(name=row.name, score=row.score * 2), kind)
    assert sorted((row.name, row.score) for row in collected(doubled)) == [("a", 0.20000000298023224), ("b", 3.0)]


def test_print_writes_the_subtask_before_each_record(capfd: pytest.CaptureFixture[str]) -> None:
    env = environment(2)
    env.from_collection(["x", "y"]).print()
    env.from_collection([1]).print("numbers").set_parallelism(1)
    env.execute("printing")
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["1> x", "2> y", "numbers> 1"]
    assert err == ""


def test_two_jobs_of_one_environment_at_the_same_time() -> None:
    env = environment(2)
    one = env.from_sequence(1, 100).map(lambda n: n).collect_async()
    first = env.execute_async("first")
    two = env.from_sequence(1, 50).map(lambda n: -n).collect_async()
    second = env.execute_async("second")
    assert sorted(two.results(second)) == list(range(-50, 0))
    assert sorted(one.results(first)) == list(range(1, 101))


def test_accumulators_are_merged() -> None:
    from millrace.datastream import IntCounter, MapFunction

    class Counted(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = IntCounter()
            runtime_context.add_accumulator("records", self.count)

        def map(self, value: int) -> int:
            self.count.add(1)
            return value

    env = environment(3)
    env.from_sequence(1, 300).map(Counted()).filter(lambda value: False).print()
    assert env.execute("counting").get_accumulator_result("records") == 300
