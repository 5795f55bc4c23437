"""Patterns in streams: sequences of events, described with `Pattern`, looked for with `CEP.pattern`.

Flink has this in Java only; the names are Java's in Python's spelling. docs/patterns.md tells how to use it.
"""

from .conditions import IterativeCondition, SimpleCondition
from .functions import (
    EventComparator,
    PatternContext,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from .pattern import Pattern, WithinType
from .pattern_stream import CEP, PatternStream
from .skip import AfterMatchSkipStrategy

__all__ = [
    "AfterMatchSkipStrategy",
    "CEP",
    "EventComparator",
    "IterativeCondition",
    "Pattern",
    "PatternContext",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
