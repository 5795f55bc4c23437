"""Side outputs by name."""

from millrace.runtime.output_tag import OutputTag

__all__ = ["OutputTag"]
