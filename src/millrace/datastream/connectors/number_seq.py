"""A range of integers."""

from millrace.runtime.sources.sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
