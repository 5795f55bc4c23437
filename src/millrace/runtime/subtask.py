"""One parallel instance of a chain of operators."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from millrace.common.time import MIN_TIMESTAMP
from millrace.graph.job_graph import Vertex
from millrace.graph.partitioning import KeyGroups
from millrace.graph.stream_graph import StreamNode
from millrace.runtime.batch import Batch
from millrace.runtime.batch_input import KeyedBatchInput
from millrace.runtime.clock import WatermarkClock
from millrace.runtime.context import OperatorContext
from millrace.runtime.epoch import EpochInput, JobSettings, OperatorReport, SubtaskReport
from millrace.runtime.failure import PROGRAM_ENDS
from millrace.runtime.operators.base import ChainedReceiver, Operator, Output, TypedOutput, has_own_state
from millrace.runtime.operators.own_state import notify_function
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.router import Outbox, make_router
from millrace.runtime.rows import SEQ_END, Buffer, SinkRecords
from millrace.state.descriptors import ListStateDescriptor
from millrace.state.files import JobFiles, open_files
from millrace.state.handles import StateHandles
from millrace.state.key_groups import key_group_range
from millrace.state.subtask import OperatorBackends, SubtaskState

# Under this name the subtask keeps how far event time is, with the state of its head.
_TIME = ListStateDescriptor("@time")


class Subtask:
    """A chain in one worker process, from the first epoch that it runs here to the end of the job.

    Which process runs a subtask may change from epoch to epoch, so that several processes may hold one; only its
    state, at the version that the epoch names, is the subtask. `vertex` is this subtask's own copy.
    """

    def __init__(
        self, vertex: Vertex, index: int, settings: JobSettings, files: JobFiles | None = None
    ) -> None:
        self.vertex = vertex
        self.index = index
        self.settings = settings
        self.name = f"{vertex.name} ({index + 1}/{vertex.parallelism})"
        self.epoch = EpochInput(0, 0)
        self.outbox = Outbox()
        self._files = files or open_files(settings.directory)
        self.state = SubtaskState(
            self._files, str(vertex.id), index, allow_pickle=settings.allow_pickle, backend=settings.backend_spec
        )
        self._at_rest = True
        self._broken = False
        self.restored = False
        self.rescaled = False
        self.trusts_state = True
        self._feedback: dict[int, list[str]] = {}
        self._attempts: dict[int, set[int]] = {}
        self._opened: list[Operator] = []
        self._sides = [edge.input for edge in vertex.inputs for _ in range(edge.parallelism)]
        self._build()

    # --- building the chain ----------------------------------------------------------------------------

    def _build(self) -> None:
        self.routers = [
            (edge, make_router(edge, self.index, self.vertex.parallelism, self.settings.batch_mode))
            for edge in self.vertex.outputs
        ]
        self.operators: dict[int, Operator] = {}
        self.clock = WatermarkClock(self.vertex.channels)
        for node in reversed(self.vertex.nodes):
            self._build_operator(node)
        self.head = self.operators[self.vertex.id]
        self._entry = ChainedReceiver(self.head)
        self._batch_input = self._make_batch_input()

    def _build_operator(self, node: StreamNode) -> None:
        operator: Operator = node.operator
        operator.name = node.name
        selectors = self._selectors() if node.id == self.vertex.id else ()
        if operator.keyed:
            operator.selectors = selectors  # type: ignore[attr-defined]
        output = Output() if node.output_type is None else TypedOutput(node.output_type, operator.function)
        for tag, receiver in self._receivers(node.id):
            (output.main if tag is None else output.sides.setdefault(tag, [])).append(receiver)
        operator.setup(OperatorContext(self, node, keyed=bool(selectors)), output)
        self.operators[node.id] = operator

    def _selectors(self) -> tuple[Callable[[Any], Any], ...]:
        """The key selectors of the head's inputs, by side."""
        by_side = {
            edge.input: edge.partitioning.selector
            for edge in self.vertex.inputs
            if isinstance(edge.partitioning, KeyGroups)
        }
        return tuple(by_side[side] for side in sorted(by_side))

    def _receivers(self, node_id: int) -> Iterator[tuple[str | None, Any]]:
        for link in self.vertex.links:
            if link.source == node_id:
                yield link.tag, ChainedReceiver(self.operators[link.target])
        for edge, router in self.routers:
            if edge.source_node == node_id:
                yield edge.tag, router

    def _make_batch_input(self) -> KeyedBatchInput | None:
        if self.settings.batch_mode and self.head.keyed:
            return KeyedBatchInput(self.head.selectors, self._entry.emit, self.head.finish_key)  # type: ignore[attr-defined]
        return None

    # --- an epoch ---------------------------------------------------------------------------------------

    def begin(self, epoch: EpochInput, outbox: Outbox) -> None:
        """Start an epoch: at the state that it names, with the functions open."""
        self.epoch = epoch
        self.outbox = outbox
        self._feedback = {}
        self._attempts = {}
        for _, router in self.routers:
            router.begin(outbox, epoch.number)
        self.state.clock.now = epoch.processing_time
        if not self._at_rest:
            self._forget_attempt()
        self._open_state(epoch)
        moved = not self._opened or self.state.last_open != "kept"
        self._at_rest = False
        self._open_operators()
        if moved:
            self._restore_clock()
            self._guarded("restoring", lambda operator: operator.restore(), self.vertex.nodes)
        for operator in self.operators.values():
            operator.context.committables.clear()
            operator.records_in = operator.records_skipped = operator.output.records_out = 0
        # Last operator first: timers and feedback emit as soon as the epoch begins.
        self._guarded("", lambda operator: operator.begin(), self.vertex.nodes[::-1])
        if epoch.completed or epoch.aborted:
            self._guarded("telling of checkpoints", self._notify, self.vertex.nodes)

    def _open_state(self, epoch: EpochInput) -> None:
        restore = epoch.restore.get((self.vertex.id, self.index))
        self.rescaled = restore is not None
        self.trusts_state = restore is None or restore.allow_pickle
        self.restored = open_state(self.state, self.vertex, self.index, epoch)

    def _notify(self, operator: Operator) -> None:
        notify_function(operator.function, self.epoch.completed, self.epoch.aborted)

    def _forget_attempt(self) -> None:
        """An attempt failed here: what it counted and what it gathered must not count."""
        self._batch_input = self._make_batch_input()
        for operator in self.operators.values():
            operator.context.metrics.snapshot()
            for accumulator in operator.context.accumulators.values():
                accumulator.reset_local()

    def can_continue(self, epoch: EpochInput) -> bool:
        """Whether this instance can run the epoch.

        A function that keeps operator state in its own fields (CheckpointedFunction) is only as good as these
        fields are: where another process had the last epoch, or an attempt failed here, a new instance has to be
        restored from state. An instance whose functions could not all be opened is of no use.
        """
        if self._broken:
            return False
        if not self._opened or not any(has_own_state(operator.function) for operator in self.operators.values()):
            return True
        handles = epoch.state.get((self.vertex.id, self.index)) or StateHandles()
        return self._at_rest and handles == self.state.handles

    def _open_operators(self) -> None:
        """Open what is not open yet, last operator first: an operator may emit as soon as it is open."""
        for node in reversed(self.vertex.nodes):
            operator = self.operators[node.id]
            if operator not in self._opened:
                self._opened.append(operator)
                self._broken = True
                self._guarded("open() of", lambda operator: operator.open(), (node,))
                self._broken = False

    def _restore_clock(self) -> None:
        """Go on with event time where it was. After rescaling, it begins anew, with what the sources announce."""
        self._time = self.state.operator(self.vertex.nodes[0].state_id).operator.get_union_list_state(_TIME)
        saved = None if self.rescaled else next(map(json.loads, self._time.get()), None)
        self.clock = WatermarkClock(self.vertex.channels)
        if saved is not None:
            self.clock.restore(saved["clock"])
        watermarks = {} if saved is None else saved["operators"]
        for node in self.vertex.nodes:
            self.operators[node.id].watermark = watermarks.get(node.state_id, MIN_TIMESTAMP)

    def _guarded(self, what: str, call: Callable[[Operator], None], nodes: tuple[StreamNode, ...]) -> None:
        for node in nodes:
            operator = self.operators[node.id]
            try:
                call(operator)
            except (Exception, *PROGRAM_ENDS) as error:
                raise operator.failure(error, what) from error.__cause__

    def receive(self, buffer: Buffer) -> None:
        """Records from another subtask, and what it knows of event time."""
        channel = buffer.channel
        self._attempts.setdefault(channel, set()).add(buffer.attempt)
        if buffer.values:
            side = self._sides[channel]
            self.clock.activate(channel)
            batch = Batch(buffer.values, buffer.timestamps)
            if self._batch_input is not None:
                self._batch_input.add(batch, side)
            else:
                self._entry.emit(batch, side)
        if buffer.watermark is not None:
            self._tell_time(self.clock.update(channel, buffer.watermark))
        elif buffer.idle:
            self._tell_time(self.clock.mark_idle(channel))

    def _tell_time(self, moved: bool) -> None:
        if moved:
            self.end_of_group()
            self._entry.watermark(self.clock.current)
        if self.clock.all_idle:
            self._entry.idle()

    def end_of_group(self) -> None:
        """BATCH mode: no further record of the key group that was being received."""
        if self._batch_input is not None:
            self._batch_input.finish_group()

    def read_sources(self) -> Iterator[tuple[int, int]]:
        """Read this subtask's share of its source; see SourceOperator.read."""
        if isinstance(self.head, SourceOperator):
            splits = self.epoch.splits.get((self.vertex.id, self.index), [])
            if self.head.source is not None:
                try:
                    yield from self.head.read(splits)
                except (Exception, *PROGRAM_ENDS) as error:
                    raise self.head.failure(error) from error.__cause__
            yield SEQ_END, 0
            if self.vertex.id in self.epoch.finishing:
                self.head.finish()

    def receive_entry(self, split_id: str, batch: Batch) -> None:
        """Records that Spark has read."""
        assert isinstance(self.head, SourceOperator)
        self.head.receive(split_id, batch)

    def flush(self) -> None:
        """Send what stands in the routers."""
        for edge, router in self.routers:
            try:
                router.flush()
            except Exception as error:
                raise self.operators[edge.source_node].failure(error, "a record of") from error.__cause__

    def end(self) -> SubtaskReport:
        """End the epoch: what must survive goes to state, the state to its file, the rest into the report."""
        self.end_of_group()
        for node in self.vertex.nodes:
            self._guarded("the state of", lambda operator: operator.end_of_epoch(), (node,))
        self.flush()
        report = SubtaskReport(self.vertex.id, self.index, self.outbox.attempt, attempts=self._attempts)
        report.feedback = self._feedback
        for node_id, operator in self.operators.items():
            self._report_operator(report, node_id, operator)
        if self.epoch.keep_state:
            self._snapshot(report)
        # Without a snapshot, the functions' own fields are ahead of their state: only a new instance can go back.
        self._at_rest = self.epoch.keep_state
        return report

    def _snapshot(self, report: SubtaskReport) -> None:
        watermarks = {node.state_id: self.operators[node.id].watermark for node in self.vertex.nodes}
        self._time.update([json.dumps({"clock": self.clock.snapshot(), "operators": watermarks})])
        attempt = self._attempt()
        report.state = self.state.snapshot(self.epoch.number, attempt)
        report.described = self.state.describe()
        if self.epoch.savepoint is not None:
            target = open_files(self.epoch.savepoint)
            report.savepoint = self.state.write_savepoint(target, self.epoch.number, attempt)

    def _attempt(self) -> str:
        """Unlike that of every other attempt at this subtask, also of earlier processes."""
        return f"{self.settings.run}.{self.settings.attempt}.{self.outbox.attempt}"

    def _report_operator(self, report: SubtaskReport, node_id: int, operator: Operator) -> None:
        context = operator.context
        report.operators[node_id] = OperatorReport(
            operator.records_in,
            operator.output.records_out,
            operator.records_skipped,
            operator.watermark,
            context.metrics.snapshot(),
        )
        if context.committables:
            report.committables[node_id] = list(context.committables)
        for name, accumulator in context.accumulators.items():
            share = accumulator.get_local_value()
            known = report.accumulators.get(name)
            report.accumulators[name] = (
                (accumulator, share) if known is None else (accumulator, accumulator.merge(known[1], share))
            )
            accumulator.reset_local()

    def backends(self, node: StreamNode) -> OperatorBackends:
        """An operator's state."""
        namespaces = node.operator.namespace_type
        return self.state.operator(node.state_id, key_type=node.key_type, namespace_type=namespaces)

    # --- what operators ask for -------------------------------------------------------------------------

    def to_driver(self, records: SinkRecords) -> None:
        """Hand records to the driver, with their place in the order."""
        slot = self.vertex.slot + self.index
        self.outbox.report(slot, self.index, records)

    def feedback(self) -> list[bytes]:
        """What was kept for this subtask, the head of an iteration, in the epoch before."""
        paths = self.epoch.feedback.get((self.vertex.id, self.index), [])
        return [self._files.read(path) for path in paths]

    def feed_back(self, head: int, payload: bytes) -> None:
        """Keep something for the head of an iteration in the next epoch."""
        earlier = self._feedback.setdefault(head, [])
        name = f"{self.epoch.number}-{self._attempt()}-{self.vertex.id}-{len(earlier)}.feedback"
        path = str(PurePosixPath("feedback", str(head), str(self.index), name))
        self._files.write(path, payload)
        earlier.append(path)

    def release(self) -> None:
        """The task is over, however it ended: another process may need the subtask's local files next."""
        self.state.release()

    def close(self) -> list[BaseException]:
        """Close every function that was opened, whatever happens; the errors are given back."""
        errors: list[BaseException] = []
        while self._opened:
            operator = self._opened.pop()
            try:
                operator.close()
            except (Exception, *PROGRAM_ENDS) as error:
                errors.append(operator.failure(error, "close() of"))
        return errors


def open_state(state: SubtaskState, vertex: Vertex, index: int, epoch: EpochInput) -> bool:
    """Bring a subtask's state to where the epoch begins. Returns whether there is state to go on from."""
    restore = epoch.restore.get((vertex.id, index))
    if restore is None:
        return state.open(epoch.state.get((vertex.id, index)))
    owned = key_group_range(index, vertex.parallelism, vertex.max_parallelism)
    state.restore_rescaled(
        list(restore.handles),
        lambda _: (owned, vertex.max_parallelism),
        vertex.parallelism,
        files=open_files(restore.directory),
        uids={node.state_id for node in vertex.nodes},
        allow_pickle=restore.allow_pickle,
    )
    return True
