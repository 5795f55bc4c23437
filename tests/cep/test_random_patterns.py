"""Patterns drawn at random find what trying everything finds, wherever epochs end and however the job is run."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from millrace.cep.compiler import compile_pattern
from millrace.cep.matching import Matching
from millrace.cep.nfa import NFA
from millrace.common import Duration, WatermarkStrategy
from millrace.datastream import KeyedStream, OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from millrace.testing import EpochSource, Faults, InProcessExecutor
from tests.cep.brute_force import Event, Sequenced, canonical, sequences

relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

# A letter and how much later than the one before it comes.
steps = st.tuples(st.sampled_from("abcx"), st.integers(0, 2))


def timed(letters: list[tuple[str, int]]) -> list[Event]:
    time, events = 0, []
    for number, (letter, later) in enumerate(letters):
        time += later
        events.append((letter, number, time))
    return events


@relaxed
@given(sequence=sequences, letters=st.lists(steps, max_size=7))
def test_a_random_pattern_finds_what_trying_everything_finds(
    sequence: Sequenced, letters: list[tuple[str, int]]
) -> None:
    nfa, matching, found = NFA(compile_pattern(sequence.pattern())), Matching(), []
    events = timed(letters)
    for event in events:
        nfa.advance(matching, event[2])
        found += nfa.process(matching, event, event[2])
    assert canonical(found) == canonical(sequence.matches(events))
    if sequence.window is not None:
        nfa.advance(matching, 2**62)
        assert not matching


@settings(relaxed, max_examples=40)
@given(
    sequence=sequences,
    keyed_letters=st.lists(st.tuples(st.integers(0, 2), steps), max_size=12),
    shuffle=st.randoms(use_true_random=False),
    cuts=st.lists(st.integers(0, 16), max_size=4),
    parallelism=st.integers(1, 4),
    chunk=st.integers(1, 6),
    share=st.sampled_from([0.0, 0.3]),
    batch=st.booleans(),
)
def test_a_random_job_finds_what_trying_everything_finds(
    sequence: Sequenced,
    keyed_letters: list[tuple[int, tuple[str, int]]],
    shuffle: Any,
    cuts: list[int],
    parallelism: int,
    chunk: int,
    share: float,
    batch: bool,
) -> None:
    """Events come out of order by less than the watermark waits; those of one timestamp in an order of their own."""
    keys = [key for key, _ in keyed_letters]
    events = [(key, *event) for key, event in zip(keys, timed([one for _, one in keyed_letters]), strict=True)]
    arriving = sorted(events, key=lambda event: event[3] + shuffle.randint(0, 4))
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, Faults(share)))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)
    keyed = _keyed_stream(env.set_parallelism(parallelism), arriving, cuts, chunk)
    matches = CEP.pattern(keyed, sequence.pattern(), _by_number).select(lambda match: match)
    found = list(matches.execute_and_collect())

    expected = [
        match for key in set(keys) for match in sequence.matches([event for event in events if event[0] == key])
    ]
    assert canonical(found) == canonical(expected)


def _keyed_stream(
    env: StreamExecutionEnvironment, arriving: list[Any], cuts: list[int], chunk: int
) -> KeyedStream:
    """The events in epochs that end at the cuts, by key. None is late."""
    bounds = sorted(min(cut, len(arriving)) for cut in cuts)
    epochs = [arriving[first:last] for first, last in zip([0, *bounds], [*bounds, len(arriving)], strict=True)]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda event, _: event[3]
    )
    source = env.from_source(EpochSource(epochs, chunk), strategy, "source")
    return source.map(lambda event: event).key_by(lambda event: event[0])


def _by_number(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
    return int(one[2] - other[2])


TIMED_OUT = OutputTag("timed out")


class Everything(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        yield True, ctx.timestamp(), match

    def process_timed_out_match(self, match, ctx):
        ctx.output(TIMED_OUT, (False, ctx.timestamp(), match))


def _keyed(letters: str) -> Any:
    return lambda event: event[1] in letters


def _start(strategy: AfterMatchSkipStrategy | None = None) -> Pattern:
    return Pattern.begin("a", strategy).where(_keyed("a"))


# What the brute force does not know: skip strategies, greedy loops, until, absence, groups.
PATTERNS = [
    _start(AfterMatchSkipStrategy.skip_past_last_event()).one_or_more().followed_by("b").where(_keyed("b")).within(6),
    _start(AfterMatchSkipStrategy.skip_to_next()).followed_by_any("b").where(_keyed("bc")).times(1, 2).within(5),
    _start(AfterMatchSkipStrategy.skip_to_last("b")).followed_by("b").where(_keyed("ab")).one_or_more().within(7),
    _start().one_or_more().greedy().until(_keyed("c")).next("b").where(_keyed("abc")).within(8),
    _start().not_followed_by("b").where(_keyed("b")).within(4),
    _start(AfterMatchSkipStrategy.skip_past_last_event()).times(1, 2).not_followed_by("b").where(_keyed("b")).within(4),
    _start().not_followed_by("b").where(_keyed("b")).within(3, WithinType.PREVIOUS_AND_CURRENT),
    _start().not_next("b").where(_keyed("b")).followed_by("c").where(_keyed("c")).optional().within(6),
    _start().followed_by(
        Pattern.begin("b").where(_keyed("b")).followed_by("c").where(_keyed("c"))
    ).times(1, 2).optional().within(9),
]


@settings(relaxed, max_examples=60)
@given(
    pattern=st.sampled_from(PATTERNS),
    letters=st.lists(steps, max_size=14),
    shuffle=st.randoms(use_true_random=False),
    cuts=st.lists(st.integers(0, 14), max_size=4),
    parallelism=st.integers(1, 3),
    chunk=st.integers(1, 6),
    share=st.sampled_from([0.0, 0.3]),
)
def test_matches_timeouts_and_their_timestamps_do_not_depend_on_how_the_job_runs(
    pattern: Pattern,
    letters: list[tuple[str, int]],
    shuffle: Any,
    cuts: list[int],
    parallelism: int,
    chunk: int,
    share: float,
) -> None:
    events = [(number % 2, *event) for number, event in enumerate(timed(letters))]
    arriving = sorted(events, key=lambda event: event[3] + shuffle.randint(0, 4))
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(2, Faults(share)))
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    keyed = _keyed_stream(env.set_parallelism(parallelism), arriving, cuts, chunk)
    results = CEP.pattern(keyed, pattern, _by_number).process(Everything())
    found = list(results.union(results.get_side_output(TIMED_OUT)).execute_and_collect())
    expected = []
    for key in (0, 1):
        nfa, matching = NFA(compile_pattern(pattern), times_out=True), Matching()
        for event in events:
            if event[0] == key:
                expected += [(o.complete, o.timestamp, o.match) for o in nfa.advance(matching, event[3])]
                expected += [(True, event[3], match) for match in nfa.process(matching, event, event[3])]
        expected += [(o.complete, o.timestamp, o.match) for o in nfa.advance(matching, 2**62)]
        assert not matching
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
