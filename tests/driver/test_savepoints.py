"""A savepoint and what begins from it make together what one undisturbed run makes."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from millrace.common import Configuration, Types, WatermarkStrategy
from millrace.common.errors import MillraceError
from millrace.common.job_status import JobStatus
from millrace.datastream import ExternalizedCheckpointRetention, KeyedProcessFunction, StreamExecutionEnvironment
from millrace.datastream.functions import ListCheckpointed, MapFunction, SourceFunction
from millrace.datastream.state import ValueStateDescriptor
from millrace.runtime.sources.base import Chunk, Split
from millrace.state.codec import ColumnCodec
from millrace.state.files import open_files
from millrace.state.handles import read_state_file
from millrace.state.key_groups import key_group, key_group_range
from millrace.state.manifest import Manifest, latest_manifest
from millrace.testing.in_process import InProcessExecutor
from tests.driver.all_round import (
    KEYS,
    RECORD_TYPE,
    GatedSource,
    SplitTally,
    Tally,
    UnionTally,
    all_round_epochs,
    build_all_round,
    finish,
    forget,
    start,
    timed,
    wait_for_epochs,
)
from tests.driver.jobs import LogSink, environment

RECORDS = sum(value[0] != "rule" for epoch in all_round_epochs() for value in epoch)

BACKENDS = ["hashmap", "rocksdb"]

# The settings of a job that begins from a savepoint.
FROM = "execution.state-recovery.path"
IGNORE_UNCLAIMED = {"execution.state-recovery.ignore-unclaimed-state": "true"}
ALLOW_PICKLE = {"state.savepoint.allow-pickle": "true"}

# How many of the source's epochs part one reads: it ends in the middle of all timers.
PART_ONE = 5


@pytest.fixture(autouse=True)
def _nothing_is_committed_yet() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What an undisturbed run commits."""
    forget()
    finish(start(tmp_path_factory.mktemp("undisturbed"), 2)[0])
    records = LogSink.records()
    assert not [record for record in records if "after" in record]
    assert SplitTally.total() == RECORDS
    return records


def part_one(
    directory: Path, parallelism: int = 2, drain: bool = False, build: Any = build_all_round, **settings: str
) -> str:
    """Run the program to its middle, and stop it with a savepoint. Its path."""
    job, _ = start(directory, parallelism, GatedSource(all_round_epochs(), PART_ONE), build, **settings)
    wait_for_epochs(job, PART_ONE)
    path: str = job.stop_with_savepoint(drain, str(directory / "savepoints")).result(30)
    finish(job)
    return path


def part_two(directory: Path, path: str, parallelism: int = 2, build: Any = build_all_round, **settings: str) -> Any:
    """Run the program from a savepoint to its end."""
    job, _ = start(directory / "part-two", parallelism, None, build, **{FROM: path}, **settings)
    finish(job)
    return job


def manifest_at(path: str) -> Manifest:
    manifest, damaged = latest_manifest(open_files(path))
    assert manifest is not None
    assert not damaged
    return manifest


# --- rescaling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("before", [1, 2, 4])
def test_a_job_goes_on_from_its_savepoint_at_any_parallelism(
    tmp_path: Path, undisturbed: list[str], before: int, after: int
) -> None:
    path = part_one(tmp_path, before)
    committed = len(LogSink.records())
    assert 0 < committed < len(undisturbed)
    UnionTally.joined.clear()
    Tally.counts.clear()
    part_two(tmp_path, path, after)
    assert LogSink.records() == undisturbed
    assert [kind.total() for kind in (SplitTally, UnionTally, *Tally.__subclasses__())] == [RECORDS] * 5
    assert set(UnionTally.joined) == set(range(after))
    assert len({tuple(sorted(items)) for items in UnionTally.joined.values()}) == 1
    assert all(len(items) == before for items in UnionTally.joined.values())


@pytest.mark.parametrize("parallelism", [2, 3])
def test_key_groups_land_where_they_belong(tmp_path: Path, parallelism: int) -> None:
    path = part_one(tmp_path)
    again = part_one(tmp_path / "again", parallelism, **{FROM: path})
    manifest = manifest_at(again)
    meta = next(meta for meta in manifest.operators if meta.uid == "every")
    found = Counter()
    for subtask, handles in enumerate(manifest.subtasks[meta.vertex]):
        owned = key_group_range(subtask, parallelism, meta.max_parallelism)
        for key in keys_of(again, handles, "every"):
            assert key_group(key, meta.max_parallelism) in owned
            found[key] += 1
    assert found == {f"k{number}": 1 for number in range(KEYS)}


