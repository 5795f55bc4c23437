"""Pickle for values of a program, wherever their classes come from."""

from __future__ import annotations

import pickle
from typing import Any, Final

import cloudpickle

__all__ = ["PROTOCOL", "dumps"]

PROTOCOL: Final = 5


def dumps(value: Any) -> bytes:
    """Pickle, so that every worker of the job can load it.

    Instances of classes that no module holds (made inside a function, say) take cloudpickle: it ships the class
    along, which is slow but right.
    """
    try:
        return pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(value, PROTOCOL))
