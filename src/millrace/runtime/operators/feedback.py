"""Iteration: what the tail receives in one epoch, the head emits at the beginning of the next."""

from __future__ import annotations

import pickle
from typing import Any

from millrace.common import pickling
from millrace.common.time import MAX_WATERMARK
from millrace.runtime.batch import Batch
from millrace.runtime.operators.base import Operator


class FeedbackHead(Operator):
    """The entry of an iteration: passes its input on, and what was fed back to it."""

    def begin(self) -> None:
        for payload in self.context.feedback:
            for values, timestamps in pickle.loads(payload):
                self.output.emit(Batch(values, timestamps))

    def process(self, batch: Batch, side: int) -> None:
        self.output.emit(batch)


class FeedbackTail(Operator):
    """The end of the feedback stream. Watermarks end here: feedback does not hold back event time."""

    def __init__(self, head: int) -> None:
        super().__init__()
        self.head = head

    def open(self) -> None:
        self._batches: list[tuple[list[Any], list[int] | None]] = []

    def begin(self) -> None:
        self._batches = []

    def process(self, batch: Batch, side: int) -> None:
        self._batches.append((batch.values, batch.timestamps))

    def advance(self, watermark: int) -> None:
        assert watermark <= MAX_WATERMARK

    def end_of_epoch(self) -> None:
        if self._batches:
            self.context.feed_back(self.head, pickling.dumps(self._batches))
        self._batches = []
