"""What sinks have prepared, in a manifest: as JSON where that says it all, else pickled."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from typing import Any

import msgspec

from millrace.common import pickling
from millrace.state.errors import StatePickleError

_PLAIN = frozenset({type(None), bool, int, float, str})


def encode_committables(by_node: Mapping[int, list[Any]], uids: Mapping[int, str]) -> dict[str, str]:
    """By operator uid.

    >>> encode_committables({7: ["part-1"]}, {7: "sink"})
    {'sink': 'json:["part-1"]'}
    """
    return {uids[node_id]: _encode(committables) for node_id, committables in by_node.items() if committables}


def decode_committables(saved: Mapping[str, str], nodes: Mapping[str, int], trusted: bool) -> dict[int, list[Any]]:
    """By node. Those of operators that the program does not have any more stay uncommitted."""
    return {nodes[uid]: _decode(text, trusted) for uid, text in saved.items() if uid in nodes}


def _encode(committables: list[Any]) -> str:
    if all(map(_is_plain, committables)):
        return f"json:{msgspec.json.encode(committables).decode()}"
    return f"pickle:{base64.b64encode(pickling.dumps(committables)).decode()}"


def _is_plain(value: Any) -> bool:
    """Whether JSON gives the same value back."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return type(value) in _PLAIN and value == value  # noqa: PLR0124 (NaN is no JSON)


def _decode(text: str, trusted: bool) -> list[Any]:
    kind, _, body = text.partition(":")
    if kind == "json":
        return list(msgspec.json.decode(body))
    if not trusted:
        raise StatePickleError(
            "what a sink had prepared was pickled, and loading a pickle can run any code that its author chose",
            action="Set state.savepoint.allow-pickle to true if you trust where the savepoint comes from.",
        )
    return list(pickle.loads(base64.b64decode(body)))
