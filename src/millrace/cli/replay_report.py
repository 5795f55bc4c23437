"""What `millrace replay` prints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from millrace.common.errors import short_repr
from millrace.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from millrace.driver.epoch_records import EpochRecord
from millrace.driver.replay.archive import JobArchive
from millrace.driver.replay.running import Wanted
from millrace.driver.replay.watching import Change, NewTimer
from millrace.graph.stream_graph import NodeKind
from millrace.runtime.batch import Batch
from millrace.runtime.failure import TaskFailure
from millrace.runtime.time_domain import TimeDomain

# Lines of each kind (records in, records out, timers, changes of state) unless all are asked for: about a screen.
SHOWN = 20


def show_list(archive: JobArchive) -> None:
    """The epochs that can be replayed."""
    name = archive.records[0].before.job_name if archive.records else ""
    print(f"Job {name!r} in {archive.directory}\n")
    print(f"{'epoch':>7}  {'attempt':>7}  {'when':19}  {'result':8}  offsets")
    for record in archive.records:
        result = "complete" if record.failure is None else "failed"
        offsets = "; ".join(_ranges(record)) or "-"
        print(f"{record.epoch:>7}  {record.attempt:>7}  {_when(record.processing_time):19}  {result:8}  {offsets}")
        if record.failure is not None:
            print(f"{'':18}{_failed_at(record)}: {_first_line(f'{record.failure.kind}: {record.failure.message}')}")
    for damaged in archive.damaged:
        print(f"{'':18}{damaged.message}")


def _ranges(record: EpochRecord) -> list[str]:
    starts = record.before.sources
    found = [f"{uid} {_offset(starts.get(uid))} → {_offset(end)}" for uid, end in sorted(record.ends.items())]
    return [*found, *(f"{uid} (read by Spark)" for uid in record.spark_sources)]


def _offset(offset: Any) -> str:
    if isinstance(offset, dict) and len(offset) == 1:
        [offset] = offset.values()
    text = "start" if offset is None else json.dumps(offset)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _failed_at(record: EpochRecord) -> str:
    failure = record.failure
    if failure is None or not failure.uid:
        return "failed"
    return f"{failure.uid}, subtask {failure.subtask}"


def _when(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def show_header(
    archive: JobArchive, record: EpochRecord, script: str, wanted: Wanted, inputs: dict[int, int]
) -> None:
    """What is about to run."""
    meta = next(meta for meta in record.before.operators if meta.uid == wanted.node.state_id)
    result = "completed" if record.failure is None else "failed"
    print(f"Job {record.before.job_name!r}, epoch {record.epoch}, attempt {record.attempt}, which {result}\n")
    _line("operator", f"{wanted.node.name} (uid {meta.uid})")
    if len(wanted.vertex.nodes) > 1:
        _line("chain", wanted.vertex.name)
    _line("subtask", f"{wanted.index} of 0..{meta.parallelism - 1}")
    _line("checkpoint", archive.directory)
    _line("program", script)
    _line("offsets", "; ".join(_ranges(record)))
    _line("time", f"{_when(record.processing_time)} (processing time of the epoch)")
    records = [f"{count} on input {side}" for side, count in sorted(inputs.items())]
    if records:
        _line("records", ", ".join(records) if len(records) > 1 else str(sum(inputs.values())))
    if wanted.node.kind is NodeKind.SINK:
        _line("sink", "writes!" if wanted.runs_sink else "withheld; the records that it would have got are shown")


def _line(what: str, text: str) -> None:
    print(f"  {what:11}{text}")


def _time(watermark: int) -> str:
    if watermark <= MIN_TIMESTAMP:
        return "none yet"
    return "the end of time" if watermark >= MAX_WATERMARK else str(watermark)


def compared(record: EpochRecord) -> str:
    """What that means, where the epoch had failed."""
    if record.failure is None:
        return ""
    return f" (When it ran, {_failed_at(record)} failed: {record.failure.kind}: {_first_line(record.failure.message)})"


class Printer:
    """Prints what the operator does while it does it: the first lines of each kind, or all."""

    def __init__(self, everything: bool) -> None:
        self._everything = everything
        self._counts: Counter[str] = Counter()
        # Called once, right before the operator is given its first record.
        self.at_first_record: Callable[[], None] | None = None

    def begins(self, watermark: int) -> None:
        """The last line of the header."""
        _line("watermark", _time(watermark))
        print()

    def takes(self, side: int, batch: Batch) -> None:
        """Records come in."""
        self._show_records("in" if not side else f"in:{side}", batch)
        if self.at_first_record is not None and batch.values:
            arm, self.at_first_record = self.at_first_record, None
            arm()

    def gives(self, tag: str | None, batch: Batch) -> None:
        """Records go out."""
        self._show_records("out" if tag is None else f"out:{tag}", batch)

    def fires(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        """A timer fires."""
        self._show("timer", f"{_key(key, namespace)} at {timestamp} ({_clock(domain)})")

    def _show_records(self, kind: str, batch: Batch) -> None:
        if batch.timestamps is None:
            for value in batch.values:
                self._show(kind, short_repr(value))
        else:
            for value, stamp in zip(batch.values, batch.timestamps, strict=True):
                self._show(kind, f"{short_repr(value)}  @{stamp}")

    def _show(self, kind: str, text: str) -> None:
        self._counts[kind] += 1
        if self._everything or self._counts[kind] <= SHOWN:
            print(f"{kind:<6} {text}")

    def end(self, failed: bool) -> None:
        """Tell what was left out."""
        left = [f"{count - SHOWN} more of {kind!r}" for kind, count in self._counts.items() if count > SHOWN]
        if left and not self._everything:
            print(f"... {', '.join(left)} (--all shows them)")
        if not self._counts and not failed:
            print("No record came, and no timer fired.")


def _key(key: Any, namespace: Any) -> str:
    return short_repr(key) if namespace is None else f"{short_repr(key)} in {short_repr(namespace)}"


def show_changes(changes: list[Change], everything: bool) -> None:
    """What became of the operator's state."""
    lines = [line for change in changes for line in _changed(change)]
    _show_section("State (before → after)", lines, everything)


