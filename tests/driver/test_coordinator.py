"""What the driver decides about epochs, without running any."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.common import WatermarkStrategy
from millrace.driver.coordinator import Coordinator, EpochRejectedError
from millrace.graph.job_graph import plan_job
from millrace.graph.partitioning import Rebalance
from millrace.runtime.accumulators import IntCounter
from millrace.runtime.epoch import EpochInput, OperatorReport, SubtaskReport
from millrace.runtime.operators.feedback import FeedbackHead, FeedbackTail
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.rows import SinkRecords, encode
from millrace.runtime.sources.sequence import DataGeneratorSource
from millrace.state.handles import StateHandles
from millrace.testing import EpochSource
from tests.graph.graphs import edge, node, stream_graph

NO_TIME = WatermarkStrategy.no_watermarks()


def coordinator(*epoch_counts: int, batch_mode: bool = False) -> Coordinator:
    """A program of sources, each of so many epochs, read by operator 10 with two subtasks."""
    sources = [
        node(number, operator=SourceOperator(EpochSource([[1]] * count), NO_TIME))
        for number, count in enumerate(epoch_counts, start=1)
    ]
    edges = [edge(source.id, 10, Rebalance()) for source in sources]
    return Coordinator(plan_job(stream_graph([*sources, node(10, 2)], edges)), batch_mode)


def reports(coordinator: Coordinator, **changes: Any) -> dict[tuple[int, int], SubtaskReport]:
    """A report of every subtask, all of attempt `vertex * 100 + index`, with what each of them read."""
    made = {}
    for vertex in coordinator._plan.vertices:
        for index in range(vertex.parallelism):
            attempts = {
                entry.channel + sender: {entry.source_vertex * 100 + sender}
                for entry in vertex.inputs
                for sender in range(entry.parallelism)
            }
            attempt = vertex.id * 100 + index
            made[vertex.id, index] = SubtaskReport(vertex.id, index, attempt, attempts=attempts, **changes)
    return made


def payloads(found: dict[tuple[int, int], SubtaskReport]) -> list[bytes]:
    return [encode((0, 0, report)) for report in found.values()]


def planned(coordinator: Coordinator, now: int = 0, heartbeat: bool = False) -> tuple[EpochInput, Any]:
    found = coordinator.next_epoch(now, heartbeat)
    assert found is not None
    return found


def run(coordinator: Coordinator, found: dict[tuple[int, int], SubtaskReport] | None = None) -> EpochInput:
    epoch, ends = planned(coordinator)
    coordinator.complete(epoch, ends, payloads(found or reports(coordinator)))
    return epoch


# --- planning ---------------------------------------------------------------------------------------------------


def test_the_last_epoch_is_final_and_needs_no_state() -> None:
    job = coordinator(2)
    first, last = run(job), run(job)
    assert (first.number, first.final, first.keep_state, first.finishing) == (1, False, True, frozenset())
    assert (last.number, last.final, last.keep_state, last.finishing) == (2, True, False, frozenset({1}))


def test_a_program_ends_with_its_longest_source() -> None:
    job = coordinator(1, 3)
    assert [run(job).final for _ in range(3)] == [False, False, True]


def test_an_epoch_is_planned_the_same_until_it_counts() -> None:
    job = coordinator(3)
    first, _ = planned(job)
    again, _ = planned(job)
    assert first == again
    run(job)
    assert planned(job)[0].number == 2


def test_with_nothing_to_read_only_a_heartbeat_makes_an_epoch() -> None:
    source = DataGeneratorSource(lambda index: index, count=10, records_per_second=1)
    job = Coordinator(plan_job(stream_graph([node(1, operator=SourceOperator(source, NO_TIME))])))
    epoch, ends = planned(job, now=1000)
    job.complete(epoch, ends, payloads(reports(job)))
    assert job.next_epoch(1000) is None
    assert planned(job, now=1000, heartbeat=True)[0].number == 2
    assert planned(job, now=2000)[1] == {1: {"next": 1, "began": 1000}}
    assert planned(job, now=11_000)[0].final


def test_a_batch_job_has_one_epoch_which_reads_everything() -> None:
    job = coordinator(1, 3, batch_mode=True)
    assert [job.next_epoch(0, heartbeat=True), job.next_epoch(0)] == [None, None]
    epoch, ends = planned(job)
    assert (epoch.number, epoch.final) == (1, True)
    assert [epoch.splits[number, 0][0].range for number in (1, 2)] == [(0, 1), (0, 3)]
    assert ends == {1: {"next": 1}, 2: {"next": 3}}


def test_an_iteration_goes_on_until_nothing_is_fed_back() -> None:
    nodes = [
        node(1, operator=SourceOperator(EpochSource([[1]]), NO_TIME)),
        node(2, operator=FeedbackHead()),
        node(3, operator=FeedbackTail(2)),
    ]
    job = Coordinator(plan_job(stream_graph(nodes, [edge(1, 2, Rebalance()), edge(2, 3)])))
    fed = reports(job)
    fed[2, 0].feedback = {2: ["feedback/2/0/a", "feedback/2/0/b"]}
    assert not run(job, fed).final
    epoch, _ = planned(job)
    assert epoch.feedback == {(2, 0): ["feedback/2/0/a", "feedback/2/0/b"]}
    assert not run(job).final
    assert run(job).final


# --- completing -------------------------------------------------------------------------------------------------


def test_an_epoch_without_all_reports_is_rejected_and_can_run_again() -> None:
    job = coordinator(2)
    found = reports(job)
    del found[10, 1]
    with pytest.raises(EpochRejectedError, match=r"\(10, 1\)"):
        run(job, found)
    assert job.state.epoch == 0
    assert run(job).number == 1


def test_an_epoch_that_mixes_two_attempts_of_a_sender_is_rejected() -> None:
    job = coordinator(2)
    found = reports(job)
    found[10, 1].attempts[0] = {100, 999}
    with pytest.raises(EpochRejectedError, match=r"op10 \(2/2\) read buffers of attempts \[100, 999\]"):
        run(job, found)
    assert (job.state.epoch, job.operators) == (0, {})


def test_buffers_of_an_attempt_whose_report_was_replaced_are_rejected() -> None:
    job = coordinator(2)
    found = reports(job)
    found[1, 0].attempt = 555
    with pytest.raises(EpochRejectedError, match="attempt 555 counts"):
        run(job, found)


def test_a_receiver_that_got_nothing_from_a_sender_is_fine() -> None:
    job = coordinator(2)
    found = reports(job)
    found[10, 0].attempts.clear()
    run(job, found)
    assert job.state.epoch == 1


def test_the_next_epoch_begins_at_the_reported_state() -> None:
    job = coordinator(3)
    run(job, reports(job, state=StateHandles()))
    assert set(planned(job)[0].state) == {(1, 0), (10, 0), (10, 1)}


def test_sink_records_are_delivered_in_the_order_of_the_sources() -> None:
    job = coordinator(1)
    epoch, ends = planned(job)
    records = [((5, 0), "c"), ((0, 9), "b"), ((0, 1), "a")]
    extra = [encode((seq, rank, SinkRecords(10, 0, [value]))) for (seq, rank), value in records]
    result = job.complete(epoch, ends, [*extra, *payloads(reports(job))])
    assert [found.values for found in result.records] == [["a"], ["b"], ["c"]]


def test_committables_are_gathered_by_sink_in_the_order_of_the_subtasks() -> None:
    job = coordinator(1)
    found = reports(job)
    found[10, 1].committables = {10: ["second"]}
    found[10, 0].committables = {10: ["first"]}
    epoch, ends = planned(job)
    job.complete(epoch, ends, payloads(dict(reversed(found.items()))))
    assert job.state.committables == {10: ["first", "second"]}


def test_the_account_adds_up_over_subtasks_and_epochs() -> None:
    job = coordinator(2)
    for watermarks in ((30, 20), (50, 40)):
        found = reports(job)
        for index, watermark in enumerate(watermarks):
            metrics = {"seen": ("counter", 2), "level": ("gauge", watermark), "size": ("distribution", (1, 5, 5, 5))}
            found[10, index].operators = {10: OperatorReport(3, 2, 1, watermark, metrics)}
            found[10, index].accumulators = {"total": (IntCounter(), 10)}
        run(job, found)
    account = job.operators[10]
    assert (account.records_in, account.records_out, account.records_skipped) == (12, 8, 4)
    assert account.watermark == 40
    assert account.metrics == {"seen": ("counter", 8), "level": ("gauge", 40), "size": ("distribution", (4, 20, 5, 5))}
    assert job.accumulator_results() == {"total": 40}