def keys_of(directory: str, handles: Any, uid: str) -> list[Any]:
    """The keys of an operator's value state in one subtask's files."""
    found = []
    for handle in handles.chain:
        for part in read_state_file(open_files(directory), handle).parts:
            for fragment in part.fragments:
                if fragment.uid == uid and fragment.meta["name"] == "value":
                    name = next(name for name in fragment.columns if name.endswith(".key"))
                    found += ColumnCodec(Types.STRING()).decode(fragment.columns[name], allow_pickle=False)
    return found


def columns_of(directory: str, manifest: Manifest) -> Iterator[tuple[str, str, Any]]:
    """Each column of a savepoint's state files, with the operator and the state that it belongs to."""
    for subtasks in manifest.subtasks.values():
        for handles in subtasks:
            for handle in handles.chain:
                for part in read_state_file(open_files(directory), handle).parts:
                    for fragment in part.fragments:
                        for column in fragment.columns.values():
                            yield fragment.uid, fragment.meta["name"], column


def test_a_savepoint_of_a_savepoint(tmp_path: Path, undisturbed: list[str]) -> None:
    first, _ = start(tmp_path, 2, GatedSource(all_round_epochs(), 2))
    wait_for_epochs(first, 2)
    path = first.stop_with_savepoint(False, str(tmp_path / "first")).result(30)
    finish(first)
    second = part_one(tmp_path / "second", 3, **{FROM: path})
    part_two(tmp_path, second, 2)
    assert LogSink.records() == undisturbed


def test_a_savepoint_does_not_disturb_the_job_that_goes_on(tmp_path: Path, undisturbed: list[str]) -> None:
    job, source = start(tmp_path, 2, GatedSource(all_round_epochs(), 3))
    wait_for_epochs(job, 3)
    path = job.trigger_savepoint(f"file://{tmp_path}/savepoints").result(30)
    source.allowed = 100
    finish(job)
    assert LogSink.records() == undisturbed
    forget()
    part_two(tmp_path, path, 4)
    rest = Counter(LogSink.records())
    assert not rest - Counter(undisturbed)
    before = {value[1] for epoch in all_round_epochs()[:3] for value in epoch if value[0] != "rule"}
    ruled_after = [record for record in undisturbed if record.startswith("ruled") and _number(record) not in before]
    assert sorted(record for record in rest if record.startswith("ruled")) == ruled_after


def _number(record: str) -> int:
    return int(record.split()[2])


def test_a_savepoint_does_not_need_the_jobs_directory(tmp_path: Path, undisturbed: list[str]) -> None:
    path = part_one(tmp_path)
    assert not [file for file in (tmp_path / "checkpoints").rglob("*") if file.is_file()]
    moved = Path(path).rename(tmp_path / "moved")
    part_two(tmp_path, str(moved))
    assert LogSink.records() == undisturbed


