"""What leaves a job through the driver: sinks that commit, records that are printed or collected."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

from millrace.driver.committing import Committers
from millrace.driver.printing import print_records
from millrace.graph.job_graph import JobPlan
from millrace.graph.job_options import JobOptions
from millrace.runtime.operators.sinks import CollectOperator
from millrace.runtime.rows import SinkRecords


class Delivery:
    """Hands out what epochs made.

    Printed records go out with their epoch, as in Flink: after a restart some appear again. Collected ones wait for
    the checkpoint (`hold`), after which nothing takes them back.
    """

    def __init__(self, plan: JobPlan, options: JobOptions, committers: Committers) -> None:
        self._plan = plan
        self._print_sinks = options.print_sinks
        self._results: dict[int, queue.Queue[Any]] = {node_id: queue.Queue() for node_id in _collecting(plan, options)}
        self._held: list[SinkRecords] = []
        self._committers = committers

    def hold(self, records: list[SinkRecords]) -> None:
        """Take an epoch's records: print, or keep until `release`."""
        for each in records:
            if each.node in self._print_sinks:
                parallelism = self._plan.stream_graph.nodes[each.node].parallelism
                print_records(each, self._print_sinks[each.node], parallelism)
            else:
                self._held.append(each)

    def release(self) -> None:
        """What is held can no longer be taken back: hand it out."""
        held, self._held = self._held, []
        for each in held:
            for value in each.values:
                self._results[each.node].put(value)

    def take_back(self) -> None:
        """A restart: the records that are held will come again."""
        self._held = []

    def commit(self, committables: dict[int, list[Any]]) -> None:
        """Make visible what the sinks have prepared; see `Committers`."""
        self._committers.commit(committables)

    def clean_up(self) -> None:
        """Nothing of earlier attempts is left to be committed: what they staged beyond that goes."""
        self._committers.clean_up()

    def close(self) -> None:
        """The committers are not needed any more."""
        self._committers.close()

    def results(self, node_id: int) -> Iterator[Any]:
        """What a collecting sink received, epoch by epoch, until the job ends; its error is raised at the end."""
        results = self._results[node_id]
        while True:
            value = results.get()
            if isinstance(value, _End):
                results.put(value)
                if value.error is not None:
                    raise value.error
                return
            yield value

    def end(self, error: BaseException | None) -> None:
        """Nothing more comes."""
        for results in self._results.values():
            results.put(_End(error))


class _End:
    """Stands in a result queue behind the last record."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _collecting(plan: JobPlan, options: JobOptions) -> list[int]:
    """The sinks whose records are the job's results."""
    nodes = [node for vertex in plan.vertices for node in vertex.nodes]
    collecting = [node.id for node in nodes if isinstance(node.operator, CollectOperator)]
    return [node_id for node_id in collecting if node_id not in options.print_sinks]

