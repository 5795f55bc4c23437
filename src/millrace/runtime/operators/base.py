"""What every operator is: a thing that is given batches and watermarks, in order, one call at a time.

    open ─► { restore? ─► begin ─► process | advance | idle ... ─► end_of_epoch } ... ─► close

An operator is made in the program's process, pickled with the user's function in it, and unpickled once for
each subtask. What it sets in `setup` lives in the worker only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from millrace.common.errors import TypeMismatchError
from millrace.common.time import MIN_TIMESTAMP
from millrace.runtime.batch import Batch
from millrace.runtime.failure import PROGRAM_ENDS, UserCodeError
from millrace.runtime.operators.own_state import has_own_state, restore_function, snapshot_function
from millrace.runtime.output_tag import OutputTag

if TYPE_CHECKING:
    from millrace.common.typeinfo import TypeInformation
    from millrace.runtime.context import OperatorContext


@dataclass(frozen=True)
class ErrorPolicy:
    """What a record does on which a user's function fails: `fail` the job, be skipped, or go to a side output.

    >>> ErrorPolicy.side_output(OutputTag("bad")).tag
    OutputTag('bad')
    """

    action: str = "fail"
    tag: OutputTag | None = None

    @classmethod
    def fail(cls) -> ErrorPolicy:
        """The job fails with an error that names the operator and the record. This is the default."""
        return cls()

    @classmethod
    def skip(cls) -> ErrorPolicy:
        """The record is left out and counted in the metric `numRecordsSkipped`."""
        return cls("skip")

    @classmethod
    def side_output(cls, tag: OutputTag) -> ErrorPolicy:
        """A `BadRecord` goes to the side output."""
        return cls("side_output", tag)


@dataclass(frozen=True)
class BadRecord:
    """A record that a user's function failed on, with its error."""

    value: Any
    error: str
    operator: str


class Receiver(Protocol):
    """Whatever stands behind an output: the next operator of the chain, or the router of an exchange."""

    def emit(self, batch: Batch) -> None:
        """Take records."""

    def watermark(self, watermark: int) -> None:
        """Take the progress of event time."""

    def idle(self) -> None:
        """Learn that no watermarks come for now."""


@dataclass
class Output:
    """Where an operator's results go. `main` and `sides` hold the receivers."""

    main: list[Receiver] = field(default_factory=list)
    sides: dict[str, list[Receiver]] = field(default_factory=dict)
    records_out: int = 0

    def emit(self, batch: Batch) -> None:
        """Hand on records of the main output."""
        self.records_out += len(batch.values)
        for receiver in self.main:
            receiver.emit(batch)

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Hand on records of a side output; without a reader they are dropped, as in Flink."""
        for receiver in self.sides.get(tag, ()):
            receiver.emit(batch)

    def _all(self) -> list[Receiver]:
        return [*self.main, *(receiver for side in self.sides.values() for receiver in side)]

    def watermark(self, watermark: int) -> None:
        """Event time has reached `watermark` on all outputs."""
        for receiver in self._all():
            receiver.watermark(watermark)

    def idle(self) -> None:
        """No watermarks for now, on any output."""
        for receiver in self._all():
            receiver.idle()


class TypedOutput(Output):
    """An output whose records have a declared type, which is applied to them."""

    def __init__(self, declared: TypeInformation, function: Any) -> None:
        super().__init__()
        self._declared = declared
        self._function = function
        self.on_mismatch: Callable[[Any, Exception], None] | None = None

    def emit(self, batch: Batch) -> None:
        """Apply the type, and hand on."""
        while True:
            try:
                values = self._declared.coerce_batch(batch.values)
                break
            except TypeMismatchError as error:
                batch = self._without(batch, error)
        super().emit(batch if values is batch.values else Batch(values, batch.timestamps))

    def _without(self, batch: Batch, error: TypeMismatchError) -> Batch:
        """The batch without the record that does not fit, when the operator's policy lets it go."""
        index = error.index
        assert index is not None
        record = batch.values[index]
        if self.on_mismatch is None:
            raise UserCodeError.wrap(error, self._function, record, "the declared type of") from None
        self.on_mismatch(record, error)
        stamps = batch.timestamps
        return Batch(
            batch.values[:index] + batch.values[index + 1 :],
            None if stamps is None else stamps[:index] + stamps[index + 1 :],
        )