def test_the_savepoint_directory_may_be_a_setting(tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.set_default_savepoint_directory(str(tmp_path / "default"))
    build_all_round(env, GatedSource(all_round_epochs(), 1))
    job = env.execute_async("all-round")
    assert job.stop_with_savepoint(False).result(30).startswith(str(tmp_path / "default"))
    finish(job)


def test_a_relative_directory_is_the_programs_and_not_a_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job, _ = start(tmp_path, 2, GatedSource(all_round_epochs(), 1))
    path = job.stop_with_savepoint(False, "here").result(30)
    finish(job)
    assert path.startswith(f"{tmp_path}/here/savepoint-")


def test_without_a_directory_a_savepoint_is_refused_and_the_job_goes_on(tmp_path: Path) -> None:
    job, source = start(tmp_path, 2, GatedSource(all_round_epochs(), 1))
    with pytest.raises(MillraceError, match=r"(?s)no directory for the savepoint.*savepoint-dir"):
        job.trigger_savepoint()
    source.allowed = 100
    finish(job)


@pytest.mark.parametrize("stop", [False, True])
def test_a_directory_that_cannot_be_written_fails_the_savepoint_and_not_the_job(
    tmp_path: Path, undisturbed: list[str], stop: bool
) -> None:
    in_the_way = tmp_path / "a file"
    in_the_way.write_text("")
    job, source = start(tmp_path, 2, GatedSource(all_round_epochs(), 1))
    asked = job.stop_with_savepoint(False, str(in_the_way)) if stop else job.trigger_savepoint(str(in_the_way))
    with pytest.raises(MillraceError, match="a file"):
        asked.result(30)
    source.allowed = 100
    finish(job)
    assert job.get_restarts().result() == []
    assert LogSink.records() == undisturbed


def test_a_job_that_has_ended_takes_no_savepoint(tmp_path: Path) -> None:
    job, _ = start(tmp_path, 1)
    finish(job)
    with pytest.raises(MillraceError, match="The job has ended"):
        job.trigger_savepoint(str(tmp_path)).result(30)


def test_a_job_without_checkpoints_takes_savepoints(tmp_path: Path, undisturbed: list[str]) -> None:
    def without_checkpoints(env: StreamExecutionEnvironment, source: GatedSource) -> None:
        env.get_checkpoint_config()._interval = -1
        build_all_round(env, source)

    job, _ = start(tmp_path, 2, GatedSource(all_round_epochs(), PART_ONE), without_checkpoints)
    wait_for_epochs(job, PART_ONE)
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(30)
    finish(job)
    part_two(tmp_path, path, 3, without_checkpoints)
    assert LogSink.records() == undisturbed


def on(backend: str) -> Any:
    def build(env: StreamExecutionEnvironment, source: GatedSource) -> None:
        env.configure(Configuration.from_dict({"state.backend.type": backend}))
        build_all_round(env, source)

    return build


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(BACKENDS, 2)))
def test_the_backend_may_change(tmp_path: Path, undisturbed: list[str], before: str, after: str) -> None:
    path = part_one(tmp_path, build=on(before))
    part_two(tmp_path, path, 3, on(after))
    assert LogSink.records() == undisturbed


# --- checkpoints as the beginning ----------------------------------------------------------------------------------


def retained(directory: Path) -> Path:
    """Run the program to its middle and cancel it; the directory of its checkpoints stays."""
    env = environment(directory)
    keep = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    env.get_checkpoint_config().set_externalized_checkpoint_retention(keep)
    build_all_round(env, GatedSource(all_round_epochs(), PART_ONE))
    job = env.execute_async("all-round")
    wait_for_epochs(job, PART_ONE)
    job.cancel().result(30)
    return directory / "checkpoints" / str(job.get_job_id())


def test_a_job_begins_from_the_newest_checkpoint_in_a_directory(tmp_path: Path, undisturbed: list[str]) -> None:
    part_two(tmp_path, str(retained(tmp_path)), 3)
    assert LogSink.records() == undisturbed


