"""Small programs, run in this process without Spark."""

import re
from pathlib import Path
from typing import Any

import pytest

from millrace.common import JobExecutionError, Types, WatermarkStrategy
from millrace.datastream import (
    CoFlatMapFunction,
    DataStream,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.datastream.accumulators import IntCounter
from millrace.datastream.functions import BadRecord, FilterFunction
from millrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from millrace.testing.in_process import InProcessExecutor

BATCH, STREAMING = RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING


@pytest.fixture(params=[1, 3], ids=lambda parallelism: f"parallelism {parallelism}")
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    return env.set_parallelism(request.param)


def collect(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return sorted(results, key=repr)


PAIRS = [("a", 1), ("b", 5), ("a", 4), ("a", 2), ("b", 5)]


def test_map_filter_and_flat_map(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 6).filter(lambda n: n % 2).flat_map(lambda n: [n] * n)
    assert collect(numbers.map(lambda n: n * 10, Types.DOUBLE())) == [10.0, *[30.0] * 3, *[50.0] * 5]


@pytest.mark.parametrize(
    ("aggregate", "streaming", "batch"),
    [
        (lambda s: s.sum(1), [("a", 1), ("a", 5), ("a", 7), ("b", 10), ("b", 5)], [("a", 7), ("b", 10)]),
        (lambda s: s.min("f1"), [("a", 1), ("a", 1), ("a", 1), ("b", 5), ("b", 5)], [("a", 1), ("b", 5)]),
        (lambda s: s.max_by(1), [("a", 1), ("a", 4), ("a", 4), ("b", 5), ("b", 5)], [("a", 4), ("b", 5)]),
        (
            lambda s: s.reduce(lambda one, two: (one[0], max(one[1], two[1]))),
            [("a", 1), ("a", 4), ("a", 4), ("b", 5), ("b", 5)],
            [("a", 4), ("b", 5)],
        ),
    ],
)
@pytest.mark.parametrize("mode", [STREAMING, BATCH])
def test_rolling_aggregations(
    env: StreamExecutionEnvironment, mode: RuntimeExecutionMode, aggregate: Any, streaming: Any, batch: Any
) -> None:
    env.set_runtime_mode(mode)
    pairs = env.from_collection(PAIRS, Types.TUPLE([Types.STRING(), Types.INT()]))
    assert collect(aggregate(pairs.key_by(0))) == sorted(streaming if mode is STREAMING else batch, key=repr)


class Total(MapFunction):
    """A map with keyed state."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        return value[0], self.total.value()


class Fresh(FilterFunction):
    """A filter with keyed state: the first record of each key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value: Any) -> bool:
        fresh = not self.seen.value()
        self.seen.update(True)
        return fresh


class Repeat(FlatMapFunction):
    """A flat map with keyed state: each record with the one before it."""

    def open(self, runtime_context: Any) -> None:
        self.before = runtime_context.get_state(ValueStateDescriptor("before", Types.LONG()))

    def flat_map(self, value: Any) -> Any:
        before = self.before.value()
        self.before.update(value[1])
        if before is not None:
            yield value[0], before, value[1]


def test_functions_of_a_keyed_stream_have_its_state(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection(PAIRS)
    results = [pairs.key_by(0).map(Total()), pairs.key_by(0).filter(Fresh()), pairs.key_by(0).flat_map(Repeat())]
    pending = [stream.collect_async() for stream in results]
    client = env.execute_async()
    totals, fresh, repeated = (sorted(one.results(client)) for one in pending)
    assert totals == [("a", 1), ("a", 5), ("a", 7), ("b", 5), ("b", 10)]
    assert fresh == [("a", 1), ("b", 5)]
    assert repeated == [("a", 1, 4), ("a", 4, 2), ("b", 5, 5)]


def test_a_sum_of_plain_numbers_and_of_fields(env: StreamExecutionEnvironment) -> None:
    assert collect(env.from_elements(1, 2, 3).key_by(lambda n: n % 2).sum()) == [1, 2, 4]
    assert collect(env.from_elements({"k": "a", "n": 1}, {"k": "a", "n": 2}).key_by("k").sum("n")) == [
        {"k": "a", "n": 1},
        {"k": "a", "n": 3},
    ]


class Alarms(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        yield OutputTag("seen"), (ctx.get_current_key(), ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp, ctx.time_domain().name


def test_timers_and_side_outputs(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    timed = env.from_collection(PAIRS).assign_timestamps_and_watermarks(strategy)
    alarms = timed.key_by(0).process(Alarms())
    seen = alarms.get_side_output(OutputTag("seen")).collect_async()
    fired = alarms.collect_async()
    client = env.execute_async()
    assert sorted(fired.results(client)) == [
        ("a", 11, "EVENT_TIME"), ("a", 12, "EVENT_TIME"), ("a", 14, "EVENT_TIME"), ("b", 15, "EVENT_TIME"),
    ]  # fmt: skip
    assert sorted(seen.results(client)) == sorted(PAIRS)


class Tagged(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield "one", value

    def flat_map2(self, value: Any) -> Any:
        yield "two", value


class Match(KeyedCoProcessFunction):
    """Says for each record of the second stream how many of the first one came before."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.count.value() or 0


def test_connected_streams(env: StreamExecutionEnvironment) -> None:
    one, two = env.from_collection(PAIRS), env.from_collection(["a", "b", "c"])
    assert collect(one.map(lambda pair: pair[1]).connect(two).flat_map(Tagged()).filter(lambda v: v[0] == "two")) == [
        ("two", "a"), ("two", "b"), ("two", "c"),
    ]  # fmt: skip
    matched = collect(one.connect(two).key_by(0, lambda name: name).process(Match()))
    assert [key for key, _ in matched] == ["a", "b", "c"]
    assert matched[-1] == ("c", 0)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Factors(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(*value)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[0], value[1] * (ctx.get_broadcast_state(RULES).get("factor") or 0)


def test_a_broadcast_stream_reaches_every_subtask(env: StreamExecutionEnvironment) -> None:
    rules = env.from_collection([("factor", 10)]).broadcast(RULES)
    results = collect(env.from_collection(PAIRS).key_by(0).connect(rules).process(Factors()))
    assert len(results) == len(PAIRS)


def test_a_union_holds_the_records_of_all(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 2)
    assert collect(numbers.union(env.from_elements(9), numbers).key_by(lambda n: n).map(lambda n: n)) == [1, 1, 2, 2, 9]


@pytest.mark.parametrize(
    "distribute",
    [
        lambda s: s.shuffle(),
        lambda s: s.rebalance(),
        lambda s: s.rescale(),
        lambda s: s.global_(),
        lambda s: s.forward(),
        lambda s: s.partition_custom(lambda key, count: key % count, lambda n: n),
        lambda s: s.key_by(lambda n: n),
    ],
)
def test_every_distribution_keeps_every_record(env: StreamExecutionEnvironment, distribute: Any) -> None:
    assert collect(distribute(env.from_sequence(1, 20)).map(lambda n: n)) == sorted(range(1, 21), key=repr)


def test_a_broadcast_gives_every_record_to_every_subtask(env: StreamExecutionEnvironment) -> None:
    assert collect(env.from_sequence(1, 2).broadcast().map(lambda n: n)) == sorted([1, 2] * env.get_parallelism())


def test_an_iteration_feeds_back_until_nothing_is_left(env: StreamExecutionEnvironment) -> None:
    loop = env.from_elements(3, 1).iterate()
    less = loop.map(lambda n: n - 1)
    loop.close_with(less.filter(lambda n: n > 0))
    assert collect(less) == [0, 0, 1, 2]


def test_a_bad_record_fails_the_job_is_skipped_or_goes_aside(env: StreamExecutionEnvironment) -> None:
    def inverse(n: int) -> float:
        return 1 / n

    numbers = env.from_elements(1, 0, 2)
    assert collect(numbers.map(inverse).on_error("skip")) == [0.5, 1.0]
    bad = OutputTag("bad")
    aside = numbers.map(inverse).name("Inverse").on_error(bad).get_side_output(bad)
    assert collect(aside) == [BadRecord(0, "ZeroDivisionError: division by zero", "Inverse")]
    with pytest.raises(JobExecutionError, match="ZeroDivisionError") as caught:
        collect(numbers.map(inverse).name("Inverse"))
    assert (caught.value.operator_name, caught.value.record_repr) == ("Inverse", "0")


def test_a_value_that_does_not_fit_the_declared_type_names_the_operator(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match="expected INT, got str 'x'") as caught:
        collect(env.from_elements("x").map(lambda text: text, Types.INT()).name("Typed"))
    assert caught.value.operator_name == "Typed"


class Counting(ProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.counter = IntCounter()
        runtime_context.add_accumulator("records", self.counter)
        self.limit = int(runtime_context.get_job_parameter("limit", "0"))
        self.rates = runtime_context.get_broadcast_variable("rates")
        self.path = runtime_context.get_cached_file("model")

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.counter.add(1)
        if value <= self.limit:
            yield value, self.rates[value], self.path


def test_functions_are_given_parameters_variables_files_and_accumulators(env: StreamExecutionEnvironment) -> None:
    env.get_config().set_global_job_parameters({"limit": 2})
    env.register_broadcast_variable("rates", {1: "one", 2: "two"})
    env.register_cached_file("/data/model.bin", "model")
    results = env.from_sequence(1, 5).process(Counting()).collect_async()
    client = env.execute_async()
    assert sorted(results.results(client)) == [(1, "one", "/data/model.bin"), (2, "two", "/data/model.bin")]
    assert client.get_job_execution_result().result().get_accumulator_result("records") == 5


def test_text_goes_out_and_comes_in(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.from_sequence(1, 3).map(str).write_as_text(str(tmp_path / "out"))
    env.execute()
    assert collect(env.read_text_file(str(tmp_path / "out"))) == ["1", "2", "3"]


def test_print_writes_the_subtask_before_each_record(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.from_elements("x", "y").print("out")
    env.execute()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line[-1] for line in lines) == ["x", "y"]
    pattern = r"out> ." if env.get_parallelism() == 1 else r"out:[123]> ."
    assert all(re.fullmatch(pattern, line) for line in lines)