class Operator:
    """The base of all operators. Most override `process` only."""

    #: Whether the operator has state or timers of keys; its inputs must then be keyed.
    keyed = False

    #: The type of the namespaces (windows) that the operator's timers have.
    namespace_type: TypeInformation | None = None

    def __init__(self, function: Any = None) -> None:
        self.function = function

    context: OperatorContext
    output: Output
    name: str = ""
    policy: ErrorPolicy = ErrorPolicy()
    #: How far event time is at this operator; kept by whatever calls it.
    watermark: int = MIN_TIMESTAMP
    records_in: int = 0
    records_skipped: int = 0

    def __getstate__(self) -> dict[str, Any]:
        transient = {"context", "output"}
        return {name: value for name, value in self.__dict__.items() if name not in transient}

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Get to know the subtask. Called once, before `open`."""
        self.context = context
        self.output = output
        if isinstance(output, TypedOutput) and self.policy.action != "fail":
            output.on_mismatch = self.bad_record

    def open(self) -> None:
        """Start the user's function; what it keeps in operator state is restored first, as in Flink."""
        restore_function(self.function, self.context.backends.operator, self.context.restored)
        opening = getattr(self.function, "open", None)
        if callable(opening):
            opening(self.context.runtime_context)

    def close(self) -> None:
        """End the user's function. Called exactly once for every `open`, however the job ends."""
        closing = getattr(self.function, "close", None)
        if callable(closing):
            closing()

    def restore(self) -> None:
        """The operator's state is not what this process left it at: it is the first epoch here, or another process
        had the last one. Read again what was taken from state."""

    def begin(self) -> None:
        """An epoch begins; processing time has moved on."""

    def process(self, batch: Batch, side: int) -> None:
        """Handle records of one input (0, or 1 for the second of two)."""
        raise NotImplementedError

    def advance(self, watermark: int) -> None:
        """Event time has reached `watermark`."""
        self.output.watermark(watermark)

    def idle(self) -> None:
        """All inputs are idle."""
        self.output.idle()

    def finish_key(self) -> None:
        """BATCH mode: no record of the current key comes any more."""

    def end_of_epoch(self) -> None:
        """The epoch's records are all here: put what must survive it into state."""
        if self.context.keeps_state:
            snapshot_function(
                self.function, self.context.backends.operator, self.context.epoch, self.context.processing_time
            )

    # --- helpers for subclasses -----------------------------------------------------------------------

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Emit results; `(tag, value)` pairs among them go to side outputs."""
        if OutputTag.in_use:
            values, timestamps = self._split_sides(values, timestamps)
        if values:
            self.output.emit(Batch(values, timestamps))

    def _split_sides(
        self, values: list[Any], timestamps: list[int] | None
    ) -> tuple[list[Any], list[int] | None]:
        if not any(type(value) is tuple and value and type(value[0]) is OutputTag for value in values):
            return values, timestamps
        main: list[Any] = []
        main_stamps: list[int] = []
        stamps: list[int] | list[None] = timestamps if timestamps is not None else [None] * len(values)
        for value, stamp in zip(values, stamps, strict=True):
            if type(value) is tuple and value and type(value[0]) is OutputTag:
                self.emit_side(value[0], value[1], stamp)
            else:
                main.append(value)
                if stamp is not None:
                    main_stamps.append(stamp)
        return main, None if timestamps is None else main_stamps

    def emit_side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        """Send one record to a side output."""
        values = [value]
        if tag.type_info is not None:
            try:
                values = tag.type_info.coerce_batch(values)
            except TypeMismatchError as error:
                raise UserCodeError.wrap(error, self.function, value, f"the type of {tag!r} in") from None
        self.output.emit_side(tag.tag_id, Batch(values, None if timestamp is None else [timestamp]))

    def failure(self, error: BaseException, what: str = "") -> UserCodeError:
        """An error that came in this operator, with its name."""
        return UserCodeError.inside(error, self.name, self.function, what)

    def bad_record(self, record: Any, error: Exception) -> None:
        """A user's function failed on a record: do what the operator's policy says."""
        if self.policy.action == "fail" or isinstance(error, UserCodeError):
            raise UserCodeError.wrap(error, self.function, record) from error
        self.records_skipped += 1
        if self.policy.tag is not None:
            bad = BadRecord(record, f"{type(error).__name__}: {error}", self.name)
            self.output.emit_side(self.policy.tag.tag_id, Batch([bad]))


class ChainedReceiver:
    """The way into an operator: from the one before it in the chain or, for the head, from the task.

    It names the operator in the errors of its function and counts its records.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def emit(self, batch: Batch, side: int = 0) -> None:
        """Hand records to the operator."""
        self._operator.records_in += len(batch.values)
        try:
            self._operator.process(batch, side)
        except (Exception, *PROGRAM_ENDS) as error:
            raise self._operator.failure(error) from error.__cause__

    def watermark(self, watermark: int) -> None:
        """Hand on the progress of event time."""
        self._operator.watermark = watermark
        try:
            self._operator.advance(watermark)
        except (Exception, *PROGRAM_ENDS) as error:
            raise self._operator.failure(error) from error.__cause__

    def idle(self) -> None:
        """Hand on that no watermarks come."""
        self._operator.idle()


__all__ = [
    "BadRecord",
    "ChainedReceiver",
    "ErrorPolicy",
    "Operator",
    "Output",
    "Receiver",
    "TypedOutput",
    "has_own_state",
]
