"""What the driver decides about a job's epochs. Pure: no Spark, no clock, no thread.

    next_epoch / epoch_of_range ─► EpochInput ─► (some runner) ─► reports ─► complete ─► EpochResult

An epoch counts from the moment in which `complete` accepts its reports; until then it can be thrown away and run
again from the manifest before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from millrace.common.errors import MillraceError
from millrace.driver.job_state import JobState
from millrace.graph.job_graph import JobPlan, Vertex
from millrace.runtime.epoch import EpochInput, OperatorReport, SubtaskId, SubtaskReport
from millrace.runtime.metrics import merge_metrics
from millrace.runtime.operators.feedback import FeedbackTail
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.rows import SinkRecords, decode_report
from millrace.runtime.sources.base import Offset, Source
from millrace.state.handles import StateHandles
from millrace.state.manifest import StateMeta


class EpochRejectedError(MillraceError):
    """The reports of an epoch do not fit together; nothing of it counts, and it must run again."""

    default_code = "MR-2003"


@dataclass
class EpochResult:
    """A complete epoch: what its sinks have for the driver, and the files that were written for a savepoint."""

    number: int
    records: list[SinkRecords]
    final: bool
    savepoint: dict[SubtaskId, StateHandles] = field(default_factory=dict)


class Coordinator:
    """Cuts a job into epochs and keeps the account of them."""

    def __init__(
        self, plan: JobPlan, batch_mode: bool = False, state: JobState | None = None, epoch_records: int | None = None
    ) -> None:
        self._plan = plan
        self._epoch_records = epoch_records
        self._sources = _own_sources(plan)
        self._readers = {vertex.id: vertex.parallelism for vertex in plan.vertices}
        self._source_vertices = [vertex.id for vertex in plan.vertices if _is_source(vertex)]
        self._iterates = any(isinstance(node.operator, FeedbackTail) for v in plan.vertices for node in v.nodes)
        self._subtasks = {(v.id, index) for v in plan.vertices for index in range(v.parallelism)}
        self.state = state or JobState(
            offsets={node: source.initial_offset() for node, source in self._sources.items()}
        )
        # BATCH mode runs one epoch, which reads everything: how far the sources have come until then.
        self._batch_ends = dict(self.state.offsets) if batch_mode else None
        self.operators: dict[int, OperatorReport] = {}
        self.accumulators: dict[str, tuple[Any, Any]] = {}

    # --- planning ---------------------------------------------------------------------------------------

    @property
    def own_sources(self) -> dict[int, Source]:
        """The sources that Millrace reads itself, by vertex."""
        return self._sources

    def latest_offsets(self, now: int) -> dict[int, Offset]:
        """How far the next epoch may read."""
        starts = self.state.offsets if self._batch_ends is None else self._batch_ends
        return {
            node: starts[node] if node in self.state.finished else self._latest(source, starts[node], now)
            for node, source in self._sources.items()
        }

    def _latest(self, source: Source, start: Offset, now: int) -> Offset:
        end = source.latest_offset(start, now)
        if self._epoch_records is None or self._batch_ends is not None:
            return end
        return source.at_most(start, end, self._epoch_records)

    def limit(self, epoch_records: int | None) -> None:
        """Have the epochs to come read at most so many records of each source, about."""
        self._epoch_records = epoch_records

    def next_epoch(self, now: int, heartbeat: bool = False) -> tuple[EpochInput, dict[int, Offset]] | None:
        """The next epoch of a bounded program, with the offsets at its end; None when there is nothing to do yet.

        A heartbeat asks for an epoch even so, for the sake of timers and idle times.
        """
        ends = self.latest_offsets(now)
        at_end = all(node in self.state.finished or source.at_end(ends[node]) for node, source in self._sources.items())
        if self._batch_ends is not None and not at_end:
            self._batch_ends = ends
            return None
        progress = any(ends[node] != self.state.offsets[node] for node in ends) or self.state.epoch == 0
        quiet = not self.state.feedback
        final = at_end and (not self._iterates or (quiet and not progress))
        if not (progress or final or not quiet or heartbeat):
            return None
        return self.epoch_of_range(ends, now, final=final, bounded=True), ends

    def epoch_of_range(
        self, ends: dict[int, Offset], now: int, final: bool = False, bounded: bool = False
    ) -> EpochInput:
        """The epoch that reads up to some offsets, after the last complete one."""
        splits = {}
        for node, source in self._sources.items():
            if node in self.state.finished:
                continue
            shares = source.plan(self.state.offsets[node], ends[node], self._readers[node])
            splits.update({(node, reader): share for reader, share in enumerate(shares)})
        return EpochInput(
            number=self.state.epoch + 1,
            processing_time=now,
            final=final,
            keep_state=not final,
            finishing=self._finishing(ends, final, bounded),
            splits=splits,
            state=self.state.subtasks,
            feedback=self.state.feedback,
            restore=self.state.restore,
        )

    @property
    def source_vertices(self) -> frozenset[int]:
        """The vertices that read a source, our own or Spark's."""
        return frozenset(self._source_vertices)

    def _finishing(self, ends: dict[int, Offset], final: bool, bounded: bool) -> frozenset[int]:
        """The source vertices that have nothing left after this epoch."""
        if bounded:
            return frozenset(self._source_vertices) if final else frozenset()
        return frozenset(
            node
            for node, source in self._sources.items()
            if node not in self.state.finished and source.bounded and source.at_end(ends[node])
        )

    # --- completing -------------------------------------------------------------------------------------

    def complete(self, epoch: EpochInput, ends: dict[int, Offset], payloads: Iterable[bytes]) -> EpochResult:
        """Accept what an epoch's tasks told the driver. Raises EpochRejectedError when it cannot count."""
        reports: dict[SubtaskId, SubtaskReport] = {}
        records: list[tuple[int, int, SinkRecords]] = []
        for payload in payloads:
            seq, rank, report = decode_report(payload)
            if isinstance(report, SubtaskReport):
                reports[report.vertex, report.subtask] = report
            else:
                records.append((seq, rank, report))
        self._verify(reports)
        self._account(reports.values())
        self.state = JobState(
            epoch=epoch.number,
            offsets=dict(ends),
            finished=self.state.finished | epoch.finishing,
            subtasks={key: report.state for key, report in reports.items() if report.state is not None},
            feedback=_feedback_of(reports.values()),
            described=_described(reports.values()) or self.state.described,
            committables=_joined(self.state.committables, _committables(reports.values())),
            spark=self.state.spark,
            final=epoch.final,
        )
        records.sort(key=lambda item: item[:2])
        savepoint = {key: report.savepoint for key, report in reports.items() if report.savepoint is not None}
        return EpochResult(epoch.number, [record for _, _, record in records], epoch.final, savepoint)

    def _verify(self, reports: dict[SubtaskId, SubtaskReport]) -> None:
        missing = self._subtasks - set(reports)
        if missing:
            raise EpochRejectedError(f"No report from the subtasks {sorted(missing)}.")
        for vertex in self._plan.vertices:
            for edge in vertex.inputs:
                for sender in range(edge.parallelism):
                    expected = reports[edge.source_vertex, sender].attempt
                    self._verify_channel(reports, vertex, edge.channel + sender, expected)

    def _verify_channel(
        self, reports: dict[SubtaskId, SubtaskReport], vertex: Vertex, channel: int, expected: int
    ) -> None:
        """All that was read from a channel must come from the attempt whose report counts.

        Spark runs a lost stage again, and then some receivers may have read the first attempt's buffers and
        others the second one's. If the two differ, the epoch would be a mixture of both.
        """
        for index in range(vertex.parallelism):
            seen = reports[vertex.id, index].attempts.get(channel, set())
            if seen - {expected}:
                raise EpochRejectedError(
                    f"{vertex.name} ({index + 1}/{vertex.parallelism}) read buffers of attempts {sorted(seen)}, "
                    f"but attempt {expected} counts."
                )

    def _account(self, reports: Iterable[SubtaskReport]) -> None:
        slowest: dict[int, int] = {}
        for report in reports:
            for node_id, operator in report.operators.items():
                known = self.operators.setdefault(node_id, OperatorReport())
                known.records_in += operator.records_in
                known.records_out += operator.records_out
                known.records_skipped += operator.records_skipped
                known.watermark = slowest[node_id] = min(operator.watermark, slowest.get(node_id, operator.watermark))
                merge_metrics(known.metrics, operator.metrics)
            for name, (accumulator, share) in report.accumulators.items():
                merged = self.accumulators.get(name)
                value = share if merged is None else accumulator.merge(merged[1], share)
                self.accumulators[name] = (accumulator, value)

    def accumulator_results(self) -> dict[str, Any]:
        """The merged values of the job's accumulators."""
        return {name: value for name, (_, value) in self.accumulators.items()}


