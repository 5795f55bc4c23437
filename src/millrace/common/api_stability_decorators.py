"""Decorators that write into a docstring how stable a name is."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import ProgramError

__all__ = ["Deprecated", "Experimental", "Internal", "Public", "PublicEvolving"]

F = TypeVar("F", bound=Callable[..., Any])


class BaseAPIStabilityDecorator(ABC):
    """Adds ``get_directive()`` to the end of a docstring."""

    def __call__(self, func_or_cls: F) -> F:
        if not callable(func_or_cls):
            raise ProgramError(f"{type(self).__name__} marks functions and classes, not {func_or_cls!r}")
        text = inspect.cleandoc(func_or_cls.__doc__ or "")
        func_or_cls.__doc__ = f"{text}\n\n{self.get_directive(func_or_cls)}".lstrip()
        return func_or_cls

    @abstractmethod
    def get_directive(self, func_or_cls: Callable[..., Any]) -> str: ...


class Deprecated(BaseAPIStabilityDecorator):
    """Marks what will go.

    >>> @Deprecated(since="0.3", detail="Use g.")
    ... def f():
    ...     "Does it."
    >>> print(f.__doc__)
    Does it.
    <BLANKLINE>
    .. deprecated:: 0.3
       Use g.
    """

    def __init__(self, since: str, detail: str | None = None) -> None:
        self.since = since
        self.detail = detail

    def get_directive(self, func_or_cls: Callable[..., Any]) -> str:
        return f".. deprecated:: {self.since}" + (f"\n   {self.detail}" if self.detail else "")


class Experimental(BaseAPIStabilityDecorator):
    """Marks what may change or go in any release."""

    def get_directive(self, func_or_cls: Callable[..., Any]) -> str:
        return f".. caution:: *{func_or_cls.__name__}* is experimental: it may change or go in any release."


class Internal(BaseAPIStabilityDecorator):
    """Marks what is not for users."""

    def get_directive(self, func_or_cls: Callable[..., Any]) -> str:
        return f".. caution:: *{func_or_cls.__name__}* is internal."


class PublicEvolving(BaseAPIStabilityDecorator):
    """Marks what is public, but may change between minor releases."""

    def get_directive(self, func_or_cls: Callable[..., Any]) -> str:
        return f".. note:: *{func_or_cls.__name__}* is public and may change between minor releases."


class Public(BaseAPIStabilityDecorator):
    """Marks what stays within a major release."""

    def get_directive(self, func_or_cls: Callable[..., Any]) -> str:
        return f".. note:: *{func_or_cls.__name__}* is public and stays within a major release."
