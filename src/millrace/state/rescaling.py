"""Redistribution of state: from the files of all old subtasks to what one new subtask begins with.

Nothing here knows the program: what no operator asks for is carried along as well. Keyed state goes file by file,
so that it need not fit in memory; operator state and timers of all old subtasks are gathered first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any

from millrace.state.codec import ALLOW_PICKLE, ColumnCodec, type_of_column
from millrace.state.delta import Fragment, Part
from millrace.state.disk_reading import database_fragments
from millrace.state.errors import StateError, StatePickleError
from millrace.state.files import JobFiles
from millrace.state.fragments import apply_fragment, decode_columns, encode_columns, where
from millrace.state.generic import generic_table, types_of
from millrace.state.handles import FileHandle, StateHandles, read_state_file
from millrace.state.hashing import stable_hash
from millrace.state.key_groups import key_group
from millrace.state.operator_state import (
    HeapBroadcastState,
    OperatorListState,
    UnionListState,
    redistribute_list,
)
from millrace.state.tables import INT64, Clock, Columns, Table, spread
from millrace.state.timers import TimerTable

# (the key groups that a subtask owns, of how many) by operator uid
KeyGroupsOf = Callable[[str], tuple[range, int]]

_Address = tuple[str, str, str]

# Columns that have one value per key, in states that keep several under a key.
_ONE_PER_KEY = frozenset({"key", "ns", "count"})


@dataclass(frozen=True)
class Restore:
    """Which part of somebody else's state a subtask begins from.

    `uids` are the operators whose state is wanted, None for all. Pickles are loaded only with `allow_pickle`.
    """

    files: JobFiles
    key_groups: KeyGroupsOf
    subtask: int
    parallelism: int
    clock: Clock
    uids: frozenset[str] | None = None
    allow_pickle: bool = False

    def wants(self, fragment: Fragment) -> bool:
        """Whether a fragment is of a wanted operator. A pickle that must not be loaded is refused at once: what
        this job writes later, it trusts."""
        if self.uids is not None and fragment.uid not in self.uids:
            return False
        if not self.allow_pickle and any(column.pickled for column in fragment.columns.values()):
            _refuse_pickle(where(fragment.uid, fragment.meta["name"]))
        return True

    def pieces(self, old_subtasks: list[StateHandles]) -> Iterator[tuple[str, list[Fragment]]]:
        """What the subtask begins with: fragments to be applied in this order, and the file that they are from."""
        others = []
        for handles in old_subtasks:
            if handles.database:
                yield from self._of_database(handles.database)
            parts = []
            for handle in handles.files:
                keyed: list[Fragment] = []
                for part in read_state_file(self.files, handle).parts:
                    wanted = [fragment for fragment in part.fragments if self.wants(fragment)]
                    keyed.extend(self._owned(f) for f in wanted if f.section == "keyed")
                    parts.append(Part(part.version, [f for f in wanted if f.section != "keyed"]))
                yield handle.path, keyed
            others.append(parts)
        yield "a rescaled state", list(self._redistributed(others))

    def _owned(self, fragment: Fragment) -> Fragment:
        """What a fragment says of the subtask's own keys."""
        trusted = self.allow_pickle
        owned, groups = self.key_groups(fragment.uid)
        keeps: dict[str, list[bool]] = {}
        for name, column in fragment.columns.items():
            if name.endswith(".key"):
                keys = ColumnCodec(type_of_column(column, trusted)).decode(column, allow_pickle=trusted)
                keeps[name.partition(".")[0]] = [stable_hash(key) % groups in owned for key in keys]
        if all(all(keep) for keep in keeps.values()):
            return fragment
        codecs = {role: ColumnCodec(kind) for role, kind in types_of([fragment], trusted).items()}
        codecs.update(count=INT64, stamp=INT64)
        columns = decode_columns(codecs, fragment, allow_pickle=trusted)
        return fragment._replace(columns=encode_columns(codecs, keep_rows(columns, keeps))[1])

    def _of_database(self, database: tuple[FileHandle, ...]) -> Iterator[tuple[str, list[Fragment]]]:
        for fragment in database_fragments(database, self.files, self.clock, allow_pickle=self.allow_pickle):
            if self.wants(fragment):
                yield database[0].path, [self._owned(fragment)]

    def _redistributed(self, old_subtasks: list[list[Part]]) -> Iterator[Fragment]:
        by_address: dict[_Address, list[Table]] = {}
        for parts in old_subtasks:
            for address, table in open_tables(parts, self.clock, allow_pickle=self.allow_pickle).items():
                by_address.setdefault(address, []).append(table)
        fragments = [fragment for parts in old_subtasks for part in parts for fragment in part.fragments]
        metas = {fragment.address: fragment.meta for fragment in fragments}
        for address, tables in by_address.items():
            uid, section, _ = address
            for columns in _redistributed(uid, tables, self.key_groups, self.subtask, self.parallelism):
                yield Fragment(uid, section, metas[address], encode_columns(tables[0].codecs, columns)[1])


