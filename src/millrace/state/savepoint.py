"""Savepoints as values: read the state of a job, change it, write it, or make the state that a job begins with."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import msgspec

from millrace.common.job_id import JobID
from millrace.state.codec import BatchType, ColumnCodec, EncodedColumn, type_of_column
from millrace.state.delta import Fragment, Version
from millrace.state.descriptors import MapStateDescriptor, StateDescriptor
from millrace.state.errors import StateCorruptedError, StateError
from millrace.state.files import open_files
from millrace.state.fragments import where
from millrace.state.heap import value_codecs
from millrace.state.key_groups import LOWER_BOUND_MAX_PARALLELISM
from millrace.state.manifest import Manifest, OperatorMeta, StateMeta, list_manifests, write_manifest
from millrace.state.savepoint_files import SavedState, open_savepoint
from millrace.state.savepoint_rows import keyed_fragments, operator_fragments, rows_given, transformed
from millrace.state.savepoint_views import (
    KeyedRows,
    KeyedStateView,
    OperatorStateView,
    ReadTables,
    TimersView,
    Types,
)

_OPERATOR_KINDS = {"list": "operator-list", "union": "union-list", "broadcast": "broadcast"}


@dataclass(frozen=True)
class Savepoint:
    """The state of a job at one moment. Each change makes another one; only `write` touches files.

    >>> from millrace.common import Types
    >>> from millrace.state import ValueStateDescriptor
    >>> total = ValueStateDescriptor("total", Types.LONG())
    >>> savepoint = Savepoint.new().with_operator("totals", Types.STRING())
    >>> savepoint = savepoint.with_keyed_state("totals", total, [("a", 1), ("b", 2)])
    >>> list(savepoint.transform_keyed_state("totals", "total", lambda key, n: n * 10).keyed_state("totals", "total"))
    [('a', 10), ('b', 20)]

    State is read from the files when it is asked for, one subtask's at a time; what replaces it is kept in memory until
    it is written. Classes that the files name are not imported unless `allow_pickle`: dataclasses and enums are stood
    in for by ones of the same name and fields.
    """

    manifest: Manifest
    location: str = ""
    allow_pickle: bool = False
    damaged: Sequence[StateCorruptedError] = ()
    max_parallelism: int = LOWER_BOUND_MAX_PARALLELISM
    _saved: SavedState = field(default_factory=SavedState, repr=False)
    _key_types: dict[str, BatchType | None] = field(default_factory=dict, repr=False)

    # -- reading -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | os.PathLike[str], allow_pickle: bool = False) -> Savepoint:
        """Open a savepoint's directory, a job's checkpoint directory (its newest manifest that is whole), or the
        state that one `.manifest` file names. Only the manifest is read now."""
        location, files, manifest, damaged = open_savepoint(path)
        for error in damaged:
            message = f"{location}: {error.message}; reading the state of epoch {manifest.epoch} instead"
            warnings.warn(message, stacklevel=2)
        saved = SavedState(files, manifest.subtasks, allow_pickle)
        return cls(manifest, location, allow_pickle, tuple(damaged), _saved=saved)

    def operators(self) -> list[OperatorMeta]:
        """The operators, with what is known of their states."""
        return list(self.manifest.operators)

    def operator(self, uid: str) -> OperatorMeta:
        """One operator; an error that lists all if there is none."""
        for operator in self.manifest.operators:
            if operator.uid == uid:
                return operator
        known = ", ".join(repr(operator.uid) for operator in self.manifest.operators)
        raise StateError(f"there is no operator {uid!r}", action=f"Take one of those there are: {known or 'none'}.")

    def keyed_state(self, uid: str, name: str) -> KeyedStateView:
        """The keyed state of that name, of that operator."""
        operator, meta = self._find(uid, name, "keyed")
        return KeyedStateView(operator, meta, self._types(operator, meta), self._reader(operator, meta))

    def operator_state(self, uid: str, name: str) -> OperatorStateView:
        """The list, union list or broadcast state of that name, of that operator."""
        operator, meta = self._find(uid, name, "operator")
        return OperatorStateView(operator, meta, self._types(operator, meta), self._reader(operator, meta))

    def timers(self, uid: str) -> TimersView:
        """The timers of an operator."""
        operator = self.operator(uid)
        metas = [meta for meta in operator.states if meta.section == "timers"]
        types = self._types(operator, metas[0]) if metas else {}
        return TimersView(operator, types, [(meta.name, self._reader(operator, meta)) for meta in metas])

    def _reader(self, operator: OperatorMeta, meta: StateMeta) -> ReadTables:
        return partial(self._saved.tables, operator, meta, allow_pickle=self.allow_pickle)

    def _find(self, uid: str, name: str, section: str) -> tuple[OperatorMeta, StateMeta]:
        operator = self.operator(uid)
        for meta in operator.states:
            if (meta.section, meta.name) == (section, name):
                return operator, meta
        there = ", ".join(f"{meta.name!r} ({meta.section})" for meta in operator.states if meta.section != "timers")
        raise StateError(
            f"operator {uid!r} has no {section} state {name!r}",
            action=f"Take one of those that it has: {there or 'none'}.",
        )

    def _types(self, operator: OperatorMeta, meta: StateMeta) -> Types:
        columns = {role: EncodedColumn("typed", said, False, b"") for role, said in meta.types.items()}
        try:
            return {role: type_of_column(column, self.allow_pickle) for role, column in columns.items()}
        except StateError as error:
            error.message = f"{where(operator.uid, meta.name)}: {error.message}"
            raise

    # -- changing ----------------------------------------------------------------------------------------------------

    @classmethod
    def new(cls, max_parallelism: int = LOWER_BOUND_MAX_PARALLELISM, job_name: str = "") -> Savepoint:
        """A savepoint without operators. `max_parallelism` is what operators that are added to it have."""
        manifest = Manifest(JobID().to_hex_string(), 0, job_name=job_name, kind="savepoint")
        return cls(manifest, max_parallelism=max_parallelism)

    def with_operator(
        self, uid: str, key_type: BatchType | None = None, *, name: str = "", max_parallelism: int | None = None
    ) -> Savepoint:
        """Add an operator without state. Its max parallelism must be the one that the program gives it, and its key
        type the one of its `key_by`; without a type, keys are plain values."""
        if any(operator.uid == uid for operator in self.manifest.operators):
            raise StateError(
                f"there is an operator {uid!r} already",
                action="Change its state with with_keyed_state, or remove it first with without_operator.",
            )
        taken = {operator.vertex for operator in self.manifest.operators} | set(self.manifest.subtasks)
        names = (f"operator-{uid}{f'-{number}' if number else ''}" for number in count())
        vertex = next(free for free in names if free not in taken)
        added = OperatorMeta(uid, vertex, 1, max_parallelism or self.max_parallelism, name or uid)
        changed = self._with_operators([*self.manifest.operators, added])
        return replace(changed, _key_types={**self._key_types, uid: key_type})

    def without_operator(self, uid: str) -> Savepoint:
        """Forget an operator: its state, and what it had read if it is a source."""
        gone = self.operator(uid)
        kept = [operator for operator in self.manifest.operators if operator.uid != uid]
        manifest = self.manifest
        feedback = manifest.feedback
        if gone.vertex not in {operator.vertex for operator in kept}:
            feedback = {vertex: paths for vertex, paths in feedback.items() if vertex != gone.vertex}
        manifest = msgspec.structs.replace(
            manifest,
            operators=kept,
            sources={key: offsets for key, offsets in manifest.sources.items() if key != uid},
            committables={key: said for key, said in manifest.committables.items() if key != uid},
            finished=[key for key in manifest.finished if key != uid],
            feedback=feedback,
            spark=_spark_without(manifest.spark, uid),
        )
        return replace(self, manifest=manifest, _saved=self._saved.without(uid))

    def with_keyed_state(self, uid: str, state: str | StateDescriptor, rows: Any) -> Savepoint:
        """Put these rows in the place of a keyed state, or add one.

        `state` is the name of one that is there, whose types stay, or a descriptor as the program has it. `rows` are
        tuples as `KeyedStateView.items` gives them, a dict, or a table of Arrow, pandas or Spark with the columns of
        `KeyedStateView.to_arrow` (those not needed are passed over). State with a time to live is written now, unless
        the table says when.
        """
        view = self.keyed_state(uid, state) if isinstance(state, str) else self._described(uid, state)
        return self._with_rows(view, rows_given(rows, view))

    def transform_keyed_state(self, uid: str, name: str, function: Callable[[Any, Any], Any]) -> Savepoint:
        """Replace each value of a keyed state by `function(key, value)`, where None removes it. The value is a list for
        list state, a dict for map state; where there are namespaces, each has a value of its own."""
        view = self.keyed_state(uid, name)
        return self._with_rows(view, transformed(view, function))

    def with_operator_state(
        self, uid: str, state: str | StateDescriptor, items: Any, mode: str = "list"
    ) -> Savepoint:
        """Put these items in the place of an operator's list, union list or broadcast state, or add one.

        `state` is as for `with_keyed_state`; with a descriptor, `mode` is list, union or broadcast. For broadcast
        state, `items` are pairs or a dict.
        """
        operator = self.operator(uid)
        if isinstance(state, str):
            _, meta = self._find(uid, state, "operator")
            types = self._types(operator, meta)
        else:
            if mode not in _OPERATOR_KINDS or (mode == "broadcast") != isinstance(state, MapStateDescriptor):
                raise StateError(
                    f"{state!r} describes no operator state of the mode {mode!r}",
                    action="Take a ListStateDescriptor for list and union, a MapStateDescriptor for broadcast.",
                )
            types = {role: codec.type_info for role, codec in value_codecs(state).items()}
            meta = StateMeta(state.name, "operator", _OPERATOR_KINDS[mode], _types_json(types))
        entries, fragments = operator_fragments(operator, meta, types, items)
        return self._with_state(operator, msgspec.structs.replace(meta, entries=entries), fragments)

    def _described(self, uid: str, descriptor: StateDescriptor) -> KeyedStateView:
        operator = self.operator(uid)
        known = [meta for meta in operator.states if meta.section == "keyed" and meta.name == descriptor.name]
        if known and known[0].namespaced:
            raise StateError(
                f"{where(uid, descriptor.name)} is kept by namespace, and a descriptor says nothing of those",
                action="Give the name of the state instead of a descriptor.",
            )
        types = {"key": self._key_type(operator)}
        types.update({role: codec.type_info for role, codec in value_codecs(descriptor).items()})
        ttl = descriptor.ttl_config is not None
        meta = StateMeta(descriptor.name, "keyed", descriptor.kind, _types_json(types), ttl=ttl)
        return KeyedStateView(operator, meta, types, lambda: iter(()))

    def _key_type(self, operator: OperatorMeta) -> BatchType | None:
        if operator.uid in self._key_types:
            return self._key_types[operator.uid]
        keyed = [meta for meta in operator.states if meta.section in ("keyed", "timers") and meta.types.get("key")]
        return self._types(operator, keyed[0])["key"] if keyed else None

    def _with_rows(self, view: KeyedStateView, rows: KeyedRows) -> Savepoint:
        meta = msgspec.structs.replace(view.meta, entries=len(rows.keys))
        return self._with_state(view.operator, meta, keyed_fragments(rows, view))

    def _with_state(self, operator: OperatorMeta, meta: StateMeta, fragments: list[Fragment | None]) -> Savepoint:
        address = (meta.section, meta.name)
        others = [other for other in operator.states if (other.section, other.name) != address]
        changed = msgspec.structs.replace(operator, states=[*others, meta])
        operators = [changed if other.uid == operator.uid else other for other in self.manifest.operators]
        savepoint = self._with_operators(operators)
        saved = self._saved.with_state((operator.uid, *address), operator.vertex, fragments)
        return replace(savepoint, _saved=saved)

    def _with_operators(self, operators: list[OperatorMeta]) -> Savepoint:
        return replace(self, manifest=msgspec.structs.replace(self.manifest, operators=operators))

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, path: str | os.PathLike[str]) -> str:
        """Write a savepoint that a job can be started from, and that needs nothing of what it was made from.

        The directory must not hold one yet. Returns the path of the manifest.
        """
        target = open_files(path)
        if list_manifests(target):
            raise StateError(f"there is state in {os.fspath(path)} already", action="Name a directory that is empty.")
        version = Version(self.manifest.epoch, "savepoint")
        vertices = dict.fromkeys([*self.manifest.subtasks, *(operator.vertex for operator in self.manifest.operators)])
        subtasks = {vertex: self._saved.write(target, vertex, version) for vertex in vertices}
        for other in self._other_files():
            assert self._saved.files is not None
            target.write(other, self._saved.files.read(other))
        now = int(time.time() * 1000)
        manifest = msgspec.structs.replace(self.manifest, subtasks=subtasks, kind="savepoint", created=now)
        return f"{os.fspath(path).rstrip('/')}/{write_manifest(target, manifest)}"

    def _other_files(self) -> list[str]:
        """What a job needs beside its state: the records of iterations, and what Spark's file sources remember."""
        by_subtask = [paths for of_vertex in self.manifest.feedback.values() for paths in of_vertex.values()]
        feedback = [path for paths in by_subtask for path in paths]
        return [*feedback, *self.manifest.spark.get("files", [])]


def _spark_without(spark: dict[str, Any], uid: str) -> dict[str, Any]:
    sources = spark.get("sources")
    if not isinstance(sources, dict):
        return spark
    return {**spark, "sources": {key: offsets for key, offsets in sources.items() if key != uid}}


def _types_json(types: Types) -> dict[str, dict[str, Any] | None]:
    return {role: ColumnCodec(kind).type_json for role, kind in types.items()}
