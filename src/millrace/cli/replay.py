"""`millrace replay CHECKPOINT`: runs one subtask through one epoch again, at a desk."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from millrace.cli import replay_report as report
from millrace.cli.debugger import DebuggerLeft, FunctionDebugger, codes_of, post_mortem
from millrace.cli.info import PlannedJob
from millrace.cli.options import Verbs, add_environment_options, configuration_of, python_path_of
from millrace.cli.script import ScriptError, run_script
from millrace.common.errors import MillraceError
from millrace.driver.epoch_records import EpochRecord
from millrace.driver.replay.archive import JobArchive, ReplayError, find_job, find_operator, find_subtask
from millrace.driver.replay.fitting import epoch_as_recorded, plan_as_recorded
from millrace.driver.replay.running import EpochReplay, Replayed, Wanted
from millrace.driver.replay.watching import StateWatch, watch
from millrace.graph.job_options import JobOptions
from millrace.graph.stream_graph import StreamGraph
from millrace.runtime.epoch import EpochInput, JobSettings
from millrace.runtime.failure import UserCodeError, describe_failure
from millrace.runtime.subtask import Subtask
from millrace.state.errors import StateError
from millrace.state.files import open_files


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser(
        "replay",
        help="run one subtask through one epoch again, to see why it failed",
        description="Runs one subtask of a job through one epoch again, with the state and the records that it had, in "
        "this process and without Spark. Nothing is written: neither to the checkpoint nor to sinks. Without further "
        "options it is the subtask that failed last.",
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the directory of a job, or of the checkpoints of one")
    parser.add_argument("--list", action="store_true", help="show the epochs that can be replayed, and run nothing")
    parser.add_argument("--epoch", type=int, metavar="N", help="the epoch (the one that failed last)")
    parser.add_argument("--attempt", type=int, metavar="N", help="the job's attempt, where an epoch was run in several")
    parser.add_argument("--uid", metavar="OPERATOR", help="the operator's uid or name (the one that failed)")
    parser.add_argument("--subtask", type=int, metavar="K", help="the subtask, from 0 on (the one that failed)")
    parser.add_argument("--all", action="store_true", help=f"show all records, not the first {report.SHOWN}")
    parser.add_argument("--pdb", action="store_true", help="start pdb where the function fails")
    parser.add_argument(
        "--break", dest="breaks", action="store_true", help="start pdb at the function's first record (implies --pdb)"
    )
    parser.add_argument("--run-sink", action="store_true", help="let the operator write, if it is a sink")
    parser.add_argument("--job", metavar="job.py", help="the mended program, in place of the one that ran")
    parser.add_argument(
        "--args", nargs=argparse.REMAINDER, metavar="...", help="the program's arguments, in place of those that it had"
    )
    add_environment_options(parser)
    parser.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """List the epochs, or run the script as far as its job and replay that."""
    archive = find_job(options.checkpoint)
    if options.list:
        report.show_list(archive)
        return 0
    record = archive.record(options.epoch, options.attempt)
    desk = Desk(options, archive, record)
    _run_program(options, archive, record, desk)
    return desk.result()


class _Done(BaseException):
    """Ends the script: its job was replayed."""


def _run_program(
    options: argparse.Namespace, archive: JobArchive, record: EpochRecord, desk: Desk
) -> None:
    """Run the script; the replay takes place where it executes the job, because there its classes are at home."""
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults

    entry = archive.entry
    script = desk.script
    if not script or not Path(script).exists():
        told = f"The program {script!r} is not here." if script else "It is not known which program ran."
        raise ReplayError(told, action="Give it with --job.")
    ordinal, arguments, path = (1, [], []) if entry is None else (entry.ordinal, entry.arguments, entry.python_path)
    executor = ReplayExecutor(record.before.job_name, ordinal, desk.replay)
    if options.args is not None:
        arguments = options.args
    search = [*python_path_of(options), *(item for item in path if item not in sys.path)]
    with (
        use_environment_defaults(EnvironmentDefaults(configuration_of(options), lambda: executor)),
        contextlib.suppress(_Done),
        contextlib.redirect_stdout(sys.stderr),
    ):
        try:
            run_script(script, arguments, search, options.pyflink)
        except (ScriptError, SystemExit):
            if not executor.others:
                raise
    if not executor.done:
        seen = ", ".join(map(repr, executor.others)) or "none"
        raise ReplayError(
            f"{script} does not execute job {record.before.job_name!r} (its jobs: {seen}).",
            action="Give a program that does with --job.",
        )


class ReplayExecutor:
    """Waits for the wanted job, replays it, and ends the script. Other jobs count as done, with no results."""

    def __init__(self, name: str, ordinal: int, replay: Callable[[StreamGraph, JobOptions], None]) -> None:
        self._name = name
        self._ordinal = ordinal
        self._replay = replay
        self._stdout = sys.stdout
        self.others: list[str] = []
        self.done = False

    def submit(self, graph: StreamGraph, job: JobOptions) -> PlannedJob:
        """Take a job."""
        if graph.name != self._name or self.others.count(graph.name) < self._ordinal - 1:
            self.others.append(graph.name)
            return PlannedJob()
        self.done = True
        with contextlib.redirect_stdout(self._stdout):
            self._replay(graph, job)
        raise _Done

    def close(self) -> None:
        """There is nothing to give back."""


class Desk:
    """One replay, from the record to what is shown of it."""

    def __init__(self, options: argparse.Namespace, archive: JobArchive, record: EpochRecord) -> None:
        self._options = options
        self._archive = archive
        self._record = record
        self.script = options.job or ("" if archive.entry is None else archive.entry.script)
        self._operator = find_operator(record, options.uid)
        self._index = find_subtask(record, self._operator, options.subtask)
        self._refusal: BaseException | None = None
        self._code = 1

    def result(self) -> int:
        """The exit code; raises what kept the replay from running."""
        if self._refusal is not None:
            raise self._refusal
        return self._code

    def replay(self, graph: StreamGraph, job: JobOptions) -> None:
        """Called by the script's `execute()`. What goes wrong waits for `result`: the script must not catch it."""
        try:
            self._replay(graph, job)
        except DebuggerLeft:
            print("Left the debugger; the epoch was not run to its end.")
        except (MillraceError, KeyboardInterrupt, BrokenPipeError) as error:
            self._refusal = error

    def _replay(self, graph: StreamGraph, job: JobOptions) -> None:
        plan = plan_as_recorded(graph, self._record)
        found = [(vertex, node) for vertex in plan.vertices for node in vertex.nodes]
        vertex, node = next(place for place in found if place[1].state_id == self._operator.uid)
        files = open_files(self._archive.directory)
        epoch = epoch_as_recorded(plan, self._record, self._archive.directory, files)
        wanted = Wanted(vertex, node, self._index, self._options.run_sink)
        replay = EpochReplay(plan, epoch, self._settings(job), files, wanted)
        try:
            self._run(replay, epoch, wanted)
        finally:
            replay.close()

    def _settings(self, job: JobOptions) -> JobSettings:
        return JobSettings(
            job_id=self._record.before.job_id,
            job_name=job.job_name,
            directory=self._archive.directory,
            attempt=self._record.attempt,
            run="replay",
            parameters=dict(job.parameters),
            cached_files=dict(job.cached_files),
            broadcast_variables=dict(job.broadcast_variables),
        )

    def _run(self, replay: EpochReplay, epoch: EpochInput, wanted: Wanted) -> None:
        printer = report.Printer(self._options.all)
        state: list[StateWatch] = []

        def prepare(subtask: Subtask, inputs: dict[int, int]) -> None:
            report.show_header(self._archive, self._record, self.script, wanted, inputs)
            if self._options.breaks:
                selectors = getattr(subtask.operators[wanted.node.id], "selectors", ())
                printer.at_first_record = FunctionDebugger(codes_of(selectors)).arm
            state.append(StateWatch(subtask, wanted.node, replay.files))
            watch(subtask, wanted.node, printer)

        try:
            replayed = replay.run(prepare)
        finally:
            sys.settrace(None)
        printer.end(replayed.error is not None)
        if isinstance(replayed.error, StateError):
            raise replayed.error
        changes = list(state[0].changes(epoch))
        if replayed.error is not None:  # What the function failed on is what one wants to see.
            changes.sort(key=lambda change: change.key != state[0].last_key)
        report.show_changes(changes, self._options.all)
        report.show_timers(state[0].new_timers(), self._options.all)
        self._tell(replayed, wanted)

    def _tell(self, replayed: Replayed, wanted: Wanted) -> None:
        error = replayed.error
        if error is None:
            print("\nThe epoch ends without an error." + report.compared(self._record))
            self._code = 0
            return
        failure = describe_failure(error, "")
        report.show_failure(failure)
        if self._options.pdb or self._options.breaks:
            post_mortem(error.cause if isinstance(error, UserCodeError) else error)
