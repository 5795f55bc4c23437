"""Accumulators: values that every subtask adds to and that the job's result holds merged."""

from millrace.runtime.accumulators import (
    Accumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    ListAccumulator,
    LongCounter,
)

__all__ = ["Accumulator", "DoubleCounter", "Histogram", "IntCounter", "ListAccumulator", "LongCounter"]
