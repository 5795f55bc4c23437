"""What stands behind an operator under test."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from millrace.runtime.batch import Batch


class Capture:
    """Keeps all that it is given."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int | None] = []
        self.watermarks: list[int] = []

    def emit(self, batch: Batch) -> None:
        self.values += batch.values
        self.timestamps += repeat(None, len(batch)) if batch.timestamps is None else batch.timestamps

    def watermark(self, watermark: int) -> None:
        self.watermarks.append(watermark)

    def idle(self) -> None:
        """Says nothing that a test could ask for."""

    def take(self) -> list[Any]:
        """The values, which are forgotten."""
        values, self.values, self.timestamps = self.values, [], []
        return values


class EverySide(dict[str, Any]):
    """A capture for every side output, whatever its name: the operator finds it as the output's only receiver."""

    def __missing__(self, tag: str) -> Capture:
        capture = self[tag] = Capture()
        return capture

    def get(self, tag: str, default: Any = None) -> list[Capture]:
        return [self[tag]]

    def values(self) -> Any:
        """No receiver: watermarks need not reach the side outputs."""
        return ()