def _is_source(vertex: Vertex) -> bool:
    return isinstance(vertex.nodes[0].operator, SourceOperator)


def _own_sources(plan: JobPlan) -> dict[int, Source]:
    found = {}
    for vertex in plan.vertices:
        operator = vertex.nodes[0].operator
        if isinstance(operator, SourceOperator) and operator.source is not None:
            found[vertex.id] = operator.source
    return found


def _feedback_of(reports: Iterable[SubtaskReport]) -> dict[SubtaskId, list[str]]:
    feedback: dict[SubtaskId, list[str]] = {}
    for report in reports:
        for head, paths in report.feedback.items():
            feedback.setdefault((head, report.subtask), []).extend(paths)
    return feedback


def _described(reports: Iterable[SubtaskReport]) -> dict[str, list[StateMeta]]:
    """What there is of state by operator, with the entries of all subtasks."""
    found: dict[str, dict[tuple[str, str], StateMeta]] = {}
    for report in reports:
        for uid, states in report.described.items():
            known = found.setdefault(uid, {})
            for state in states:
                before = known.get((state.section, state.name))
                entries = _sum(state.entries, before.entries if before is not None else 0)
                queryable = state.queryable or (before.queryable if before is not None else None)
                known[state.section, state.name] = structs.replace(state, entries=entries, queryable=queryable)
    return {uid: list(states.values()) for uid, states in found.items()}


def _sum(first: int, second: int) -> int:
    """Numbers of entries, -1 for unknown."""
    return -1 if min(first, second) < 0 else first + second


def _joined(first: dict[int, list[Any]], second: dict[int, list[Any]]) -> dict[int, list[Any]]:
    return {node_id: [*first.get(node_id, []), *second.get(node_id, [])] for node_id in {**first, **second}}


def _committables(reports: Iterable[SubtaskReport]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for report in sorted(reports, key=lambda report: (report.vertex, report.subtask)):
        for node_id, committables in report.committables.items():
            found.setdefault(node_id, []).extend(committables)
    return found
