"""Exactly once, shown by breaking it: the driver (and all its tasks) dies at every step of the protocol in turn."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.common import Configuration, RestartStrategies
from millrace.common.errors import MillraceError
from millrace.testing.crashes import Crash, Crashes
from tests.driver.jobs import LogSink, environment, epochs, submit

SEED = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 30)))


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    LogSink.committed.clear()
    yield
    LogSink.announce = staticmethod(lambda what: None)
    LogSink.committed.clear()


def run(directory: Path, crashes: Crashes | None = None, parallelism: int = 2, backend: str = "hashmap") -> None:
    """Run the program to its end; raises Crash where its process dies."""
    LogSink.announce = staticmethod(crashes.step if crashes is not None else lambda what: None)
    env = environment(directory, parallelism)
    env.configure(Configuration.from_dict({"state.backend.type": backend}))
    submit(env).get_job_execution_result().result()


def is_over(directory: Path) -> bool:
    """Whether the job had ended, as far as another process can tell."""
    return not list((directory / "checkpoints" / "jobs").glob("*.json"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], int]:
    """What the program commits, and in how many steps."""
    with Crashes() as steps:
        run(tmp_path_factory.mktemp("undisturbed"), steps)
    records = LogSink.records()
    assert len(records) == 60 + 60
    assert not [record for record in records if "after" in record]
    return records, steps.taken


@pytest.mark.parametrize(("backend", "every"), [("hashmap", 1), ("rocksdb", 3)])
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(
    tmp_path: Path, undisturbed: tuple[list[str], int], backend: str, every: int
) -> None:
    """Each step in turn; on RocksDB, which writes the same files and takes longer, each third."""
    expected, steps = undisturbed
    assert steps > 100
    for number in range(1, steps + 1, every):
        LogSink.committed.clear()
        directory = tmp_path / str(number)
        with Crashes(at=number) as crashes, contextlib.suppress(Crash):
            run(directory, crashes, backend=backend)
        assert crashes.dead
        if not is_over(directory) or not LogSink.committed:
            run(directory, backend=backend)
        assert LogSink.records() == expected, f"died at step {number}: {crashes.last}"
        assert is_over(directory)


@pytest.mark.parametrize("round_", range(40))
def test_several_crashes_on_the_way_and_another_parallelism_and_backend_after_each(
    tmp_path: Path, undisturbed: tuple[list[str], int], round_: int
) -> None:
    expected, steps = undisturbed
    draw = random.Random(f"{SEED}-{round_}")
    for _ in range(3):
        number = draw.randrange(1, steps)
        with Crashes(at=number) as crashes:
            try:
                run(tmp_path, crashes, draw.choice([1, 2, 4]), draw.choice(["hashmap", "rocksdb"]))
            except Crash:
                continue
        break  # It had less to do than that, and came to its end.
    else:
        run(tmp_path, None, draw.choice([1, 2, 3]), draw.choice(["hashmap", "rocksdb"]))
    assert LogSink.records() == expected, f"MILLRACE_SEED={SEED}, round {round_}"


@pytest.mark.parametrize("round_", range(40))
def test_a_full_disk_is_waited_for(tmp_path: Path, undisturbed: tuple[list[str], int], round_: int) -> None:
    expected, steps = undisturbed
    draw = random.Random(f"{SEED}-{round_}")
    with Crashes(at=draw.randrange(5, steps - 5), full_for=draw.choice([1, 2, 5])) as full:
        run(tmp_path, full)
    assert LogSink.records() == expected, f"MILLRACE_SEED={SEED}, round {round_}, full at {full.last}"
    assert is_over(tmp_path)


def test_a_disk_that_stays_full_fails_the_job_and_a_later_start_goes_on(tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 0))
    env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1)
    with Crashes(at=40, full_for=10_000), pytest.raises((MillraceError, OSError), match="No space left on device"):
        submit(env).get_job_execution_result().result()
    run(tmp_path)
    assert len(LogSink.records()) == 120


def test_the_next_start_after_a_job_that_ended_begins_anew(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path)
    assert len(LogSink.records()) == 2 * 120


def test_a_driver_that_lost_its_job_to_another_completes_no_checkpoint(tmp_path: Path) -> None:
    """Both are in this process; what stands between them is the entry that the second one has written."""
    taken_over = []

    def take_over(what: str) -> None:
        entry = next((tmp_path / "checkpoints" / "jobs").glob("*.json"))
        if not taken_over and "committing" in what:
            text = entry.read_text()
            start = text.index('"owner": "') + len('"owner": "')
            entry.write_text(text[:start] + "somebody else" + text[start + 32 :])
            taken_over.append(what)

    LogSink.announce = staticmethod(take_over)
    with pytest.raises(MillraceError, match="Another driver runs the job"):
        submit(environment(tmp_path)).get_job_execution_result().result()
    assert len(LogSink.committed) < 10


def test_a_short_stream_ends_with_its_first_checkpoint(tmp_path: Path) -> None:
    submit(environment(tmp_path), epochs(1)).get_job_execution_result().result()
    assert len(LogSink.records()) == 20
