"""The core of all harnesses: one subtask, driven by hand, in memory.

The subtask is the very one that a worker on Spark runs, with its epochs, its state files and its timers; left out
are the exchanges before and behind it. A record that is pushed is handled before `push` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypedDict

from millrace.common.errors import ProgramError
from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.common.typeinfo import TypeInformation
from millrace.datastream.functions import ErrorPolicy
from millrace.graph.partitioning import KeyGroups
from millrace.runtime.epoch import EpochInput, JobSettings
from millrace.runtime.failure import UserCodeError
from millrace.runtime.metrics import merge_metrics
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.router import Outbox
from millrace.runtime.rows import Buffer
from millrace.runtime.subtask import Subtask
from millrace.state.handles import StateHandles
from millrace.state.key_groups import key_group, subtask_of

from ._capture import Capture, EverySide
from ._inspection import StateInspection
from ._program import Program
from .memory_files import MemoryFiles


class HarnessOptions(TypedDict, total=False):
    """What every harness takes by name.

    `snapshot` is where to go on from. `processing_time` is the clock at the beginning, in milliseconds. `on_error`
    is what the stream's `on_error` takes. `batch` runs in BATCH mode: keyed records are handled at `end_of_input`.
    `subtask` of `parallelism` is what the runtime context tells, and `parameters`, `cached_files` and
    `broadcast_variables` what the environment would have been given.
    """

    snapshot: HarnessSnapshot | None
    processing_time: int
    on_error: ErrorPolicy | OutputTag | str
    batch: bool
    parallelism: int
    max_parallelism: int
    subtask: int
    parameters: dict[str, str]
    cached_files: dict[str, str]
    broadcast_variables: dict[str, Any]
    input_types: tuple[TypeInformation | None, ...]


@dataclass(frozen=True)
class HarnessSnapshot:
    """Everything that survives an epoch: give it to a new harness to see a function restored."""

    epoch: int
    processing_time: int
    state: StateHandles | None = field(repr=False)
    files: dict[str, bytes] = field(repr=False)


class Harness(StateInspection):
    """The base of all harnesses. Subclasses say what the program is and how records are pushed.

    Use it in a `with` block: entering opens the function, leaving ends the epoch (which writes the state, and so
    finds values that do not fit their type) and closes the function.
    """

    def __init__(self, program: Program, options: HarnessOptions) -> None:
        snapshot = options.get("snapshot")
        settings = JobSettings(
            job_id="harness",
            job_name="harness",
            directory="",
            batch_mode=options.get("batch", False),
            parameters=options.get("parameters", {}),
            cached_files=options.get("cached_files", {}),
            broadcast_variables=options.get("broadcast_variables", {}),
        )
        self._files = MemoryFiles(snapshot.files if snapshot else None)
        self._subtask = Subtask(program.vertex, options.get("subtask", 0), settings, self._files)
        self._handles = snapshot.state if snapshot else None
        self._epoch = snapshot.epoch if snapshot else 0
        start = snapshot.processing_time if snapshot else 0
        self._processing_time = options.get("processing_time", start)
        self._last = program.output
        self._capture = Capture()
        self._sides = EverySide()
        self._skipped = 0
        self._metrics: dict[str, Any] = {}
        self._accumulators: dict[str, Any] = {}
        self._committables: list[Any] = []
        self._running = False
        output = self._subtask.operators[self._last].output
        output.main.append(self._capture)
        output.sides = self._sides

    # --- life ---------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Open the function and begin the first epoch."""
        with _plain_errors():
            self._begin()
        return self

    def close(self) -> None:
        """Close the function, once; its error is raised."""
        self._running = False
        errors = self._subtask.close()
        if errors:
            with _plain_errors():
                raise errors[0]

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self._subtask.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._subtask.close()
            return
        try:
            if self._running:
                with _plain_errors():
                    self._end()
        finally:
            self.close()

    def _begin(self) -> None:
        self._epoch += 1
        state = {} if self._handles is None else {(self._subtask.vertex.id, self._subtask.index): self._handles}
        self._running = True
        self._subtask.begin(EpochInput(self._epoch, self._processing_time, state=state), Outbox(self._epoch))

    def _end(self) -> None:
        report = self._subtask.end()
        self._running = False
        self._handles = report.state
        for operator in report.operators.values():
            self._skipped += operator.records_skipped
            merge_metrics(self._metrics, operator.metrics)
        for name, (accumulator, share) in report.accumulators.items():
            known = self._accumulators.get(name)
            self._accumulators[name] = share if known is None else accumulator.merge(known, share)
        for committables in report.committables.values():
            self._committables += committables

    def end_epoch(self) -> None:
        """Cut the stream here, as a checkpoint does: state is written, and the next epoch goes on from it."""
        self._require_open()
        with _plain_errors():
            self._end()
            self._begin()

    def snapshot(self) -> HarnessSnapshot:
        """End the epoch and give back what survives it. The harness can go on."""
        self._require_open()
        with _plain_errors():
            self._end()
            taken = HarnessSnapshot(self._epoch, self._processing_time, self._handles, dict(self._files.content))
            self._begin()
        return taken

    def _require_open(self) -> None:
        if not self._running:
            raise ProgramError("The harness is not open.", action="Use it in a with block, or call open().")

    # --- records ------------------------------------------------------------------------------------------------

    def _push(self, side: int, values: list[Any], timestamps: list[int] | None) -> None:
        __tracebackhide__ = True
        self._require_open()
        with _plain_errors():
            for value in values:
                self._check_key(side, value)
            self._receive(side, values, timestamps, None)

    def _check_key(self, side: int, value: Any) -> None:
        """Hash the key as the exchange before a keyed operator does: a key that cannot be one fails here."""
        vertex = self._subtask.vertex
        partitioning = vertex.inputs[side].partitioning
        if not isinstance(partitioning, KeyGroups):
            return
        key = partitioning.selector(value)
        owner = subtask_of(key_group(key, vertex.max_parallelism), vertex.parallelism, vertex.max_parallelism)
        if owner != self._subtask.index:
            raise ProgramError(f"The key {key!r} belongs to subtask {owner}, not to {self._subtask.index}.")

    def _receive(
        self, side: int, values: list[Any], timestamps: list[int] | None, watermark: int | None, idle: bool = False
    ) -> None:
        vertex = self._subtask.vertex.id
        self._subtask.receive(Buffer(vertex, side, self._epoch, values, timestamps, watermark, idle))

    # --- time ---------------------------------------------------------------------------------------------------

    def watermark(self, timestamp: int) -> None:
        """Event time has reached `timestamp` on all inputs: timers that are due fire."""
        __tracebackhide__ = True
        self._tell(range(len(self._subtask.vertex.inputs)), timestamp)

    def _tell(self, sides: Iterable[int], timestamp: int | None) -> None:
        __tracebackhide__ = True
        self._require_open()
        with _plain_errors():
            for side in sides:
                self._receive(side, [], None, timestamp, idle=timestamp is None)

    def end_of_input(self) -> None:
        """No record comes any more: event time goes to its end. In BATCH mode the records are handled now."""
        __tracebackhide__ = True
        self.watermark(MAX_WATERMARK)

    def set_processing_time(self, timestamp: int) -> None:
        """Move the processing time, in milliseconds: a new epoch begins, and timers that are due fire."""
        __tracebackhide__ = True
        if timestamp < self._processing_time:
            raise ValueError(f"Processing time goes forward, not from {self._processing_time} to {timestamp}.")
        self._require_open()
        with _plain_errors():
            self._end()
            self._processing_time = timestamp
            self._begin()

    def advance_processing_time(self, milliseconds: int) -> None:
        """Move the processing time on by so much."""
        __tracebackhide__ = True
        self.set_processing_time(self._processing_time + milliseconds)

    @property
    def processing_time(self) -> int:
        """The processing time in milliseconds."""
        return self._processing_time

    @property
    def current_watermark(self) -> int | None:
        """How far event time is at the function, or None when it has not begun."""
        current = self._subtask.clock.current
        return None if current == MIN_TIMESTAMP else current

    # --- what came of it ----------------------------------------------------------------------------------------

    @property
    def output(self) -> list[Any]:
        """The values of the main output so far."""
        return list(self._capture.values)

    @property
    def records(self) -> list[tuple[Any, int | None]]:
        """The records of the main output so far, as (value, timestamp)."""
        return list(zip(self._capture.values, self._capture.timestamps, strict=True))

    @property
    def watermarks(self) -> list[int]:
        """The watermarks that were sent downstream so far."""
        return list(self._capture.watermarks)

    def take(self) -> list[Any]:
        """The values of the main output since the last time."""
        return self._capture.take()

    def side_output(self, tag: OutputTag | str) -> list[Any]:
        """The values of a side output so far."""
        return list(self._sides[_tag_id(tag)].values)

    def side_records(self, tag: OutputTag | str) -> list[tuple[Any, int | None]]:
        """The records of a side output so far, as (value, timestamp)."""
        capture = self._sides[_tag_id(tag)]
        return list(zip(capture.values, capture.timestamps, strict=True))

    @property
    def committables(self) -> list[Any]:
        """What a Sink's writer had ready to commit at the ends of the epochs so far."""
        return list(self._committables)

    @property
    def skipped(self) -> int:
        """How many records were left out or sent aside because the function failed on them."""
        return self._skipped + sum(operator.records_skipped for operator in self._subtask.operators.values())

    @property
    def metrics(self) -> dict[str, Any]:
        """The function's metrics by name: counts, gauges, and distributions as (count, sum, minimum, maximum)."""
        for operator in self._subtask.operators.values():
            merge_metrics(self._metrics, operator.context.metrics.snapshot())
        return {name: value for name, (_, value) in self._metrics.items()}

    @property
    def accumulators(self) -> dict[str, Any]:
        """The function's accumulators by name."""
        found = dict(self._accumulators)
        for operator in self._subtask.operators.values():
            for name, accumulator in operator.context.accumulators.items():
                share = accumulator.get_local_value()
                found[name] = accumulator.merge(found[name], share) if name in found else share
        return found


def _tag_id(tag: OutputTag | str) -> str:
    return tag if isinstance(tag, str) else tag.tag_id


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Let a user's function fail with its own exception, and not with the operator's that is wrapped around it."""
    __tracebackhide__ = True
    try:
        yield
        return
    except UserCodeError as error:
        cause = error.cause
    raise cause
