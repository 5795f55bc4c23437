"""How a job's operators travel to the workers: each vertex pickled by itself, so that each subtask has its copy."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as _internals

from millrace.common.errors import ShippingError
from millrace.graph.job_graph import JobPlan, Vertex
from millrace.graph.stream_graph import StreamNode


@dataclass(frozen=True)
class ShippedJob:
    """A job as the workers receive it, once.

    `classes` are the classes of the user's script: records that are instances of them may come to a process before
    anything else of the job that mentions them.
    """

    vertices: dict[int, bytes]
    classes: bytes
    slots: tuple[int, ...]
    # level -> slot -> (vertex id, subtask index)
    placement: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]


def ship(plan: JobPlan) -> ShippedJob:
    """Pickle the plan's vertices; an object that cannot be pickled is named with its operator and attribute."""
    vertices = {vertex.id: _pickle(vertex) for vertex in plan.vertices}
    return ShippedJob(vertices, bytes(cloudpickle.dumps(_main_classes())), plan.slots, placement(plan))


def placement(plan: JobPlan) -> tuple[tuple[tuple[tuple[int, int], ...], ...], ...]:
    """Which subtasks each slot of each level runs."""
    levels: list[list[list[tuple[int, int]]]] = [[[] for _ in range(count)] for count in plan.slots]
    for vertex in plan.vertices:
        for index in range(vertex.parallelism):
            levels[vertex.level][vertex.slot + index].append((vertex.id, index))
    return tuple(tuple(tuple(slot) for slot in level) for level in levels)


def _pickle(vertex: Vertex) -> bytes:
    try:
        return bytes(cloudpickle.dumps(vertex))
    except Exception as error:
        for node in vertex.nodes:
            _check(node)
        raise ShippingError(
            f"Operator {vertex.name!r} cannot be shipped to the workers: {error}",
            action="Create what cannot be pickled in open(), which runs in the worker.",
        ) from error


def _check(node: StreamNode) -> None:
    function = getattr(node.operator, "function", None)
    for candidate in (function, node.operator):
        culprit = None if candidate is None else _culprit(candidate, type(candidate).__name__, 4)
        if culprit is not None:
            path, value = culprit
            raise ShippingError(
                f"Operator {node.name!r} cannot be shipped to the workers: {path} is a "
                f"{type(value).__name__}, which cannot be pickled ({_reason(value)}). {node.site}".rstrip(),
                action="Create it in open(), which runs in the worker, and not in the program.",
            )


def _reason(value: Any) -> str:
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return str(error)
    return "it pickles alone"


def _culprit(value: Any, path: str, depth: int) -> tuple[str, Any] | None:
    """The innermost attribute or captured variable that cannot be pickled."""
    try:
        cloudpickle.dumps(value)
        return None
    except Exception:
        if depth:
            for name, part in _parts(value):
                joint = ", " if name.startswith("variable") else "."
                found = _culprit(part, f"{path}{joint}{name}", depth - 1)
                if found is not None:
                    return found
        return path, value


def _parts(value: Any) -> list[tuple[str, Any]]:
    parts = list(getattr(value, "__dict__", {}).items())
    code = getattr(value, "__code__", None)
    if code is not None:
        cells = getattr(value, "__closure__", None) or ()
        captured = zip(code.co_freevars, cells, strict=True)
        parts += [(f"variable {name!r}", cell.cell_contents) for name, cell in captured if _is_set(cell)]
        names = {name for name in code.co_names if name in value.__globals__}
        parts += [(f"variable {name!r}", value.__globals__[name]) for name in sorted(names)]
    return [(name, part) for name, part in parts if not isinstance(part, ModuleType)]


def _is_set(cell: Any) -> bool:
    """Whether a captured variable has a value (yet)."""
    try:
        cell.cell_contents  # noqa: B018 (reading it tells)
    except ValueError:
        return False
    return True


def load_vertex(payload: bytes) -> Vertex:
    """A fresh copy of a vertex, in a worker."""
    vertex = pickle.loads(payload)
    assert isinstance(vertex, Vertex)
    return vertex


def _main_classes() -> list[type]:
    """The classes of the user's script that were pickled, by value, with the vertices."""
    main = vars(sys.modules["__main__"])
    tracked: list[type] = list(_internals._DYNAMIC_CLASS_TRACKER_BY_CLASS)
    return [cls for cls in tracked if cls.__module__ == "__main__" and cls is main.get(cls.__qualname__)]


def publish_classes(payload: bytes) -> None:
    """Put the classes of the user's script where pickle looks for them by name.

    Records that are instances of them can then be pickled by the plain, fast pickler in every worker.
    """
    main = sys.modules["__main__"]
    for cls in pickle.loads(payload):
        setattr(main, cls.__qualname__, cls)

