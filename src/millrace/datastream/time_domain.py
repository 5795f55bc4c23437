"""The two times that a timer can belong to."""

from millrace.runtime.time_domain import TimeDomain

__all__ = ["TimeDomain"]
