"""`millrace replay` runs an epoch again: what it shows is what happened, and nothing is touched."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from millrace.cli.main import main
from millrace.cli.script import run_script
from millrace.common import WatermarkStrategy
from millrace.common.configuration import Configuration
from millrace.common.errors import MillraceError
from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults
from millrace.driver.epoch_records import encode_record, read_records
from millrace.driver.job import JobRun
from millrace.driver.replay.archive import ReplayError
from millrace.driver.replay.fitting import refuse_spark_sources
from millrace.graph.job_graph import plan_job
from millrace.graph.stream_graph import NodeKind, StreamGraph, StreamNode
from millrace.runtime.operators.source import SourceOperator
from millrace.state.files import open_files
from millrace.state.handles import StateHandles
from millrace.testing.in_process import InProcessExecutor

PROGRAM = '''
import sys

from millrace.common import RestartStrategies, Types, WatermarkStrategy
from millrace.datastream import ExternalizedCheckpointRetention, KeyedProcessFunction, OutputTag
from millrace.datastream import SinkFunction, StreamExecutionEnvironment
from millrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millrace.testing import EpochSource

checkpoints, written, parallelism, poison = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
LARGE = OutputTag("large", Types.STRING())


class Payment:
    """A class of the script, in records and in state."""

    def __init__(self, user, amount, time):
        self.user, self.amount, self.time = user, amount, time

    def __repr__(self):
        return f"{self.user}:{self.amount}"


class Total(KeyedProcessFunction):
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.last = context.get_list_state(ListStateDescriptor("last"))
        self.seen = context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def process_element(self, payment, ctx):
        total = self.add(payment)
        self.last.update([*self.last.get(), payment][-2:])
        self.seen.put(payment.amount, (self.seen.get(payment.amount) or 0) + 1)
        ctx.timer_service().register_event_time_timer(payment.time + 15)
        if total > 20:
            yield LARGE, f"{payment.user} has {total}"
        yield f"{payment.user} {total} {self.last.get()} {sorted(self.seen.items())}"

    def add(self, payment):
        total = (self.total.value() or 0) + payment.amount
        self.total.update(total)
        return total

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} was quiet until {timestamp}"


class Append(SinkFunction):
    def invoke(self, value, context):
        with open(written, "a") as file:
            file.write(f"{value}\\n")


def payments():
    number = 0
    for epoch in range(6):
        yield [Payment(f"u{(epoch * 7 + i * i) % 5}", (epoch + 3) * i % 17, epoch * 10 + i) for i in range(10)]


epochs = list(payments())
if poison == "poison":
    epochs[3][6].amount = "12"
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(parallelism)
env.enable_checkpointing(10)
config = env.get_checkpoint_config()
config.set_checkpoint_storage(checkpoints)
config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda payment, _: payment.time)
source = env.from_source(EpochSource(epochs, chunk_records=4), strategy, "payments").uid("payments")
known = source.rebalance().map(lambda payment: payment).uid("known").filter(lambda p: p.amount != 0).uid("not-free")
totals = known.key_by(lambda payment: payment.user).process(Total(), Types.STRING()).uid("total")
totals.map(lambda text: text.upper(), Types.STRING()).uid("shout").add_sink(Append()).uid("file")
totals.get_side_output(LARGE).add_sink(Append()).uid("large")
env.execute("totals")
'''


ADDING, CALLING = (
    next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)
    for text in ("+ payment.amount", "= self.add(payment)")
)


class Ran:
    """The program, as it was run in a directory."""

    def __init__(self, directory: Path, program: str = PROGRAM) -> None:
        self.directory = directory
        self.script = directory / "job.py"
        self.checkpoints = directory / "checkpoints"
        self.written = directory / "written"
        self.script.write_text(program)
        self.written.write_text("")

    def run(self, parallelism: int = 2, poison: str = "", restore: str | None = None) -> Ran:
        configuration = Configuration()
        configuration.set_string("execution.checkpointing.num-retained", "10")
        if restore is not None:
            configuration.set_string("execution.savepoint.path", restore)
            configuration.set_string("state.savepoint.allow-pickle", "true")
        defaults = EnvironmentDefaults(configuration, lambda: InProcessExecutor(every_epoch=True))
        arguments = [str(self.checkpoints), str(self.written), str(parallelism), poison]
        ends = pytest.raises(MillraceError) if poison else contextlib.nullcontext()
        with use_environment_defaults(defaults), ends:
            run_script(str(self.script), arguments, [], pyflink=False)
        return self

    @property
    def home(self) -> Path:
        [entry] = (self.checkpoints / "jobs").glob("*.json")
        return self.checkpoints / entry.stem

    def content(self) -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in self.directory.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    def lines(self) -> list[str]:
        return self.written.read_text().splitlines()


@pytest.fixture(autouse=True, scope="module")
def _jobs_that_end_leave_what_they_have() -> Iterator[None]:
    """A job that finishes deletes its checkpoints; here they stay, as those of one that was cancelled do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRun, "_keeps_files", lambda job, status: job.options.checkpoints.retention != "never")
        yield


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("failed")).run(3, "poison")


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("complete")).run(3)


