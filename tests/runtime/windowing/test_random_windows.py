"""Windows of all kinds, with all triggers and evictors, over random streams, give what the model gives: whatever the
parallelism, the epochs and the lateness; and nothing is left of them."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from millrace.datastream import window as w
from millrace.testing import EpochSource, Faults, InProcessExecutor, WindowHarness
from tests.runtime.windowing.model import KeyModel, Record, Results, Windows, expected, watermarks

# `make soak` asks for thousands.
EXAMPLES = int(os.environ.get("MILLRACE_PROGRAMS", "120"))

relaxed = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

LATE = OutputTag("late")
BEHIND = 4
RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])

numbers = st.integers(0, 3)
records = st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(-30, 60))
in_order = st.lists(records, max_size=25).map(lambda found: sorted(found, key=lambda record: record[2]))
streams = st.lists(st.one_of(st.lists(records, max_size=12), in_order), min_size=1, max_size=4)


def made(kind: str, evictors: tuple[str, ...] = ("none", "count", "time", "delta")) -> st.SearchStrategy[Windows]:
    triggers = ("count", "delta") if kind == "global" else ("default", "purging", "count", "delta", "continuous")
    if kind == "session":
        triggers = ("default", "purging", "count")
    return st.builds(
        Windows,
        kind=st.just(kind),
        size=st.integers(1, 20),
        slide=st.integers(1, 12),
        offset=st.integers(-4, 4),
        trigger=st.sampled_from(triggers),
        count=st.integers(1, 4),
        evictor=st.sampled_from(evictors),
        keep=st.integers(0, 6),
        after=st.booleans(),
        lateness=st.sampled_from([0, 0, 3, 20]) if kind != "global" else st.just(0),
    ).filter(sound)


def sound(windows: Windows) -> bool:
    return abs(windows.offset) < min(windows.size, windows.slide)


kinds = st.sampled_from(["tumbling", "sliding", "session", "global"])
any_windows = kinds.flatmap(made)


def assigner(windows: Windows) -> w.WindowAssigner[Any, Any]:
    match windows.kind:
        case "tumbling":
            return w.TumblingEventTimeWindows.of(windows.size, windows.offset)
        case "sliding":
            return w.SlidingEventTimeWindows.of(windows.size, windows.slide, windows.offset)
        case "session":
            return w.EventTimeSessionWindows.with_gap(windows.size)
    return w.GlobalWindows.create()


def trigger(windows: Windows) -> w.Trigger[Any, Any] | None:
    match windows.trigger:
        case "purging":
            return w.PurgingTrigger.of(w.EventTimeTrigger.create())
        case "count":
            return w.CountTrigger.of(windows.count)
        case "delta":
            return w.DeltaTrigger.of(windows.count, distance, RECORD)
        case "continuous":
            return w.ContinuousEventTimeTrigger.of(windows.count)
    return None


def windowed(stream: Any, windows: Windows) -> Any:
    made = stream.window(assigner(windows)).side_output_late_data(LATE)
    if windows.kind != "global":
        made.allowed_lateness(windows.lateness)
    if (own := trigger(windows)) is not None:
        made.trigger(own)
    if windows.evictor == "count":
        made.evictor(w.CountEvictor.of(windows.keep, windows.after))
    if windows.evictor == "time":
        made.evictor(w.TimeEvictor.of(windows.keep, windows.after))
    if windows.evictor == "delta":
        made.evictor(w.DeltaEvictor.of(windows.keep, distance, windows.after))
    return made


def distance(one: Record, other: Record) -> int:
    return abs(one[1] - other[1])


def bounds(window: Any) -> tuple[int, int]:
    return (window.start, window.end) if isinstance(window, w.TimeWindow) else (0, 2**63)


class Numbers(ProcessWindowFunction):
    """The numbers of a window, in the order in which they came."""

    def process(self, key: str, context: Any, elements: Any) -> Any:
        yield (key, *bounds(context.window()), tuple(number for _, number, _ in elements))


def run(
    epochs: list[list[Record]], chunk: int, parallelism: int, build: Any, faults: Faults | None = None
) -> tuple[Results, Counter[tuple[str, int]]]:
    """The results of each window, and the late records."""
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, faults))
    env.set_parallelism(parallelism)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BEHIND)).with_timestamp_assigner(
        lambda record, _: record[2]
    )
    stream = env.from_source(EpochSource(epochs, chunk), strategy, "source", type_info=RECORD)
    results = build(stream.key_by(0, Types.STRING()))
    pending = [results.collect_async(), results.get_side_output(LATE).collect_async()]
    client = env.execute_async()
    by_window: Results = {}
    for *window, result in pending[0].results(client):
        by_window.setdefault(tuple(window), []).append(result)
    return by_window, Counter((key, number) for key, number, _ in pending[1].results(client))


@relaxed
@given(
    windows=any_windows, epochs=streams, chunk=st.integers(1, 9), parallelism=st.integers(1, 4),
    share=st.sampled_from([0.0, 0.0, 0.3]),
)
def test_any_windows_give_what_the_model_gives(
    windows: Windows, epochs: list[list[Record]], chunk: int, parallelism: int, share: float
) -> None:
    found = run(
        epochs, chunk, parallelism, lambda stream: windowed(stream, windows).process(Numbers()), Faults(share)
    )
    assert found == expected(windows, watermarks(epochs, chunk, BEHIND))


class Gather(AggregateFunction):
    """The numbers of a window, in a tuple."""

    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return (*accumulator, value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class GatherInPlace(Gather):
    """The same in a list that is changed in place, as Flink allows."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return tuple(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        longer, shorter = (acc_a, acc_b) if len(acc_a) >= len(acc_b) else (acc_b, acc_a)
        longer.extend(shorter)
        return longer


