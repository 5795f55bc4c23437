"""Searches survive crashes, savepoints and another parallelism."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from millrace.cep import CEP, AfterMatchSkipStrategy, Pattern
from millrace.cep.compiler import compile_pattern
from millrace.cep.matching import Matching
from millrace.cep.nfa import NFA
from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import OutputTag, StreamExecutionEnvironment
from millrace.testing import EpochSource
from millrace.testing.crashes import Crash, Crashes
from tests.cep.streams import letters
from tests.driver.jobs import LogSink, environment

TIMED_OUT = OutputTag("timed out", Types.STRING())
USERS = [f"user{number}" for number in range(7)]

# (user, letter, timestamp), out of order by up to 30 ms.
EVENTS = [
    (USERS[number * 5 % 7], "aabxba"[number * 7 % 6] + str(number), number * 10 - number * 13 % 30)
    for number in range(90)
]

PATTERN = (
    Pattern.begin("a", AfterMatchSkipStrategy.skip_to_next()).where(lambda event: event[1][0] == "a").one_or_more()
    .followed_by("b").where(lambda event: event[1][0] == "b")
    .within(300)
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    LogSink.committed.clear()
    yield
    LogSink.announce = staticmethod(lambda what: None)
    LogSink.committed.clear()


def build(env: StreamExecutionEnvironment) -> None:
    epochs = [EVENTS[start : start + 6] for start in range(0, len(EVENTS), 6)]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(31)).with_timestamp_assigner(
        lambda event, _: event[2]
    )
    source = env.from_source(EpochSource(epochs, 4), strategy, "events", Types.TUPLE(
        [Types.STRING(), Types.STRING(), Types.LONG()]
    )).uid("events")  # fmt: skip
    found = CEP.pattern(source.key_by(0, Types.STRING()), PATTERN).select(
        letters, Types.STRING(), timeout_tag=TIMED_OUT, timeout_fn=lambda match, time: f"{letters(match)} until {time}"
    ).uid("search")  # fmt: skip
    found.sink_to(LogSink()).uid("found")
    found.get_side_output(TIMED_OUT).sink_to(LogSink()).uid("timed out")


def expected() -> list[str]:
    results = []
    for user in USERS:
        nfa, matching = NFA(compile_pattern(PATTERN), times_out=True), Matching()
        for event in sorted((event for event in EVENTS if event[0] == user), key=lambda event: event[2]):
            results += [f"{letters(over.match)} until {over.timestamp}" for over in nfa.advance(matching, event[2])]
            results += map(letters, nfa.process(matching, event, event[2]))
        results += [f"{letters(over.match)} until {over.timestamp}" for over in nfa.advance(matching, 2**62)]
    assert len(results) > 20
    return sorted(results)


def run(directory: Path, parallelism: int = 2, crashes: Crashes | None = None) -> None:
    LogSink.announce = staticmethod(crashes.step if crashes is not None else lambda what: None)
    env = environment(directory, parallelism)
    build(env)
    env.execute_async("search").get_job_execution_result().result()


def test_crashes_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    with Crashes() as steps:
        run(tmp_path / "undisturbed", 2, steps)
    assert LogSink.records() == expected()
    for number in range(5, steps.taken, steps.taken // 9):
        LogSink.committed.clear()
        directory = tmp_path / str(number)
        with Crashes(at=number) as crashes, contextlib.suppress(Crash):
            run(directory, 2, crashes)
        run(directory)
        assert LogSink.records() == expected(), f"after a crash at step {number}"


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (4, 1)])
def test_a_search_goes_on_from_a_savepoint_with_another_parallelism(tmp_path: Path, before: int, after: int) -> None:
    env = environment(tmp_path / "first", before)
    build(env)
    asked = Event()
    LogSink.announce = staticmethod(lambda what: asked.wait(60))  # The job waits at its first commit.
    stopped = env.execute_async("search").stop_with_savepoint(False, str(tmp_path / "savepoints"))
    asked.set()
    savepoint = stopped.result()
    assert LogSink.records() != expected()
    again = environment(tmp_path / "second", after)
    again._configuration.set_string("execution.state-recovery.path", savepoint)
    build(again)
    again.execute_async("search").get_job_execution_result().result()
    assert LogSink.records() == expected()
