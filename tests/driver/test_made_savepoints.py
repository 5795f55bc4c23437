"""Jobs begin from savepoints that were made or changed outside of any job, and from their own after a type changed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.cli.main import main
from millrace.common import Types, WatermarkStrategy
from millrace.common.errors import MillraceError
from millrace.common.typeinfo import TypeInformation
from millrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millrace.state import ListStateDescriptor, MapStateDescriptor, Savepoint, ValueStateDescriptor, key_group
from millrace.testing import EpochSource
from millrace.testing.crashes import Crash, Crashes
from millrace.testing.in_process import InProcessExecutor
from tests.driver.jobs import LogSink, environment, submit

NO_TIME = WatermarkStrategy.no_watermarks()
WORDS = [f"word {n}" for n in range(20)]


class Count(KeyedProcessFunction):
    """Counts each word, remembers the last counts, and says both."""

    def __init__(self, total_type: TypeInformation) -> None:
        self._total_type = total_type

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self._total_type))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.marks = runtime_context.get_map_state(MapStateDescriptor("marks", Types.STRING(), Types.BOOLEAN()))

    def process_element(self, value: str, ctx: Any) -> Iterator[Any]:
        total = (self.total.value() or 0) + 1
        self.total.update(total)
        self.recent.add(int(total))
        yield value, total, self.recent.get(), dict(self.marks.items())


def run(
    path: Path | None, parallelism: int, total_type: TypeInformation, uid: str = "count", **settings: str
) -> dict[str, tuple[Any, ...]]:
    """Run the program, from a savepoint if one is given, on each word once; what it said of each."""
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    env.set_parallelism(parallelism)
    if path is not None:
        settings["execution.state-recovery.path"] = str(path)
    for key, value in settings.items():
        env._configuration.set_string(key, value)
    words = env.from_source(EpochSource([WORDS[:9], WORDS[9:]]), NO_TIME, "words").uid("words")
    counted = words.key_by(lambda word: word, Types.STRING()).process(Count(total_type)).uid(uid)
    results = list(counted.execute_and_collect("count"))
    assert Counter(word for word, *_ in results) == dict.fromkeys(WORDS, 1)
    return {word: tuple(rest) for word, *rest in results}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A savepoint from nothing, in which word n was counted n times."""
    savepoint = Savepoint.new(max_parallelism=32).with_operator("count", Types.STRING())
    total = ValueStateDescriptor("total", Types.LONG())
    savepoint = savepoint.with_keyed_state("count", total, [(word, n) for n, word in enumerate(WORDS)])
    recent = ListStateDescriptor("recent", Types.LONG())
    savepoint = savepoint.with_keyed_state("count", recent, {word: [n] for n, word in enumerate(WORDS)})
    marks = MapStateDescriptor("marks", Types.STRING(), Types.BOOLEAN())
    savepoint = savepoint.with_keyed_state("count", marks, {WORDS[3]: {"third": True}})
    savepoint.write(tmp_path / "made")
    return tmp_path / "made"


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_begins_from_a_savepoint_made_from_nothing(made: Path, parallelism: int) -> None:
    seen = run(made, parallelism, Types.LONG())
    marks = {WORDS[3]: {"third": True}}
    assert seen == {word: (n + 1, [n, n + 1], marks.get(word, {})) for n, word in enumerate(WORDS)}


def test_a_job_begins_from_a_changed_savepoint(made: Path, tmp_path: Path) -> None:
    changed = Savepoint.read(made).transform_keyed_state("count", "total", lambda word, n: n * 100 if n else None)
    changed.with_keyed_state("count", "recent", {}).write(tmp_path / "changed")
    seen = run(tmp_path / "changed", 2, Types.LONG())
    assert {word: said[:2] for word, said in seen.items()} == {
        word: (n * 100 + 1, [n * 100 + 1]) for n, word in enumerate(WORDS)
    }


def test_a_type_that_became_wider_is_restored_and_one_that_did_not_fit_is_refused(made: Path) -> None:
    seen = run(made, 2, Types.DOUBLE())
    assert {word: said[0] for word, said in seen.items()} == {word: n + 1.0 for n, word in enumerate(WORDS)}
    assert {type(said[0]) for word, said in seen.items() if word != WORDS[0]} == {float}
    with pytest.raises(MillraceError, match="state 'total' of operator 'count': LONG cannot become STRING"):
        run(made, 2, Types.STRING())


def test_state_of_another_operator_is_refused_or_dropped(made: Path) -> None:
    with pytest.raises(MillraceError, match="The program has no operator for this state"):
        run(made, 2, Types.LONG(), uid="other")
    ignore = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    assert {said[0] for said in run(made, 2, Types.LONG(), uid="other", **ignore).values()} == {1}


def test_every_key_is_in_the_file_of_its_key_group(made: Path) -> None:
    view = Savepoint.read(made).keyed_state("count", "total")
    groups = dict(zip(*(view.to_arrow().column(name).to_pylist() for name in ("key", "key_group")), strict=True))
    assert groups == {word: key_group(word, 32) for word in WORDS}


def test_checkpoints_of_a_killed_job_are_read_copied_and_gone_on_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LogSink.committed.clear()
    with Crashes(at=90), contextlib.suppress(Crash):
        submit(environment(tmp_path / "first")).get_job_execution_result().result()
    (manifests,) = (tmp_path / "first" / "checkpoints").glob("*/manifests")
    savepoint = Savepoint.read(manifests.parent)
    seen = dict(savepoint.keyed_state("checker", "last"))
    assert set(seen) <= {f"k{n}" for n in range(5)}
    assert min(seen.values()) > 1
    assert dict(savepoint.keyed_state("checker", "sum")) == {key: n * (n + 1) // 2 for key, n in seen.items()}
    assert len(savepoint.timers("checker"))
    savepoint.write(tmp_path / "copy")
    assert main(["savepoint", "inspect", str(tmp_path / "copy")]) == 0
    shown = capsys.readouterr().out
    assert "checker (" in shown
    assert "@" not in shown
    trust = {"execution.state-recovery.path": str(tmp_path / "copy"), "state.savepoint.allow-pickle": "true"}
    submit(environment(tmp_path / "second", 3, **trust)).get_job_execution_result().result()
    records = LogSink.records()
    assert not [record for record in records if "after" in record]
    assert len([record for record in records if " at " not in record]) == 60