class Labelled(ProcessWindowFunction):
    """The one result of an incremental function, with its window."""

    def process(self, key: str, context: Any, elements: Any) -> Any:
        [result] = elements
        yield (key, *bounds(context.window()), result)


class General(w.EventTimeTrigger):
    """The default trigger under another name: windows with it take the general path."""


def in_any_order(results: Results) -> Results:
    return {window: [tuple(sorted(result)) for result in found] for window, found in results.items()}


incremental_windows = st.sampled_from(["tumbling", "sliding", "session"]).flatmap(
    lambda kind: made(kind, evictors=("none",))
)
plain_windows = st.builds(
    Windows,
    kind=st.sampled_from(["tumbling", "sliding", "session"]),
    size=st.integers(1, 20),
    slide=st.integers(1, 12),
    offset=st.integers(-4, 4),
    lateness=st.sampled_from([0, 0, 0, 7]),
).filter(sound)


@relaxed
@given(
    windows=st.one_of(incremental_windows, plain_windows, plain_windows), epochs=streams, chunk=st.integers(1, 9),
    parallelism=st.integers(1, 4), share=st.sampled_from([0.0, 0.0, 0.3]), in_place=st.booleans(),
)
def test_an_incremental_function_sees_what_a_window_function_sees(
    windows: Windows, epochs: list[list[Record]], chunk: int, parallelism: int, share: float, in_place: bool
) -> None:
    def build(stream: Any) -> Any:
        function = GatherInPlace() if in_place else Gather()
        return windowed(stream, windows).aggregate(function, Labelled())

    found, late = run(epochs, chunk, parallelism, build, Faults(share))
    wanted, wanted_late = expected(windows, watermarks(epochs, chunk, BEHIND))
    if windows.kind == "sliding" or in_place:
        # Windows that share panes merge them in the order of time, and not in that of arrival.
        found, wanted = in_any_order(found), in_any_order(wanted)
    assert (found, late) == (wanted, wanted_late)


@relaxed
@given(windows=plain_windows, stream=st.lists(st.one_of(records, st.integers(-30, 60), st.none()), max_size=40))
def test_nothing_is_left_and_both_paths_agree(windows: Windows, stream: list[Any]) -> None:
    """A record is pushed, a watermark is told, and None cuts the epoch."""
    outcomes = []
    for own in (None, General()):
        def build(keyed: Any, own: Any = own) -> Any:
            made = windowed(keyed, windows)
            return (made if own is None else made.trigger(own)).aggregate(Gather(), Labelled())

        with WindowHarness(build, 0, key_type=Types.STRING(), input_types=(RECORD,)) as harness:
            for item in stream:
                if item is None:
                    harness.end_epoch()
                elif isinstance(item, int):
                    harness.watermark(item)
                else:
                    harness.push(item, timestamp=item[2])
            harness.watermark(100)
            assert harness.entries == {}
            harness.end_epoch()
            assert harness.entries == {}
            records = [((*value[:3], tuple(sorted(value[3]))), stamp) for value, stamp in harness.records]
            outcomes.append((sorted(records), harness.side_output(LATE), harness.metrics))
    assert outcomes[0] == outcomes[1]


