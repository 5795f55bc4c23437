"""A job that checks itself: every backend, rescaling, place to go on from, and way to end before that.

Each key of the input counts up by one; the program sends what does not to a side output, adds up what it saw, and keeps
every kind of state. Cut anywhere and put together, the parts make what one run makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Configuration
from millrace.common.errors import MillraceError
from millrace.datastream import ExternalizedCheckpointRetention, StreamExecutionEnvironment
from millrace.testing.crashes import Crash, Crashes
from tests.driver.all_round import (
    GatedSource,
    SplitTally,
    Tally,
    UnionTally,
    all_round_epochs,
    build_all_round,
    finish,
    forget,
    wait_for_epochs,
)
from tests.driver.jobs import LogSink, environment

# A backend is held to all of it by its name here.
BACKENDS = ["hashmap", "rocksdb"]

RESCALINGS = [(2, 2), (2, 4), (4, 2)]

# At least 200 records through the checker on each side of the cut.
EPOCHS = all_round_epochs(8, 56)
CUT = 6

RECORDS = sum(value[0] != "rule" for epoch in EPOCHS for value in epoch)

Begin = Callable[[StreamExecutionEnvironment], None]


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What one run makes."""
    forget()
    finish(submitted(program(tmp_path_factory.mktemp("undisturbed"), "hashmap", 2), GatedSource(EPOCHS)))
    return LogSink.records()


def program(directory: Path, backend: str, parallelism: int, path: str | None = None) -> StreamExecutionEnvironment:
    """The environment of one part."""
    env = environment(directory, parallelism)
    env.configure(Configuration.from_dict({"state.backend.type": backend}))
    if path is not None:
        env.configure(Configuration.from_dict({"execution.state-recovery.path": path}))
    return env


def submitted(env: StreamExecutionEnvironment, source: GatedSource) -> Any:
    build_all_round(env, source)
    return env.execute_async("matrix")


def to_the_cut(env: StreamExecutionEnvironment) -> Any:
    job = submitted(env, GatedSource(EPOCHS, CUT))
    wait_for_epochs(job, CUT)
    return job


def die(env: StreamExecutionEnvironment) -> None:
    """Run to the cut and a little further, where the process dies: some files of the next epoch are there, or half."""
    with Crashes() as crashes:
        source = GatedSource(EPOCHS, CUT)
        job = submitted(env, source)
        wait_for_epochs(job, CUT)
        crashes._at = crashes.taken + 5
        source.allowed = len(EPOCHS)
        with pytest.raises(Crash):
            finish(job)


# --- each runs the first part, and gives the path from which the second goes on; None: the job is found by its name --


def checkpoint_after_a_kill(directory: Path, backend: str, parallelism: int, kill: bool) -> str | None:
    """The job is found again by its name. (Cleanly stopped, it would be over: then its checkpoints are kept.)"""
    env = program(directory, backend, parallelism)
    if kill:
        die(env)
        return None
    keep = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    env.get_checkpoint_config().set_externalized_checkpoint_retention(keep)
    job = to_the_cut(env)
    job.cancel().result(30)
    return f"{directory}/checkpoints/{job.get_job_id()}"


def savepoint(directory: Path, backend: str, parallelism: int, kill: bool) -> str | None:
    """A savepoint with which the job stops; or one that it outlives, and is killed right after."""
    target = str(directory / "savepoints")
    with Crashes() as crashes:
        job = to_the_cut(program(directory, backend, parallelism))
        asked = job.trigger_savepoint(target) if kill else job.stop_with_savepoint(False, target)
        path: str = asked.result(30)
        if kill:
            crashes._at = crashes.taken + 1
            job.coordinator.own_sources[next(iter(job.coordinator.own_sources))].allowed = CUT + 1
            with pytest.raises(Crash):
                finish(job)
        else:
            finish(job)
    return path


def checkpoint_after_a_final_failure(directory: Path, backend: str, parallelism: int, kill: bool) -> str | None:
    """The job fails for good, and retention on failure leaves its checkpoints; killed, while it puts them in order."""
    env = program(directory, backend, parallelism)
    keep = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    env.get_checkpoint_config().set_externalized_checkpoint_retention(keep)
    env.configure(Configuration.from_dict({"restart-strategy.type": "none"}))
    broken = GatedSource([*EPOCHS[:CUT], [("k0", "no number")]], CUT)
    with Crashes() as crashes:
        job = submitted(env, broken)
        wait_for_epochs(job, CUT)
        if kill:
            crashes._at = crashes.taken + 1
        broken.allowed = CUT + 1
        with pytest.raises((MillraceError, Crash)):
            finish(job)
    return f"{directory}/checkpoints/{job.get_job_id()}"


@pytest.mark.parametrize("kill", [False, True], ids=["clean stop", "kill"])
@pytest.mark.parametrize("origin", [checkpoint_after_a_kill, savepoint, checkpoint_after_a_final_failure])
@pytest.mark.parametrize(("before", "after"), RESCALINGS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_parts_make_what_one_run_makes(
    tmp_path: Path, undisturbed: list[str], backend: str, before: int, after: int, origin: Any, kill: bool
) -> None:
    path = origin(tmp_path, backend, before, kill)
    committed = LogSink.records()
    assert sum(record.startswith("ruled") for record in committed) >= 200
    assert not Counter(committed) - Counter(undisturbed)
    Tally.counts.clear()
    directory = tmp_path if path is None else tmp_path / "part two"
    finish(submitted(program(directory, backend, after, path), GatedSource(EPOCHS)))
    assert LogSink.records() == undisturbed
    assert not [record for record in undisturbed if "after" in record]
    assert {kind.total() for kind in (SplitTally, UnionTally)} == {RECORDS}