Replay = Callable[..., tuple[int, str, str]]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    def run(checkpoint: Path, *options: str) -> tuple[int, str, str]:
        code = main(["replay", str(checkpoint), *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def shown(kind: str, printed: str) -> list[str]:
    """The records of one kind, as `repr` shows them, without their timestamps."""
    return re.findall(rf"^{kind} +(.*?)(?:  @-?\d+)?$", printed, re.MULTILINE)


# --- an epoch that failed ---------------------------------------------------------------------------------------------


def test_the_error_of_the_run_comes_again_with_its_line_and_its_record(failed: Ran, replay: Replay) -> None:
    code, out, err = replay(failed.checkpoints)
    assert (code, err) == (1, "")
    assert re.search(r"epoch 4, attempt 1, which failed\n\n  operator   KeyedProcess \(uid total\)", out)
    assert "TypeError: unsupported operand type(s) for +: 'int' and 'str'" in out
    assert f'File "{failed.script}", line {ADDING}, in add' in out
    assert "millrace/runtime" not in out
    assert re.search(r"^Record: u\d:12$", out, re.MULTILINE)


def test_state_is_what_it_was_when_the_function_failed(failed: Ran, replay: Replay) -> None:
    _, out, _ = replay(failed.home)
    places = [(epoch, i) for epoch in range(3) for i in range(10) if (epoch * 7 + i * i) % 5 == 2]
    total = sum((epoch + 3) * i % 17 for epoch, i in places)
    assert "State (before → after)" in out
    # Of the epoch's own records of u2, one of 6 comes before the poison for sure, and one of 7 perhaps.
    assert re.search(rf"^  total of 'u2': {total} → ({total + 6}|{total + 13})$", out, re.MULTILINE), out
    assert re.search(r"^  last of 'u2': \[u2:3\] → \[u2:\d, u2:\d\]$", out, re.MULTILINE), out
    assert re.search(r"^  seen of 'u2' \[6\]: nothing → 1$", out, re.MULTILINE), out
    assert re.search(r"^Timers set\n  'u\d' at \d+ \(event time\)$", out, re.MULTILINE), out


def test_the_mended_program_takes_the_epoch_to_its_end(failed: Ran, replay: Replay, tmp_path: Path) -> None:
    mended = tmp_path / "mended.py"
    mended.write_text(PROGRAM.replace("+ payment.amount", "+ int(payment.amount)").replace(
        "self.seen.put(payment.amount, (self.seen.get(payment.amount) or 0) + 1)", "self.seen.put(1, 1)"
    ))  # fmt: skip
    code, out, _ = replay(failed.checkpoints, "--job", str(mended))
    assert code == 0
    assert "The epoch ends without an error. (When it ran, total, subtask " in out


def test_a_program_with_other_chains_does_not_fit(failed: Ran, replay: Replay, tmp_path: Path) -> None:
    split = tmp_path / "split.py"
    split.write_text(PROGRAM.replace("totals.map(", "totals.rebalance().map("))
    code, _, err = replay(failed.checkpoints, "--job", str(split), "--uid", "shout", "--subtask", "0")
    assert code == 1
    assert "'shout' (Map) is chained in another way, or stands at another place" in err


def test_list_shows_epochs_with_their_ranges_and_the_error(failed: Ran, replay: Replay) -> None:
    code, out, _ = replay(failed.checkpoints, "--list")
    assert code == 0
    assert re.search(r"^ +3 +0 +\d{4}-\S+ \S+ +complete +payments 2 → 3$", out, re.MULTILINE)
    assert re.search(r"^ +4 +1 +\d{4}-\S+ \S+ +failed +payments 3 → 4$", out, re.MULTILINE)
    assert re.search(r"^ +total, subtask \d: TypeError: unsupported operand", out, re.MULTILINE)


# --- an epoch that completed ------------------------------------------------------------------------------------------


def outputs(ran: Ran, replay: Replay, uid: str, epochs: range, parallelism: int) -> tuple[list[str], str]:
    """What an operator gave in all its subtasks and all epochs, and all that was printed."""
    printed = ""
    for epoch in epochs:
        for subtask in range(parallelism):
            options = ("--epoch", str(epoch), "--uid", uid, "--subtask", str(subtask), "--all")
            code, out, err = replay(ran.checkpoints, *options)
            assert (code, err) == (0, "")
            printed += out
    return [line.strip("\"'") for line in shown("out", printed)], printed


def test_every_epoch_gives_what_it_gave_with_timers_and_side_outputs(complete: Ran, replay: Replay) -> None:
    results, printed = outputs(complete, replay, "total", range(1, 7), 3)
    large = [line.strip("\"'") for line in shown("out:large", printed)]
    assert large
    assert sorted([*(line.upper() for line in results), *large]) == sorted(complete.lines())
    assert len(shown("timer", printed)) == sum("QUIET" in line for line in complete.lines()) > 10


def test_an_operator_in_the_middle_of_a_chain_is_watched_by_itself(complete: Ran, replay: Replay) -> None:
    results, printed = outputs(complete, replay, "shout", range(5, 7), 3)
    assert all(line == line.upper() for line in results)
    assert "  chain      KeyedProcess -> Map -> Sink: Unnamed" in printed
    assert set(results) <= set(complete.lines())
    free, _ = outputs(complete, replay, "not-free", range(2, 3), 3)
    assert len(free) == 9


def test_a_sink_shows_what_it_would_have_got_and_writes_nothing(complete: Ran, replay: Replay) -> None:
    before = complete.lines()
    _, printed = outputs(complete, replay, "file", range(6, 7), 3)
    assert "withheld" in printed
    assert len(shown("in", printed)) > 5
    assert complete.lines() == before


def test_a_source_reads_its_range_again(complete: Ran, replay: Replay) -> None:
    results, _ = outputs(complete, replay, "payments", range(3, 4), 1)
    assert len(results) == 10


def test_the_first_epoch_after_a_restore_with_another_parallelism(
    complete: Ran, replay: Replay, tmp_path: Path
) -> None:
    checkpoint = f"{complete.home}/manifests/000000000003.manifest"
    restored = Ran(tmp_path).run(2, restore=checkpoint)
    results, printed = outputs(restored, replay, "total", range(4, 7), 2)
    large = [line.strip("\"'") for line in shown("out:large", printed)]
    assert sorted([*(line.upper() for line in results), *large]) == sorted(restored.lines())


def test_only_the_first_lines_are_shown_unless_all_are_asked_for(
    complete: Ran, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.cli.replay_report.SHOWN", 2)
    options = ("--epoch", "6", "--uid", "payments")
    _, out, _ = replay(complete.checkpoints, *options)
    assert len(shown("out", out)) == 2
    assert "8 more of 'in', 8 more of 'out' (--all shows them)" in out
    _, out, _ = replay(complete.checkpoints, *options, "--all")
    assert len(shown("out", out)) == 10


def test_the_checkpoint_directory_is_byte_for_byte_what_it_was(failed: Ran, complete: Ran, replay: Replay) -> None:
    for ran, options in ((failed, ()), (complete, ("--epoch", "6", "--uid", "total", "--subtask", "1"))):
        before = ran.content()
        replay(ran.checkpoints, *options)
        replay(ran.checkpoints, "--list")
        assert ran.content() == before


# --- pdb --------------------------------------------------------------------------------------------------------------


def at_the_desk(ran: Ran, commands: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "millrace", "replay", str(ran.checkpoints), *options]
    return subprocess.run(command, input=commands, capture_output=True, text=True, timeout=60, check=False)


def test_pdb_stands_where_the_function_failed(failed: Ran) -> None:
    done = at_the_desk(failed, "p payment.amount + '!'\nup\np self.total.value() is not None\nq\n", "--pdb")
    assert f"> {failed.script}({ADDING})add()" in done.stdout
    assert "(Pdb) '12!'" in done.stdout
    assert f"> {failed.script}({CALLING})process_element()" in done.stdout
    assert done.returncode == 1


def test_break_stops_in_the_function_at_its_first_record(failed: Ran) -> None:
    done = at_the_desk(failed, "p payment\ns\nn\nc\np 'here it is'\nq\n", "--break")
    assert f"> {failed.script}({CALLING})process_element()\n-> total = self.add(payment)" in done.stdout
    assert re.search(r"\(Pdb\) u\d:\d+\n", done.stdout)
    assert f"{failed.script}({ADDING})add()" in done.stdout  # One step is one into a function of the program.
    assert "millrace/runtime" not in done.stdout
    assert done.stdout.rstrip().endswith("(Pdb) 'here it is'\n(Pdb)")
    assert done.returncode == 1


def test_leaving_the_debugger_is_no_error_of_the_function(failed: Ran) -> None:
    done = at_the_desk(failed, "q\n", "--break")
    assert "Left the debugger" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 1


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--epoch", "6", "--uid", "nope"), r"No operator has the uid or name 'nope'(.|\n)*\n  not-free +Filter  x3\n"),
        (("--epoch", "6"), r"It is not known which operator is meant.(.|\n)*  total +KeyedProcess  x3"),
        (("--epoch", "6", "--uid", "total"), r"has 3 subtasks, and one of them is to be replayed.\n.*from 0 to 2"),
        (("--epoch", "6", "--uid", "total", "--subtask", "3"), "no subtask 3"),
        (("--epoch", "9"), "no such record of epoch 9.\nAction: Give --epoch, one of 1, 2, 3, 4, 5, 6"),
        ((), "No epoch failed in .*\nAction: Give --epoch, one of 1, 2"),
        (("--epoch", "6", "--uid", "total", "--subtask", "1", "--job", "/nowhere.py"), "'/nowhere.py' is not here"),
    ],
)
def test_what_is_missing_is_told_with_what_there_is(
    complete: Ran, replay: Replay, options: tuple[str, ...], told: str
) -> None:
    code, out, err = replay(complete.checkpoints, *options)
    assert (code, out) == (1, "")
    assert re.search(told, err), err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('.uid("not-free")', '.uid("renamed")', "no operator 'not-free' (Filter); 'renamed' (Filter) is new at "),
        ('env.execute("totals")', 'env.execute("sums")', "does not execute job 'totals' (its jobs: 'sums')"),
        ("env.execute", "print", "does not execute job 'totals' (its jobs: none)"),
    ],
)
def test_a_program_that_does_not_fit_is_told_how(
    failed: Ran, replay: Replay, tmp_path: Path, old: str, new: str, told: str
) -> None:
    other = tmp_path / "other.py"
    other.write_text(PROGRAM.replace(old, new))
    code, _, err = replay(failed.checkpoints, "--job", str(other))
    assert code == 1
    assert told in err


