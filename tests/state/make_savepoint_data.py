"""Makes a savepoint that has state of every kind. `tests/data/savepoint-v1` was made by it, and is kept as it is:

    python -m tests.state.make_savepoint_data tests/data/savepoint-v1
"""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from millrace.common import Instant, Row
from millrace.common.typeinfo import Types
from millrace.state import (
    AggregatingStateDescriptor,
    JobFiles,
    ListStateDescriptor,
    Manifest,
    MapStateDescriptor,
    OperatorMeta,
    ReducingStateDescriptor,
    StateHandles,
    StateMeta,
    StateTtlConfig,
    SubtaskState,
    ValueStateDescriptor,
    key_group,
    open_files,
    subtask_of,
    write_manifest,
)

MAX_PARALLELISM = 16
USERS = [f"user-{n}" for n in range(12)]
NOW = 1_700_000_000_000
RICH, PLAIN, VERTEX = "profiles", "untyped", "3"


@dataclass(frozen=True)
class Reading:
    sensor: str
    value: float | None
    tags: tuple[str, int] = ("", 0)


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


# As if the program had defined them: the name that the file keeps must not depend on who runs this.
for _cls in (Reading, Color):
    _cls.__module__ = "shop"


class Average:
    """An aggregate function whose accumulator is (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


def lasting(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(3_600_000).build())
    return descriptor


LINE = Types.ROW_NAMED(["item", "price", "when"], [Types.STRING(), Types.DOUBLE(), Types.INSTANT()])
DESCRIPTORS = {
    "total": ValueStateDescriptor("total", Types.LONG()),
    "lines": ListStateDescriptor("lines", LINE),
    "scores": MapStateDescriptor("scores", Types.STRING(), Types.DOUBLE()),
    "max": ReducingStateDescriptor("max", max, Types.BIG_INT()),
    "average": AggregatingStateDescriptor("average", Average(), Types.TUPLE([Types.LONG(), Types.INT()])),
    "reading": ValueStateDescriptor("reading", Types.DATACLASS(Reading)),
    "color": ValueStateDescriptor("color", Types.ENUM(Color)),
    "seen": lasting(ValueStateDescriptor("seen", Types.SQL_TIMESTAMP())),
    "recent": lasting(ListStateDescriptor("recent", Types.LIST(Types.SHORT()))),
    "carts": lasting(MapStateDescriptor("carts", Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE()))),
}
WINDOWS = ReducingStateDescriptor("windows", max, Types.LONG())
WINDOW_TYPE = Types.TUPLE([Types.LONG(), Types.LONG()])
ITEMS = ListStateDescriptor("items", Types.STRING())
UNION = ListStateDescriptor("union", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.ROW_NAMED(["limit"], [Types.INT()]))


class Subtask:
    """One subtask of the program that the savepoint is of; its operators share a vertex."""

    def __init__(self, files: JobFiles, index: int, allow_pickle: bool = False) -> None:
        self.state = SubtaskState(files, VERTEX, index, allow_pickle=allow_pickle)
        rich = self.state.operator(RICH, Types.STRING(), WINDOW_TYPE)
        self.keys, self.timers = rich.keyed.context, rich.timers
        self.keyed = {name: rich.keyed.get_state(descriptor) for name, descriptor in DESCRIPTORS.items()}
        self.windows = rich.keyed.get_state(WINDOWS, namespaced=True, namespace_type=WINDOW_TYPE)
        self.items = rich.operator.get_list_state(ITEMS)
        self.union = rich.operator.get_union_list_state(UNION)
        self.rules = rich.operator.get_broadcast_state(RULES)
        plain = self.state.operator(PLAIN)
        self.plain_keys = plain.keyed.context
        self.plain = plain.keyed.get_state(ValueStateDescriptor("plain"))
        self.pickled = plain.keyed.get_state(ValueStateDescriptor("pickled"))

    def fill(self, index: int, parallelism: int) -> None:
        self.state.clock.now = NOW
        for n, user in enumerate(USERS):
            if subtask_of(key_group(user, MAX_PARALLELISM), parallelism, MAX_PARALLELISM) == index:
                self.keys.key = user
                self._fill_user(n, user)
        for n in range(6):
            if subtask_of(key_group(n, MAX_PARALLELISM), parallelism, MAX_PARALLELISM) == index:
                self.plain_keys.key = n
                self.plain.update([n, f"text {n}", None, 0.5][n % 4] or 7)
                self.pickled.update({n, n + 1})
        self.items.add_all([f"item {index}.{n}" for n in range(3)])
        self.union.add(index)
        self.rules.put("small", Row(limit=10))

    def _fill_user(self, n: int, user: str) -> None:
        keyed = self.keyed
        keyed["total"].update(n)
        keyed["lines"].add_all([Row(item=f"i{m}", price=m / 2, when=Instant(m, 5_000)) for m in range(n % 3 + 1)])
        keyed["scores"].put_all({"a": n / 4, "b": None})
        keyed["max"].add(2**70 + n)
        keyed["average"].add(n)
        keyed["reading"].update(Reading(user, None if n % 2 else 0.25, (user, n)))
        keyed["color"].update(list(Color)[n % 2])
        keyed["seen"].update(datetime.fromisoformat(f"2023-11-14T22:13:{n:02}"))
        keyed["recent"].add_all([[n], [n, None]])
        keyed["carts"].put_all({"x": b"\x00\xff", "y": bytes([n])})
        for start in (0, 60):
            self.windows.set_namespace((start, start + 60))
            self.windows.add(n + start)
        self.timers.event.add(user, (0, 60), 60 + n)
        self.timers.processing.add(user, (0, 60), NOW + n)


def write_savepoint(
    path: Path, parallelism: int = 2, *, pickled: bool = True, kind: str = "savepoint", epochs: int = 1
) -> Manifest:
    """Write the savepoint, or checkpoints with one delta per further epoch; returns the last manifest."""
    files = open_files(path)
    manifest = None
    subtasks = [Subtask(files, index, allow_pickle=True) for index in range(parallelism)]
    handles = [StateHandles() for _ in subtasks]
    for epoch in range(7, 7 + epochs):
        for index, subtask in enumerate(subtasks):
            subtask.state.open(handles[index])
            if epoch == 7:
                subtask.fill(index, parallelism)
            else:
                subtask.items.add(f"epoch {epoch}")
            if not pickled:
                for key in subtask.state.operator(PLAIN).keyed.keys("pickled"):
                    subtask.plain_keys.key = key
                    subtask.pickled.clear()
            handles[index] = subtask.state.snapshot(epoch, f"attempt-{index}")
        described = [subtask.state.describe() for subtask in subtasks]
        manifest = Manifest(
            job_id="0123456789abcdef0123456789abcdef",
            epoch=epoch,
            job_name="shop",
            kind=kind,  # type: ignore[arg-type]
            created=NOW,
            sources={"orders": {"kind": "kafka", "offsets": {"0": 41, "1": 7}, "password": "hunter2"}},
            subtasks={VERTEX: list(handles)},
            operators=[
                OperatorMeta(uid, VERTEX, parallelism, MAX_PARALLELISM, name, _merged(uid, described))
                for uid, name in ((RICH, "Profiles"), (PLAIN, "Plain things"), ("orders", "Source: Orders"))
            ],
        )
        write_manifest(files, manifest)
    assert manifest is not None
    return manifest


def _merged(uid: str, described: list[dict[str, list[StateMeta]]]) -> list[StateMeta]:
    """The states of an operator over all subtasks."""
    by_subtask = [metas.get(uid, []) for metas in described]
    return [
        msgspec.structs.replace(metas[0], entries=sum(meta.entries for meta in metas))
        for metas in zip(*by_subtask, strict=True)
    ]


if __name__ == "__main__":
    write_savepoint(Path(sys.argv[1]))
