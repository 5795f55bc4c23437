"""What formats tell about themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod

from millrace.common.typeinfo import TypeInformation

__all__ = ["ResultTypeQueryable"]


class ResultTypeQueryable(ABC):
    """A source or format that knows the type of its records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