def _changed(change: Change) -> Iterator[str]:
    """The lines of a change: of a map one for each entry that differs."""
    state, key, namespace, before, after = change
    where = state if key is None and namespace is None else f"{state} of {_key(key, namespace)}"
    if not isinstance(before or after, dict):
        yield f"{where}: {_held(before)} → {_held(after)}"
        return
    old, new = before or {}, after or {}
    for entry in {**old, **new}:
        if old.get(entry) != new.get(entry) or (entry in old) != (entry in new):
            yield f"{where} [{short_repr(entry)}]: {_entry(old, entry)} → {_entry(new, entry)}"


def _entry(entries: dict[Any, Any], entry: Any) -> str:
    return short_repr(entries[entry]) if entry in entries else "nothing"


def _show_section(title: str, lines: list[str], everything: bool) -> None:
    if not lines:
        return
    print(f"\n{title}")
    shown = lines if everything else lines[:SHOWN]
    for line in shown:
        print(f"  {line}")
    if len(shown) < len(lines):
        print(f"  ... {len(lines) - len(shown)} more (--all shows them)")


def show_timers(timers: list[NewTimer], everything: bool) -> None:
    """The timers that wait since this epoch."""
    lines = [f"{_key(timer.key, timer.namespace)} at {timer.timestamp} ({_clock(timer.domain)})" for timer in timers]
    _show_section("Timers set", lines, everything)


def _clock(domain: TimeDomain) -> str:
    return "event time" if domain == TimeDomain.EVENT_TIME else "processing time"


def _held(content: Any) -> str:
    return "nothing" if content is None else short_repr(content)


def show_failure(failure: TaskFailure) -> None:
    """The user's own traceback, and the record."""
    print(f"\n{failure.traceback or f'{failure.kind}: {failure.message}'}".rstrip())
    told = [f"in {failure.function}" if failure.function else "", f"of operator {failure.operator!r}"]
    where = f", at {failure.location}" if failure.location else ""
    print(f"\nRaised {' '.join(part for part in told if part)}{where}")
    if failure.record is not None:
        print(f"Record: {failure.record}")
