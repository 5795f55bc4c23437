"""Windows as the namespaces of state and timers.

State is kept under plain values that hash in C, and that a checkpoint holds without pickle: the start and end of a
time window, the number of a count window, the bytes that a window's own serializer makes. Only windows without
a serializer are kept as they are, and pickled.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millrace.common.typeinfo import TypeInformation, Types

from .serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from .windows import CountWindow, GlobalWindow, TimeWindow

Namespace = Any


@dataclass(frozen=True)
class WindowNamespaces:
    """How the windows of an assigner become namespaces and back, and the type of these."""

    type_info: TypeInformation | None
    of: Callable[[Any], Namespace]
    window: Callable[[Namespace], Any]


def namespaces_of(serializer: Any) -> WindowNamespaces:
    """The namespaces for the windows that a serializer is for.

    >>> times = namespaces_of(TimeWindowSerializer())
    >>> times.of(TimeWindow(0, 10)), times.window((0, 10))
    ((0, 10), TimeWindow(start=0, end=10))
    """
    kind = type(serializer)
    if kind is TimeWindowSerializer:
        return TIME_NAMESPACES
    if kind is CountWindowSerializer:
        return WindowNamespaces(Types.LONG(), lambda window: window.id, CountWindow)
    if kind is GlobalWindowSerializer:
        return WindowNamespaces(Types.LONG(), lambda window: 0, lambda namespace: GlobalWindow())
    if serializer is None:
        return WindowNamespaces(None, lambda window: window, lambda namespace: namespace)
    return WindowNamespaces(
        None,
        lambda window: _to_bytes(serializer, window),
        lambda namespace: serializer.deserialize(io.BytesIO(namespace)),
    )


def _to_bytes(serializer: Any, window: Any) -> bytes:
    stream = io.BytesIO()
    serializer.serialize(window, stream)
    return stream.getvalue()


TIME_NAMESPACES = WindowNamespaces(
    Types.TUPLE([Types.LONG(), Types.LONG()]),
    lambda window: (window.start, window.end),
    lambda namespace: TimeWindow(*namespace),
)