def test_a_job_begins_from_the_one_checkpoint_that_is_named(tmp_path: Path, undisturbed: list[str]) -> None:
    manifests = sorted((retained(tmp_path) / "manifests").iterdir())
    assert len(manifests) == 2
    forget()
    part_two(tmp_path, str(manifests[0]), 3)
    assert not Counter(LogSink.records()) - Counter(undisturbed)
    assert "k6 12" in " ".join(LogSink.records())


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = retained(tmp_path)
    newest = max((directory / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "millrace.job"):
        part_two(tmp_path, str(directory), 3)
    assert newest.name in caplog.text


@pytest.mark.parametrize("path", ["nowhere", "nowhere/manifests/000000000001.manifest", "nowhere/what.manifest"])
def test_a_path_without_a_savepoint_is_refused_by_name(tmp_path: Path, path: str) -> None:
    with pytest.raises(MillraceError, match=path.rpartition("/")[2]):
        part_two(tmp_path, str(tmp_path / path))


# --- draining ------------------------------------------------------------------------------------------------------


def test_draining_fires_all_timers_and_ends_event_time(tmp_path: Path) -> None:
    path = part_one(tmp_path, drain=True)
    fired = [record for record in LogSink.records() if record.startswith("every") and " at " in record]
    numbers = [value for epoch in all_round_epochs()[:PART_ONE] for value in epoch if value[0] != "rule"]
    assert len([record for record in fired if "at last" not in record]) == len(numbers)
    timers = [state for meta in manifest_at(path).operators for state in meta.states if state.section == "timers"]
    assert sum(state.entries for state in timers if state.name == "event") == 0


def test_stopping_without_draining_leaves_timers_in_the_savepoint(tmp_path: Path) -> None:
    manifest = manifest_at(part_one(tmp_path))
    timers = [state for meta in manifest.operators for state in meta.states if state.section == "timers"]
    assert sum(state.entries for state in timers if state.name == "event") > 0


def test_a_job_from_a_drained_savepoint_has_nothing_left_to_do(tmp_path: Path) -> None:
    path = part_one(tmp_path, drain=True)
    before = LogSink.records()
    job = part_two(tmp_path, path, 3)
    assert job.get_job_status().result() is JobStatus.FINISHED
    assert LogSink.records() == before


# --- changed programs ----------------------------------------------------------------------------------------------


class Extra(KeyedProcessFunction):
    """An operator that the program did not have before."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        yield f"extra {value[0]} {self.seen.value()}"


def with_an_operator_more(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    build_all_round(env, source)
    extra = env.from_source(GatedSource([[("x", 1), ("x", 2)], [("x", 3)]]), timed(), "more", RECORD_TYPE).uid("more")
    extra.key_by(lambda value: value[0], Types.STRING()).process(Extra(), Types.STRING()).uid("extra").sink_to(
        LogSink()
    ).uid("extra log")


def test_an_operator_and_a_source_that_are_new_begin_without_state(tmp_path: Path, undisturbed: list[str]) -> None:
    path = part_one(tmp_path)
    part_two(tmp_path, path, 3, with_an_operator_more)
    assert LogSink.records() == sorted([*undisturbed, "extra x 1", "extra x 2", "extra x 3"])


def without_chains(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    env.disable_operator_chaining()
    build_all_round(env, source)


def with_an_operator_before(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    """All that have no uid would have another place now."""
    env.from_collection(["first"]).map(lambda text: text).sink_to(LogSink())
    build_all_round(env, source)


@pytest.mark.parametrize("build", [without_chains, with_an_operator_before])
def test_chains_and_places_in_the_program_may_change(tmp_path: Path, undisturbed: list[str], build: Any) -> None:
    path = part_one(tmp_path)
    part_two(tmp_path, path, 3, build)
    assert [record for record in LogSink.records() if record != "first"] == undisturbed


def test_an_operator_that_is_gone_is_refused_by_name_and_state(tmp_path: Path) -> None:
    path = part_one(tmp_path, build=with_an_operator_more)
    with pytest.raises(MillraceError) as refused:
        part_two(tmp_path, path, 2)
    text = str(refused.value)
    assert "KeyedProcess (uid 'extra'): 'seen'" in text
    assert "(uid 'more'): its offsets" in text
    assert "ignore-unclaimed-state" in text


def test_an_operator_that_is_gone_may_be_left_behind(tmp_path: Path, undisturbed: list[str]) -> None:
    path = part_one(tmp_path, build=with_an_operator_more)
    part_two(tmp_path, path, 2, **IGNORE_UNCLAIMED)
    assert [record for record in LogSink.records() if not record.startswith("extra")] == undisturbed


class OnlyTimers(KeyedProcessFunction):
    """Keeps nothing but timers."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key()


class OnlyAList(MapFunction, ListCheckpointed):
    """Keeps nothing but the list of ListCheckpointed."""

    def map(self, value: Any) -> Any:
        return value

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [1]

    def restore_state(self, state: list[int]) -> None:
        pass


def with_only_timers(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    numbers.key_by(lambda value: value[0], Types.STRING()).process(OnlyTimers(), Types.STRING()).uid("kept").sink_to(
        LogSink()
    )


def with_only_a_list(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    numbers.map(OnlyAList(), RECORD_TYPE).uid("kept").sink_to(LogSink())


def with_nothing_kept(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers").sink_to(LogSink()).uid("sink")


@pytest.mark.parametrize(("build", "what"), [(with_only_timers, "its timers"), (with_only_a_list, "its list")])
def test_timers_and_listed_state_are_not_left_behind_unseen_either(tmp_path: Path, build: Any, what: str) -> None:
    path = part_one(tmp_path, build=build)
    with pytest.raises(MillraceError, match=rf"\(uid 'kept'\): {what}"):
        part_two(tmp_path, path, 2, with_nothing_kept)


@pytest.mark.parametrize("build", [with_only_timers, with_only_a_list])
def test_an_operator_that_holds_nothing_may_go(tmp_path: Path, build: Any) -> None:
    job, _ = start(tmp_path, 2, GatedSource([[]] * 5, 0), with_only_timers)
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(30)
    finish(job)
    job, _ = start(tmp_path / "two", 2, GatedSource([[]] * 5), with_nothing_kept, **{FROM: path})
    finish(job)


# --- max parallelism -----------------------------------------------------------------------------------------------


def with_max_parallelism(most: int | None) -> Any:
    def build(env: StreamExecutionEnvironment, source: GatedSource) -> None:
        if most is not None:
            env.set_max_parallelism(most)
        build_all_round(env, source)

    return build


def test_another_max_parallelism_is_refused(tmp_path: Path) -> None:
    path = part_one(tmp_path, build=with_max_parallelism(8))
    with pytest.raises(MillraceError, match=r"(?s)KeyedProcess.*max parallelism 16.*written with 8.*Set its max"):
        part_two(tmp_path, path, 2, with_max_parallelism(16))


def test_a_parallelism_above_the_savepoints_max_is_refused(tmp_path: Path) -> None:
    path = part_one(tmp_path, build=with_max_parallelism(4))
    with pytest.raises(MillraceError, match=r"(?s)parallelism 5, more than the max parallelism 4.*at most 4"):
        part_two(tmp_path, path, 5)


def test_the_max_parallelism_is_the_savepoints_where_the_program_says_nothing(
    tmp_path: Path, undisturbed: list[str]
) -> None:
    path = part_one(tmp_path, build=with_max_parallelism(5))
    again = part_one(tmp_path / "again", 4, **{FROM: path})
    keyed = {meta.uid: meta.max_parallelism for meta in manifest_at(again).operators}
    assert keyed["every"] == keyed["checker"] == keyed["sum"] == 5
    part_two(tmp_path, again, 5)
    assert LogSink.records() == undisturbed


# --- uids ----------------------------------------------------------------------------------------------------------


def without_uids(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    build_all_round(env, source, uids=False)


def test_operators_without_uid_are_named_in_the_log_and_found_again_by_the_same_program(
    tmp_path: Path, undisturbed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "millrace.job"):
        path = part_one(tmp_path, build=without_uids)
    [warning] = [record.getMessage() for record in caplog.records if "uid" in record.getMessage()]
    for name in ("KeyedProcess", "Keyed Aggregation", "Map"):
        assert name in warning
    part_two(tmp_path, path, 3, without_uids)
    assert LogSink.records() == undisturbed


def test_operators_with_uids_are_not_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "millrace.job"):
        part_one(tmp_path)
    assert not [record for record in caplog.records if "uid" in record.getMessage()]


# --- pickle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_typed_program_has_nothing_pickled_in_its_savepoint(tmp_path: Path, backend: str) -> None:
    path = part_one(tmp_path, build=on(backend))
    manifest = manifest_at(path)
    columns = list(columns_of(path, manifest))
    names = {(uid, name) for uid, name, _ in columns}
    assert {("every", state) for state in ("value", "items", "entries", "sum", "mean", "event")} <= names
    assert {("split", "split"), ("union", "union"), ("list", "@list-checkpointed"), ("ruled", "rules")} <= names
    assert {("numbers", "@splits"), ("numbers", "@time")} <= names
    assert [(uid, name) for uid, name, column in columns if column.pickled or column.encoding == "pickle"] == []
    assert not [text for text in manifest.committables.values() if text.startswith("pickle")]
    assert '"pickle"' not in " ".join(str(column.data) for _, _, column in columns)


class Anything(KeyedProcessFunction):
    """Keeps an object of a class that has no type."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.kept.update(Counter({"seen": (self.kept.value() or Counter())["seen"] + 1}))
        yield f"{value[0]} {self.kept.value()['seen']}"


def with_pickles(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    numbers.key_by(lambda value: value[0], Types.STRING()).process(Anything(), Types.STRING()).uid("anything").sink_to(
        LogSink()
    ).uid("log")


def test_pickled_state_is_refused_unless_it_is_trusted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = part_one(tmp_path, build=with_pickles)
    caplog.set_level(logging.WARNING, "millrace.job")
    refused = r"(?s)'kept' of operator 'anything'.*pickled.*Action: .*state.savepoint.allow-pickle"
    with pytest.raises(MillraceError, match=refused):
        part_two(tmp_path, path, 3, with_pickles)
    assert "restarts in" not in caplog.text, "trying again cannot help"
    part_two(tmp_path, path, 3, with_pickles, **ALLOW_PICKLE)
    assert "k6 12" in LogSink.records()


# --- event time ----------------------------------------------------------------------------------------------------


class Lateness(KeyedProcessFunction):
    """Tells for each record whether it is late, and how far event time is."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        watermark = ctx.timer_service().current_watermark()
        yield f"{value[0]} {value[1]} {'late' if ctx.timestamp() <= watermark else 'in time'}"


def lateness(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    again = numbers.map(lambda value: value, RECORD_TYPE).rebalance()
    again.key_by(lambda value: value[0], Types.STRING()).process(Lateness(), Types.STRING()).uid("lateness").sink_to(
        LogSink()
    ).uid("log")


@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.parametrize("before", [1, 2, 4])
def test_a_late_record_stays_late_after_a_restore(tmp_path: Path, before: int, after: int) -> None:
    epochs = [[("a", 5), ("b", 6)], [("a", 3), ("c", 9), ("b", 8)], []]
    job, _ = start(tmp_path, before, GatedSource(epochs, 1, chunk_records=1), lateness)
    wait_for_epochs(job, 1)
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(30)
    finish(job)
    source = GatedSource(epochs, chunk_records=1)
    finish(start(tmp_path / "two", after, source, lateness, **{FROM: path})[0])
    assert LogSink.records() == sorted(["a 5 in time", "b 6 in time", "a 3 late", "c 9 in time", "b 8 late"])


class TwoSplits(GatedSource):
    """Deals each epoch out to two splits, `even` and `odd`; one without records is not read. Any number of readers."""

    max_parallelism = None

    def plan(self, start: Any, end: Any, readers: int) -> list[list[Split]]:
        shares: list[list[Split]] = [[] for _ in range(readers)]
        for number, name in enumerate(("even", "odd")):
            split = Split(name, number, (start["next"], end["next"]))
            if list(self.read(split)):
                shares[number % readers].append(split)
        return shares

    def read(self, split: Split) -> Iterator[Chunk]:
        records = [record for epoch in self._epochs[slice(*split.range)] for record in epoch]
        own = [record for record in records if (record[0] in "aceg") == (split.id == "even")]
        for seq, record in enumerate(own):
            yield Chunk(seq, [record])


@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.parametrize("before", [1, 2, 4])
def test_readers_without_a_split_do_not_hold_event_time_back_after_a_restore(
    tmp_path: Path, before: int, after: int
) -> None:
    epochs = [[("a", 5), ("b", 6)], [("a", 4), ("b", 3)], [("a", 4)], [("a", 8), ("b", 9)], []]
    job, _ = start(tmp_path, before, TwoSplits(epochs, 1), lateness)
    wait_for_epochs(job, 1)
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(30)
    finish(job)
    finish(start(tmp_path / "two", after, TwoSplits(epochs), lateness, **{FROM: path})[0])
    late = sorted(record for record in LogSink.records() if "late" in record)
    assert late == ["a 4 late", "a 4 late", "b 3 late"]


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 1), (2, 2)])
def test_a_split_that_is_silent_after_a_restore_still_holds_event_time_back(
    tmp_path: Path, before: int, after: int
) -> None:
    """Its records would be late else."""
    epochs = [[("a", 5), ("b", 6)], [("a", 50)], [("a", 60)], [("b", 7), ("a", 70)], []]
    job, _ = start(tmp_path, before, TwoSplits(epochs, 1), lateness)
    wait_for_epochs(job, 1)
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(30)
    finish(job)
    finish(start(tmp_path / "two", after, TwoSplits(epochs), lateness, **{FROM: path})[0])
    assert "b 7 in time" in LogSink.records()


# --- sources -------------------------------------------------------------------------------------------------------


class Loop(SourceFunction):
    """Yields some records and ends."""

    def run(self, ctx: Any) -> Iterator[Any]:
        yield from [("loop", 1), ("loop", 2)]


def with_a_source_function(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    loop = env.add_source(Loop(), "loop", RECORD_TYPE).uid("loop")
    loop.union(numbers).key_by(lambda value: value[0], Types.STRING()).process(Extra(), Types.STRING()).uid(
        "extra"
    ).sink_to(LogSink()).uid("log")


def test_a_source_function_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    path = part_one(tmp_path, build=with_a_source_function)
    part_two(tmp_path, path, 3, with_a_source_function)
    assert [record for record in LogSink.records() if "loop" in record] == ["extra loop 1", "extra loop 2"]


def without_the_source_function(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, timed(), "numbers", RECORD_TYPE).uid("numbers")
    numbers.key_by(lambda value: value[0], Types.STRING()).process(Extra(), Types.STRING()).uid("extra").sink_to(
        LogSink()
    ).uid("log")


def test_a_source_that_is_gone_is_refused_with_its_offsets_and_may_be_left_behind(tmp_path: Path) -> None:
    path = part_one(tmp_path, build=with_a_source_function)
    with pytest.raises(MillraceError, match=r"uid 'loop'\): its offsets"):
        part_two(tmp_path / "refused", path, 2, without_the_source_function)
    part_two(tmp_path / "again", path, 2, without_the_source_function, **IGNORE_UNCLAIMED)
    assert "extra k6 12" in LogSink.records()


# --- iterations ----------------------------------------------------------------------------------------------------


def iterating(env: StreamExecutionEnvironment, source: GatedSource) -> None:
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", RECORD_TYPE).uid("numbers")
    rounds = numbers.rebalance().iterate()
    less = rounds.map(Less(), RECORD_TYPE).uid("less")
    rounds.close_with(less.filter(lambda value: value[1] > 0))
    less.map(lambda value: f"{value[0]} {value[1]}", Types.STRING()).sink_to(LogSink()).uid("log")


class Less(MapFunction):
    """One less; fails when it is told to."""

    fail_at: ClassVar[int | None] = None

    def map(self, value: Any) -> Any:
        if Less.fail_at == value[1]:
            Less.fail_at = None
            raise RuntimeError("told to fail")
        return (value[0], value[1] - 1)


ROUNDS = [[("a", 40), ("b", 30), ("c", 20)], []]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_what_an_iteration_carries_is_in_the_savepoint(tmp_path: Path, after: int) -> None:
    path = stopped_iteration(tmp_path)
    source = GatedSource(ROUNDS)
    with pytest.raises(MillraceError, match=r"(?s)records of an iteration.*allow-pickle"):
        start(tmp_path / "refused", after, source, iterating, **{FROM: path})
    finish(start(tmp_path / "two", after, source, iterating, **{FROM: path}, **ALLOW_PICKLE)[0])
    assert LogSink.records() == sorted(f"{name} {number}" for name, top in ROUNDS[0] for number in range(top))


def stopped_iteration(directory: Path) -> str:
    job, _ = start(directory, 2, GatedSource(ROUNDS, 1), iterating)
    wait_for_epochs(job, 1)
    path: str = job.stop_with_savepoint(False, str(directory / "savepoints")).result(30)
    finish(job)
    assert manifest_at(path).feedback, "the test was too slow: no round is left"
    return path


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_failure_before_the_first_checkpoint_goes_back_to_the_savepoint(tmp_path: Path, rounds: int) -> None:
    path = stopped_iteration(tmp_path)
    most = max(int(record.split()[1]) for record in LogSink.records() if record.startswith("a"))
    lowest = min(int(record.split()[1]) for record in LogSink.records() if record.startswith("a"))
    assert most == 39

    def rarely(env: StreamExecutionEnvironment, source: GatedSource) -> None:
        env._executor = InProcessExecutor()
        env.enable_checkpointing(1_000_000)
        iterating(env, source)

    Less.fail_at = lowest - rounds
    job, _ = start(tmp_path / "two", 2, GatedSource(ROUNDS), rarely, **{FROM: path}, **ALLOW_PICKLE)
    finish(job)
    assert len(job.get_restarts().result()) == 1
    assert LogSink.records() == sorted(f"{name} {number}" for name, top in ROUNDS[0] for number in range(top))
