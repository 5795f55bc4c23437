"""What `millrace savepoint inspect` tells: gathered as plain data, and drawn as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from millrace.cli.layout import paragraph, size_in_words, table, time_in_words
from millrace.state.codec import ALLOW_PICKLE
from millrace.state.evolution import type_in_words
from millrace.state.inspection import FileReport
from millrace.state.manifest import Manifest, OperatorMeta, StateMeta

# What a ListCheckpointed function gave back: the one thing under such a name that is the program's.
_LIST_CHECKPOINTED = "@list-checkpointed"

_SECRET = re.compile(r"password|secret|token|key|credential", re.IGNORECASE)
_USER_OF_URL = re.compile(r"://[^/@\s]+@")
_HIDDEN = "***"


def without_secrets(value: Any) -> Any:
    """Settings that may be shown: what looks like a secret is not.

    >>> without_secrets({"topic": "orders", "ssl.key.password": "x", "url": "s3://me:pw@bucket"})
    {'topic': 'orders', 'ssl.key.password': '***', 'url': 's3://***@bucket'}
    """
    if isinstance(value, dict):
        return {
            name: _HIDDEN if _SECRET.search(str(name)) and item is not None else without_secrets(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        inner = json.loads(value)
    except ValueError:
        inner = None
    if isinstance(inner, (dict, list)):  # Spark keeps offsets as text
        return without_secrets(inner)
    return _USER_OF_URL.sub(f"://{_HIDDEN}@", value)


def is_own_state(name: str) -> bool:
    """Whether a state is what the engine keeps for itself beside that of the program: clocks, splits, watermarks."""
    return name.startswith("@") and name != _LIST_CHECKPOINTED


def sources_of(manifest: Manifest) -> dict[str, Any]:
    """Where the sources stand, by uid: those that Millrace reads, and those that Spark does."""
    return {**manifest.sources, **manifest.spark.get("sources", {})}


def type_of_state(meta: StateMeta) -> str:
    """What a state keeps, in words."""
    words = {role: type_in_words(said) for role, said in meta.types.items()}
    if meta.kind in ("map", "broadcast"):
        return f"{words.get('entry', 'untyped')} -> {words.get('value', 'untyped')}"
    return words.get("item" if "list" in meta.kind else "value", "")


def kind_of_state(meta: StateMeta) -> str:
    """The kind of a state, with what is special about it."""
    return " ".join([
        "timers" if meta.section == "timers" else meta.kind,
        *(["by namespace"] if meta.namespaced else []),
        *(["with ttl"] if meta.ttl else []),
    ])


def key_type_of(operator: OperatorMeta) -> str | None:
    """The type of an operator's keys in words; None if nothing of it is kept by key."""
    keyed = [meta for meta in operator.states if meta.section == "keyed"]
    keyed = keyed or [meta for meta in operator.states if meta.section == "timers" and meta.entries]
    return type_in_words(keyed[0].types.get("key")) if keyed else None


def report_of(manifest: Manifest, location: str, found: FileReport, damaged: list[str]) -> dict[str, Any]:
    """All that is told, as data."""
    described = {(op.uid, meta.section, meta.name) for op in manifest.operators for meta in op.states}
    unknown = [address for address in found.sizes if address not in described and not is_own_state(address[2])]
    return {
        "path": location,
        "kind": manifest.kind,
        "job": {"id": manifest.job_id, "name": manifest.job_name},
        "epoch": manifest.epoch,
        "created": manifest.created,
        "backend": manifest.backend,
        "final": manifest.final,
        "format": manifest.format,
        "files": found.files,
        "bytes": found.size,
        "needs_pickle": bool(found.pickled or manifest.committables or manifest.feedback),
        "operators": [_operator(operator, found) for operator in manifest.operators],
        "unclaimed": [
            {"uid": uid, "name": name, "section": section, "kind": found.kinds[uid, section, name],
             "bytes": found.sizes[uid, section, name]}
            for uid, section, name in unknown
        ],
        "sources": without_secrets(sources_of(manifest)),
        "damaged": [*damaged, *(f"{path}: {what}" for path, what in found.damaged.items())],
        "foreign": found.foreign,
    }  # fmt: skip


