"""Windows as plain Python: no state, no timers, only what Flink's documents say of records and watermarks.

A program is a list of epochs, an epoch a list of `(key, number, timestamp)` records. The source lets the watermark
follow the highest timestamp so far at a distance, after every chunk. The model looks at one key's records and the
watermarks between them, and holds whole windows in a dict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Record = tuple[str, int, int]
END = 2**63 - 1


@dataclass(frozen=True)
class Windows:
    """What is tried: `kind` is tumbling, sliding, session or global; `trigger` default, purging, count, delta or
    continuous; `evictor` none, count (keep), time (span) or delta, before or after."""

    kind: str
    size: int = 10
    slide: int = 5
    offset: int = 0
    trigger: str = "default"
    count: int = 2
    evictor: str = "none"
    keep: int = 2
    after: bool = False
    lateness: int = 0


@dataclass
class Pane:
    """A window of a key: its records as (number, timestamp), and what its trigger knows."""

    start: int
    end: int
    records: list[tuple[int, int]]
    count: int = 0
    next_fire: int | None = None
    far: int | None = None
    done: int = -(2**63)

    @property
    def last(self) -> int:
        return self.end - 1


class KeyModel:
    """One key: `add` and `advance` give the results, as (start, end, numbers)."""

    def __init__(self, windows: Windows) -> None:
        self.of = windows
        self.panes: dict[tuple[int, int], Pane] = {}
        self.watermark = -(2**63)
        self.late: list[int] = []
        self.out: list[tuple[int, int, tuple[int, ...]]] = []

    def assigned(self, stamp: int) -> list[tuple[int, int]]:
        size, slide, offset = self.of.size, self.of.slide, self.of.offset
        if self.of.kind == "global":
            return [(0, END + 1)]
        if self.of.kind == "session":
            return [(stamp, stamp + size)]
        step = size if self.of.kind == "tumbling" else slide
        return [
            (start, start + size)
            for start in range(stamp, stamp - size, -1)
            if (start - offset) % step == 0 and start <= stamp < start + size
        ]

    def gone(self, end: int) -> bool:
        return self.of.kind != "global" and min(end - 1 + self.of.lateness, END) <= self.watermark

    def add(self, number: int, stamp: int) -> None:
        taken = False
        for assigned in self.assigned(stamp):
            start, end = self.merged(*assigned) if self.of.kind == "session" else assigned
            if self.gone(end):
                continue
            taken = True
            pane = self.pane(start, end)
            pane.records.append((number, stamp))
            self.on_element(pane, number, stamp)
        if not taken and self.of.kind != "global" and stamp + self.of.lateness <= self.watermark:
            self.late.append(number)

    def pane(self, start: int, end: int) -> Pane:
        if self.of.kind != "session":
            return self.panes.setdefault((start, end), Pane(start, end, []))
        parts = [pane for pane in self.panes.values() if start <= pane.start and pane.end <= end]
        parts.sort(key=lambda pane: (pane.start, pane.end))
        for part in parts:
            del self.panes[part.start, part.end]
        merged = Pane(start, end, [record for part in parts for record in part.records])
        merged.count = sum(part.count for part in parts)
        self.panes[start, end] = merged
        return merged

    def merged(self, start: int, end: int) -> tuple[int, int]:
        """The session that a record's own window becomes part of."""
        again = True
        while again:
            again = False
            for pane in self.panes.values():
                if pane.start <= end and start <= pane.end and not (start <= pane.start and pane.end <= end):
                    start, end, again = min(start, pane.start), max(end, pane.end), True
        return start, end

    def on_element(self, pane: Pane, number: int, stamp: int) -> None:
        trigger = self.of.trigger
        if trigger == "delta":
            if pane.far is None:
                pane.far = number
            elif abs(number - pane.far) > self.of.count:
                pane.far = number
                self.fire(pane)
            return
        if trigger == "count":
            pane.count += 1
            if pane.count >= self.of.count:
                pane.count = 0
                self.fire(pane)
        elif pane.last <= self.watermark:
            self.fire(pane)
        elif trigger == "continuous" and pane.next_fire is None:
            pane.next_fire = min(stamp - stamp % self.of.count + self.of.count, pane.last)

    def fire(self, pane: Pane) -> None:
        if not pane.records:
            return
        records = pane.records
        if not self.of.after:
            records = self.evicted(records)
        self.out.append((pane.start, pane.end, tuple(number for number, _ in records)))
        if self.of.after:
            records = self.evicted(records)
        pane.records = [] if self.of.trigger == "purging" else records

    def evicted(self, records: list[tuple[int, int]]) -> list[tuple[int, int]]:
        if self.of.evictor == "count":
            return records[max(len(records) - self.of.keep, 0) :]
        if self.of.evictor == "time" and records:
            newest = max(stamp for _, stamp in records)
            return [record for record in records if record[1] > newest - self.of.keep]
        if self.of.evictor == "delta" and records:
            return [record for record in records if abs(record[0] - records[-1][0]) < self.of.keep]
        return records

    def advance(self, watermark: int) -> None:
        """Everything that is due, in the order of time."""
        if watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        while due := sorted(self.due(before), key=lambda item: item[0]):
            time, pane = due[0]
            if self.of.trigger not in {"count", "delta"} and (time in (pane.last, pane.next_fire)):
                if time == pane.next_fire:
                    pane.next_fire = min(time + self.of.count, pane.last) if time < pane.last else None
                if pane.last == time:
                    pane.next_fire = None
                self.fire(pane)
            if time >= self.cleanup(pane):
                del self.panes[pane.start, pane.end]
            else:
                pane.done = max(pane.done, time)

    def cleanup(self, pane: Pane) -> int:
        return END + 1 if self.of.kind == "global" else min(pane.last + self.of.lateness, END)

    def due(self, before: int) -> Iterator[tuple[int, Pane]]:
        for pane in self.panes.values():
            done = max(before, pane.done)
            times = [time for time in (pane.last, self.cleanup(pane)) if done < time]
            if pane.next_fire is not None:
                times.append(pane.next_fire)  # Also one that lies behind the watermark: it waits for the next.
            yield from ((time, pane) for time in times if time <= self.watermark)


def watermarks(epochs: list[list[Record]], chunk: int, behind: int) -> Iterator[list[Record] | int]:
    """Records and watermarks, as the source gives them."""
    highest = None
    for epoch in epochs:
        for first in range(0, len(epoch), chunk):
            records = epoch[first : first + chunk]
            yield records
            highest = max([*([] if highest is None else [highest]), *(stamp for _, _, stamp in records)])
            yield highest - behind - 1
    yield END


# (key, start, end) → the window's results in order; those of windows that end together have no order.
Results = dict[tuple[str, int, int], list[Any]]


def expected(windows: Windows, feed: Iterable[list[Record] | int]) -> tuple[Results, Counter[tuple[str, int]]]:
    """The results of each window, and the late records."""
    keys: dict[str, KeyModel] = {}
    watermark = -(2**63)
    for item in feed:
        if isinstance(item, int):
            watermark = max(watermark, item)
            for key_model in keys.values():
                key_model.advance(watermark)
            continue
        for key, number, stamp in item:
            if key not in keys:
                keys[key] = KeyModel(windows)
                keys[key].watermark = watermark
            keys[key].add(number, stamp)
    late = Counter((key, number) for key, key_model in keys.items() for number in key_model.late)
    results: Results = {}
    for key, key_model in keys.items():
        for start, end, result in key_model.out:
            results.setdefault((key, start, end), []).append(result)
    return results, late