def _refuse_pickle(place: str) -> None:
    raise StatePickleError(
        f"{place} was pickled, and loading a pickle can run any code that its author chose",
        action=f"Set {ALLOW_PICKLE} to true, but only for files whose origin you trust.",
    )


def open_tables(parts: list[Part], clock: Clock, *, allow_pickle: bool) -> dict[_Address, Table]:
    """The tables of one subtask as its files describe them."""
    fragments: dict[_Address, list[Fragment]] = {}
    for part in parts:
        for fragment in part.fragments:
            fragments.setdefault(fragment.address, []).append(fragment)
    tables = {}
    for address, chain in fragments.items():
        meta = {**chain[-1].meta, "ttl": any(fragment.meta.get("ttl") for fragment in chain)}
        try:
            # The newest type of each role: a job that goes on with changed code has older files of another.
            table = tables[address] = generic_table(meta, types_of(reversed(chain), allow_pickle), clock)
        except StateError as error:
            error.message = f"{where(address[0], address[2])}: {error.message}"
            raise
        for fragment in chain:
            as_read = {**fragment.meta, "kind": table.kind}
            apply_fragment(table, fragment._replace(meta=as_read), allow_pickle=allow_pickle)
    return tables


def _redistributed(
    uid: str, tables: list[Table], key_groups: KeyGroupsOf, subtask: int, parallelism: int
) -> Iterator[Columns]:
    match tables[0]:
        case UnionListState():
            yield {"all.item": _all_items(tables)}
        case OperatorListState():
            yield {"all.item": redistribute_list([_all_items(tables)], parallelism)[subtask]}
        case HeapBroadcastState():
            yield tables[subtask % len(tables)].full()
        case TimerTable():
            yield _renumbered([_keep_owned(table.full(), *key_groups(uid)) for table in tables])


def _all_items(tables: list[Table]) -> list[Any]:
    return [item for table in tables for item in table.full()["all.item"]]


def keep_rows(columns: Columns, keeps: dict[str, list[bool]]) -> Columns:
    """The rows of columns that are to be kept, by the key that they belong to in each part."""
    kept = {}
    for name, values in columns.items():
        part, _, role = name.partition(".")
        keep = keeps.get(part)
        if keep is None:
            kept[name] = values
        else:
            counts = columns.get(f"{part}.count")
            per_key = counts is None or role in _ONE_PER_KEY
            kept[name] = list(compress(values, keep if per_key else spread(keep, counts or [])))
    return kept


def _keep_owned(columns: Columns, owned: range, max_parallelism: int) -> Columns:
    return keep_rows(columns, {"put": [key_group(key, max_parallelism) in owned for key in columns["put.key"]]})


def _renumbered(all_columns: list[Columns]) -> Columns:
    """The timers of several subtasks, in the order of their sequence, which each subtask counted on its own."""
    names = ("put.seq", "put.time", "put.key", "put.ns")
    rows = [row for columns in all_columns for row in zip(*(columns[name] for name in names), strict=True)]
    rows.sort(key=lambda row: row[0])
    return {
        "put.seq": list(range(len(rows))),
        "put.time": [row[1] for row in rows],
        "put.key": [row[2] for row in rows],
        "put.ns": [row[3] for row in rows],
        "next.seq": [len(rows)],
    }
