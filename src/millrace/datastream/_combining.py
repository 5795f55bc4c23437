"""Whether a built-in aggregation on windows may begin before the exchange, and how it then does."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millrace.common.typeinfo import BasicTypeInfo, TupleTypeInfo, TypeInformation, Types
from millrace.graph.partitioning import KeyGroups
from millrace.runtime.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from millrace.runtime.windowing.combiner import WindowCombiner
from millrace.runtime.windowing.triggers import EventTimeTrigger, Trigger

from ._fields import with_field

if TYPE_CHECKING:
    from ._keyed_stream import KeyedStream

# Their sums are exact. (The sum of floats depends on the order, and so does what is least where one is no number.)
_WHOLE_NUMBERS = frozenset({Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()})


@dataclass(frozen=True)
class _WithField:
    """A tuple with another number in one place."""

    position: int

    def __call__(self, record: Any, number: int) -> Any:
        position = self.position
        if type(record) is tuple:
            return (*record[:position], number, *record[position + 1 :])
        return with_field(record, position, number)


def combined(
    stream: KeyedStream, assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any], operation: str, field: Any
) -> KeyedStream | None:
    """The stream with records combined by key and window, or None where that could change the result.

    That takes tumbling or sliding windows of event time that fire at their end, and a field that is declared to hold
    whole numbers. Records that a window gets combined are one to every other trigger, such as one that counts.
    """
    windows = _windows(assigner)
    position = _position(stream._type, field)
    outlets = stream._stream._outlets
    plain = len(outlets) == 1 and outlets[0].partitioning is None
    if windows is None or position is None or type(trigger) is not EventTimeTrigger or not plain:
        return None
    partitioning = stream._outlets[0].partitioning
    assert isinstance(partitioning, KeyGroups)
    selector = partitioning.selector
    operator = WindowCombiner(operation, selector, itemgetter(position), _WithField(position), windows)
    made = stream._stream._transform("Combine", operator, stream_type=stream._type)
    node = made._node("uid")
    node.parallelism = stream._stream._parallelism()
    node.uid = f"combine@{node.id}"  # It has no state that a program would want to find again.
    return type(stream)(made, selector, stream._key_type)


def _windows(assigner: WindowAssigner[Any, Any]) -> tuple[int, int, int, int] | None:
    """Size, step, pane and offset."""
    if type(assigner) is TumblingEventTimeWindows:
        return assigner.size, assigner.size, assigner.size, assigner.offset
    if type(assigner) is SlidingEventTimeWindows and assigner.slide <= assigner.size:
        return assigner.size, assigner.slide, gcd(assigner.size, assigner.slide), assigner.offset
    return None


def _position(record_type: TypeInformation | None, field: Any) -> int | None:
    """The place of a field of whole numbers in a tuple."""
    if not isinstance(record_type, TupleTypeInfo):
        return None
    types = record_type.get_field_types()
    position = int(field[1:]) if isinstance(field, str) and field[:1] == "f" and field[1:].isdecimal() else field
    if type(position) is not int or not 0 <= position < len(types):
        return None
    kind = types[position]
    return position if isinstance(kind, BasicTypeInfo) and kind in _WHOLE_NUMBERS else None
