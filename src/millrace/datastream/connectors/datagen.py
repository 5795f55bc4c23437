"""Made-up records."""

from millrace.runtime.sources.sequence import DataGeneratorSource

__all__ = ["DataGeneratorSource"]
