"""When a task of a bounded job may start."""

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Whether any input that can be consumed is enough, or all must be."""

    ANY = 0
    ALL = 1