@relaxed
@given(size=st.integers(1, 6), slide=st.integers(0, 6), stream=st.lists(st.sampled_from(["a", "b", None]), max_size=40))
def test_count_windows_are_slices_of_what_a_key_brings(size: int, slide: int, stream: list[str | None]) -> None:
    """None cuts the epoch."""
    build = partial(count_windowed, size=size, slide=slide)
    with WindowHarness(build, 0, key_type=Types.STRING(), input_types=(RECORD,)) as harness:
        for number, key in enumerate(stream):
            if key is None:
                harness.end_epoch()
            else:
                harness.push((key, number, 0))
        found = harness.output
    wanted = []
    for key in "ab":
        own = [number for number, other in enumerate(stream) if other == key]
        wanted += [(key, own[first : first + size]) for first in range(0, len(own) - size + 1, slide or size)]
    assert sorted(found) == sorted(wanted)


def count_windowed(stream: Any, size: int, slide: int) -> Any:
    windows = stream.count_window(size, slide)
    return windows.apply(lambda key, _, elements: [(key, [number for _, number, _ in elements])])


@relaxed
@given(
    kind=st.sampled_from(["tumbling", "sliding", "session"]), size=st.integers(1, 12), slide=st.integers(1, 12),
    stream=st.lists(st.one_of(st.sampled_from("ab"), st.integers(1, 9)), max_size=30),
)
def test_processing_time_windows_hold_what_came_in_their_time(
    kind: str, size: int, slide: int, stream: list[Any]
) -> None:
    """A key is a record of it, a number moves the clock."""
    made = {
        "tumbling": w.TumblingProcessingTimeWindows.of(size),
        "sliding": w.SlidingProcessingTimeWindows.of(size, slide),
        "session": w.ProcessingTimeSessionWindows.with_gap(size),
    }[kind]
    models = {key: KeyModel(Windows(kind, size, slide)) for key in "ab"}
    with WindowHarness(lambda keyed: keyed.window(made).process(Numbers()), 0, input_types=(RECORD,)) as harness:
        for number, item in enumerate([*stream, 1000]):
            if not isinstance(item, int):
                harness.push((item, number, 0))
                models[item].add(number, harness.processing_time)
                continue
            harness.advance_processing_time(item)
            for model in models.values():
                model.advance(harness.processing_time)
                model.watermark -= 1  # What comes now may still belong to a window that ends now.
        assert harness.entries == {}
        found = sorted(harness.output)
    assert found == sorted((key, *result) for key, model in models.items() for result in model.out)


@relaxed
@given(
    windows=plain_windows, operation=st.sampled_from(["sum", "min", "max"]), epochs=streams, chunk=st.integers(1, 9),
    parallelism=st.integers(1, 4), share=st.sampled_from([0.0, 0.3]), reading=st.integers(1, 3),
)
def test_built_in_aggregations_begin_before_the_exchange_and_nobody_can_tell(
    windows: Windows, operation: str, epochs: list[list[Record]], chunk: int, parallelism: int, share: float,
    reading: int,
) -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, Faults(share)))
    env.set_parallelism(parallelism)
    source = env.from_source(EpochSource(epochs, chunk), WatermarkStrategy.no_watermarks(), "source", RECORD)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BEHIND)).with_timestamp_assigner(
        lambda record, _: record[2]
    )
    stream = source.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    if reading > 1:  # Several senders, so that the receiver's watermark is behind theirs.
        stream = stream.rebalance().map(lambda record: record, RECORD).set_parallelism(reading)
    results = getattr(windowed(stream.key_by(0, Types.STRING()), windows), operation)(1)
    sliding = windows.kind == "sliding"
    names = [node.name for node in env._program.graph.nodes.values()]
    assert ("Combine" in names) == (windows.kind == "tumbling" or (sliding and windows.slide <= windows.size))
    pending = [results.collect_async(), results.get_side_output(LATE).collect_async()]
    client = env.execute_async()
    found = Counter((key, number) for key, number, _ in pending[0].results(client))
    late = Counter((key, number) for key, number, _ in pending[1].results(client))
    wanted, wanted_late = expected(windows, watermarks(epochs, chunk, BEHIND))
    combine = {"sum": sum, "min": min, "max": max}[operation]
    assert late == wanted_late
    assert found == Counter((key, combine(result)) for (key, _, _), all_of in wanted.items() for result in all_of)