def _operator(operator: OperatorMeta, found: FileReport) -> dict[str, Any]:
    return {
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "key": key_type_of(operator),
        "states": [
            {
                "name": meta.name,
                "section": meta.section,
                "kind": meta.kind,
                "description": kind_of_state(meta),
                "type": type_of_state(meta),
                "namespaced": meta.namespaced,
                "ttl": meta.ttl,
                "entries": meta.entries,
                "bytes": found.sizes.get((operator.uid, meta.section, meta.name), 0),
                "pickled": (operator.uid, meta.section, meta.name) in found.pickled,
            }
            for meta in operator.states
        ],
    }


# -- as text ----------------------------------------------------------------------------------------------------------


def draw(report: dict[str, Any]) -> str:
    """The report for a terminal."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"{report['kind'].capitalize()} {report['path']}"
    for name, value in _facts(report):
        yield paragraph(f"{name:<10}{value}", hang=10)
    for operator in report["operators"]:
        yield ""
        yield from _operator_lines(operator)
    if report["unclaimed"]:
        yield ""
        yield "Carried along: the program that wrote this did not ask for it any more"
        rows = [[s["uid"], s["name"], s["kind"], size_in_words(s["bytes"])] for s in report["unclaimed"]]
        yield from table(["OPERATOR", "STATE", "KIND", "SIZE"], rows, wrap=1, right=frozenset({3}))
    if report["sources"]:
        yield ""
        yield "Sources"
        for uid, offsets in report["sources"].items():
            yield paragraph(f"{uid}: {json.dumps(offsets)}")
    for title, paths in (("Damaged", report["damaged"]), ("Files of the state backend alone", report["foreign"])):
        if paths:
            yield ""
            yield title
            yield from (paragraph(path) for path in paths)


def _facts(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Job", f"{report['job']['name'] or '(no name)'} ({report['job']['id']})"
    taken = f", taken {time_in_words(report['created'])}" if report["created"] else ""
    yield "Epoch", f"{report['epoch']}{taken}{', the last one of the job' if report['final'] else ''}"
    yield "Backend", report["backend"]
    yield "Size", f"{size_in_words(report['bytes'])} in {report['files']} {'file' if report['files'] == 1 else 'files'}"
    if report["needs_pickle"]:
        states = [f"{op['uid']}/{s['name']}" for op in report["operators"] for s in op["states"] if s["pickled"]]
        what = ", ".join(states) or "what sinks or iterations were about to do"
        yield "Pickle", f"needed for {what}: restoring it takes {ALLOW_PICKLE}=true"
    else:
        yield "Pickle", "not needed"


def _operator_lines(operator: dict[str, Any]) -> Iterator[str]:
    name = f" ({operator['name']})" if operator["name"] and operator["name"] != operator["uid"] else ""
    keyed = "" if operator["key"] is None else f", keyed by {operator['key']}"
    if operator["key"] == "untyped":
        keyed = ", keyed without a type"
    spread = f"parallelism {operator['parallelism']} of at most {operator['max_parallelism']}"
    yield paragraph(f"{operator['uid']}{name}, {spread}{keyed}", indent=0)
    timers = [state for state in operator["states"] if state["section"] == "timers" and state["entries"]]
    others = [s for s in operator["states"] if s["section"] != "timers" and not is_own_state(s["name"])]
    shown = [*others, *timers]
    if not shown:
        yield "  no state"
        return
    rows = [
        [
            state["name"],
            state["description"],
            state["type"] + (" (pickled)" if state["pickled"] else ""),
            "?" if state["entries"] < 0 else f"{state['entries']:,}",
            size_in_words(state["bytes"]),
        ]
        for state in shown
    ]
    yield from table(["STATE", "KIND", "TYPE", "ENTRIES", "SIZE"], rows, wrap=2, right=frozenset({3, 4}))
