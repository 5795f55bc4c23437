"""A look at every file of a savepoint: how much each state takes, what is pickled, what is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millrace.state.delta import Fragment
from millrace.state.errors import StateError
from millrace.state.files import JobFiles
from millrace.state.handles import FileHandle, read_state_file
from millrace.state.manifest import Manifest
from millrace.state.savepoint_files import COLUMN_FILES, Address


@dataclass
class FileReport:
    """What was found in the files that a manifest names. `damaged` says of each damaged file what is wrong."""

    files: int = 0
    size: int = 0
    sizes: dict[Address, int] = field(default_factory=dict)
    kinds: dict[Address, str] = field(default_factory=dict)
    pickled: set[Address] = field(default_factory=set)
    damaged: dict[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)


def inspect_files(files: JobFiles, manifest: Manifest) -> FileReport:
    """Read every file that a manifest names, and nothing else. Nothing is unpickled."""
    report = FileReport()
    for handles in (handles for subtasks in manifest.subtasks.values() for handles in subtasks):
        for handle in handles.chain:
            report.files += 1
            report.size += handle.size
            _inspect_file(files, handle, report)
    for paths in (paths for of_vertex in manifest.feedback.values() for paths in of_vertex.values()):
        for path in paths:
            report.files += 1
            try:
                report.size += len(files.read(path))
            except StateError as error:
                report.damaged[path] = error.message.removeprefix(f"{path}: ")
    return report


def _inspect_file(files: JobFiles, handle: FileHandle, report: FileReport) -> None:
    if handle.kind not in COLUMN_FILES:  # A database's own; reading it would mean to open it.
        report.foreign.append(handle.path)
        return
    try:
        parts = read_state_file(files, handle).parts
    except StateError as error:
        report.damaged[handle.path] = error.message.removeprefix(f"{handle.path}: ")
        return
    for fragment in (fragment for part in parts for fragment in part.fragments):
        if not isinstance(fragment.meta.get("name"), str):
            report.damaged[handle.path] = "it holds a state without a name"
            continue
        address = fragment.address
        size = sum(len(column.data) for column in fragment.columns.values())
        report.sizes[address] = report.sizes.get(address, 0) + size
        report.kinds[address] = str(fragment.meta.get("kind"))
        if _is_pickled(fragment):
            report.pickled.add(address)


def _is_pickled(fragment: Fragment) -> bool:
    columns = fragment.columns.values()
    return any(column.pickled or column.encoding == "pickle" or names_pickle(column.type_json) for column in columns)


def names_pickle(type_json: Any) -> bool:
    """Whether values of a type, as JSON, are pickled anywhere inside."""
    if isinstance(type_json, dict):
        return type_json.get("type") == "PICKLED_BYTE_ARRAY" or any(map(names_pickle, type_json.values()))
    return isinstance(type_json, list) and any(map(names_pickle, type_json))
