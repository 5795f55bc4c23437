"""The fields of a user's object in a checkpoint: as JSON where they are plain, so that no code has to be trusted."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from typing import Any

from millrace.common import pickling
from millrace.state.errors import StatePickleError

_PLAIN = frozenset({type(None), bool, int, float, str})


def saved_fields(instance: Any) -> dict[str, Any]:
    """What an object keeps in its fields, as JSON; pickled in base64 where JSON cannot say it.

    >>> from types import SimpleNamespace
    >>> saved_fields(SimpleNamespace(highest=3))
    {'fields': {'highest': 3}}
    """
    fields = dict(_fields(instance))
    if all(type(value) in _PLAIN for value in fields.values()):
        return {"fields": fields}
    return {"pickle": base64.b64encode(pickling.dumps(fields)).decode()}


def restore_fields(instance: Any, saved: dict[str, Any], trusted: bool) -> None:
    """Give a new object the fields of the one that was saved."""
    if "pickle" in saved:
        if not trusted:
            raise StatePickleError(
                f"the state of {type(instance).__name__} was pickled, and loading a pickle can run any code",
                action="Set state.savepoint.allow-pickle to true if you trust where the savepoint comes from.",
            )
        fields = pickle.loads(base64.b64decode(saved["pickle"]))
    else:
        fields = saved["fields"]
    for name, value in fields.items():
        setattr(instance, name, value)


def _fields(instance: Any) -> Iterator[tuple[str, Any]]:
    yield from vars(instance).items() if hasattr(instance, "__dict__") else ()
    for cls in type(instance).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"} and hasattr(instance, name):
                yield name, getattr(instance, name)
