"""`millrace info job.py`: shows what a program would run, and runs nothing of it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from millrace.cli.options import Verbs, add_script_options, configuration_of, python_path_of
from millrace.cli.script import run_script
from millrace.common.completable_future import CompletableFuture
from millrace.common.errors import ProgramError
from millrace.common.job_client import JobClient, JobRestart
from millrace.common.job_execution_result import JobExecutionResult
from millrace.common.job_id import JobID
from millrace.common.job_status import JobStatus
from millrace.graph.job_options import JobOptions
from millrace.graph.plan_json import draw_plan, plan_json
from millrace.graph.stream_graph import StreamGraph


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser(
        "info",
        help="show a program's plan",
        description="Shows the plan of each job that a program would run. What the program itself prints goes to "
        "standard error.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="the plan as Flink writes it, in JSON")
    add_script_options(parser)
    parser.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """Run the script with an executor that only keeps the graphs, then show them.

    They are shown when the script fails, too: it may do so because its jobs gave it no results.
    """
    executor = PlanningExecutor()
    try:
        build_jobs(options, executor)
    finally:
        for graph in executor.graphs:
            print(plan_json(graph) if options.json else f"Job {graph.name!r}\n\n{draw_plan(graph)}")
    if not executor.graphs:
        raise ProgramError(
            f"{options.script} executes no job, so there is no plan.", action="Call env.execute() in it."
        )
    return 0


def build_jobs(options: argparse.Namespace, executor: PlanningExecutor) -> None:
    """Run the script; its jobs go to the executor, and what it prints to standard error."""
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults

    defaults = EnvironmentDefaults(configuration_of(options), lambda: executor)
    with use_environment_defaults(defaults), contextlib.redirect_stdout(sys.stderr):
        run_script(options.script, options.args, python_path_of(options), options.pyflink)


class PlanningExecutor:
    """Keeps the graphs of the jobs that it is given, and says at once that they are done."""

    def __init__(self) -> None:
        self.graphs: list[StreamGraph] = []

    def submit(self, graph: StreamGraph, job: JobOptions) -> PlannedJob:
        """Take a job."""
        self.graphs.append(graph)
        return PlannedJob()

    def close(self) -> None:
        """There is nothing to give back."""


# What a script is told that asks for a savepoint, so that it comes to its end.
_NO_SAVEPOINT = "(no savepoint: the job was only looked at)"


class PlannedJob(JobClient):
    """A job that was only looked at: it is finished, and nothing came out of it."""

    def __init__(self) -> None:
        self._id = JobID()

    def get_job_id(self) -> JobID:
        return self._id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(JobStatus.FINISHED)

    def cancel(self) -> CompletableFuture[None]:
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        return CompletableFuture.completed(_NO_SAVEPOINT)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return CompletableFuture.completed(_NO_SAVEPOINT)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture.completed({})

    def get_restarts(self) -> CompletableFuture[list[JobRestart]]:
        return CompletableFuture.completed([])

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return CompletableFuture.completed(JobExecutionResult(self._id, 0, {}))

    def results(self, node_id: int) -> Iterator[Any]:
        """The records of a collecting sink: none."""
        return iter(())