def test_an_upstream_operator_that_fails_now_is_named(complete: Ran, replay: Replay, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(PROGRAM.replace("p.amount != 0", "p.amount / 0"))
    options = ("--job", str(other), "--epoch", "6", "--uid", "total", "--subtask", "0")
    code, _, err = replay(complete.checkpoints, *options)
    assert code == 1
    assert "Operator 'Filter', subtask 0, which feeds the wanted one, fails in this epoch: ZeroDivisionError" in err


def test_the_programs_arguments_can_be_given_again(complete: Ran, replay: Replay) -> None:
    options = ("--epoch", "6", "--uid", "total", "--subtask", "0")
    arguments = (str(complete.checkpoints), str(complete.written), "8", "")
    code, out, _ = replay(complete.checkpoints, *options, "--args", *arguments)
    assert (code, "subtask    0 of 0..2" in out) == (0, True)  # The run's parallelism, not that one.
    code, _, err = replay(complete.checkpoints, *options, "--args")
    assert (code, err.splitlines()[-1]) == (1, "IndexError: list index out of range")


def test_a_directory_without_a_job_is_told(replay: Replay, tmp_path: Path) -> None:
    code, _, err = replay(tmp_path)
    assert code == 1
    assert "There is no job in" in err
    assert "externalized-checkpoint-retention" in err


def test_several_jobs_in_one_directory_are_listed(replay: Replay, tmp_path: Path) -> None:
    ran = Ran(tmp_path).run(1).run(1)
    code, _, err = replay(ran.checkpoints)
    assert code == 1
    assert len(re.findall(rf"\n  {ran.checkpoints}/\w{{32}}  totals \(FINISHED\)", err)) == 2


def test_a_record_that_was_changed_is_refused(replay: Replay, tmp_path: Path) -> None:
    ran = Ran(tmp_path).run(1, "poison")
    path = ran.home / "epochs" / "000000000004.failed.epoch"
    path.write_bytes(path.read_bytes().replace(b'"attempt": 1', b'"attempt": 7'))
    code, _, err = replay(ran.checkpoints)
    assert code == 1
    assert "the checksum of the epoch-record does not fit" in err


def test_a_forged_record_does_not_lead_out_of_the_directory(replay: Replay, tmp_path: Path) -> None:
    ran = Ran(tmp_path).run(1, "poison")
    record = read_records(open_files(ran.home))[0][-1]
    subtasks = {
        vertex: [StateHandles(tuple(replace(handle, path="../../x") for handle in of.chain)) for of in every]
        for vertex, every in record.before.subtasks.items()
    }
    forged = structs.replace(record, before=structs.replace(record.before, subtasks=subtasks))
    (ran.home / forged.path).write_bytes(encode_record(forged))
    code, _, err = replay(ran.checkpoints)
    assert code == 1
    assert "leads out of the job's directory" in err


def test_a_source_that_spark_reads_is_refused() -> None:
    source = StreamNode(1, "df", NodeKind.SOURCE, SourceOperator(None, WatermarkStrategy.no_watermarks()), 1)
    plan = plan_job(StreamGraph("job", {1: source}))
    with pytest.raises(ReplayError, match=r"is read by Spark .* and a replay runs without Spark"):
        refuse_spark_sources(plan, {vertex.id for vertex in plan.vertices})


# --- other programs --------------------------------------------------------------------------------------------------

ITERATING = """
import sys

from millrace.common import RestartStrategies, Types, WatermarkStrategy
from millrace.datastream import CheckpointedFunction, ExternalizedCheckpointRetention, KeyedProcessFunction, MapFunction
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millrace.testing import EpochSource


class Counted(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.state.get())

    def snapshot_state(self, context):
        self.state.update([self.count])

    def map(self, value):
        self.count += 1
        return value


class Limited(KeyedProcessFunction):
    def open(self, context):
        self.number = context.get_state(ValueStateDescriptor("number", Types.LONG()))
        if sys.argv[4] == "shut":
            raise ValueError("it does not open")

    def process_element(self, value, ctx):
        number = (self.number.value() or 0) + 1
        self.number.update(number)
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 1)
        if number == 3:
            raise ValueError("three are enough")

    def on_timer(self, timestamp, ctx):
        return []


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.enable_checkpointing(10)
config = env.get_checkpoint_config()
config.set_checkpoint_storage(sys.argv[1])
config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
env.set_restart_strategy(RestartStrategies.no_restart())
source = env.from_source(EpochSource([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), WatermarkStrategy.no_watermarks(), "numbers")
counted = source.map(Counted()).uid("counted")
iteration = counted.rebalance().iterate()
body = iteration.map(lambda value: value - 4).uid("body")
iteration.close_with(body.filter(lambda value: value > 0).uid("again"))
done = body.filter(lambda value: value <= 0).uid("done")
done.key_by(lambda value: value % 2).process(Limited()).uid("limited").print()
env.execute("iterating")
"""


def test_iterations_operator_state_and_timers_of_processing_time(replay: Replay, tmp_path: Path) -> None:
    ran = Ran(tmp_path, ITERATING).run(2, "poison")
    _, out, _ = replay(ran.checkpoints)
    assert "ValueError: three are enough" in out
    assert re.search(r"^timer  [01] at \d+ \(processing time\)$", out, re.MULTILINE)
    assert re.search(r"^  number of [01]: 2 → 3$", out, re.MULTILINE)
    # What was fed back in the epoch before, 1 of 5, and what the epoch itself has read.
    _, out, _ = replay(ran.checkpoints, "--uid", "body", "--subtask", "0")
    assert shown("in", out) == ["1", "7"]
    _, out, _ = replay(ran.checkpoints, "--uid", "counted", "--subtask", "0")
    assert "  count: [3] → [5]\n" in out


def test_a_function_that_does_not_open_says_so_again(replay: Replay, tmp_path: Path) -> None:
    code, out, _ = replay(Ran(tmp_path, ITERATING).run(2, "shut").checkpoints)
    assert code == 1
    assert "epoch 1, attempt 0, which failed" in out
    assert "Raised in open() of Limited of operator 'KeyedProcess'" in out


def test_a_sink_that_is_asked_to_writes(replay: Replay, tmp_path: Path) -> None:
    ran = Ran(tmp_path).run(1)
    before = ran.lines()
    _, out, _ = replay(ran.checkpoints, "--epoch", "6", "--uid", "file", "--run-sink", "--all")
    assert "writes!" in out
    assert ran.lines()[len(before) :] == [line.strip("\"'") for line in shown("in", out)]
