"""Manifests, garbage, and the file systems below them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from millrace.state import (
    FileHandle,
    JobFiles,
    Manifest,
    OperatorMeta,
    StateCorruptedError,
    StateError,
    StateHandles,
    garbage,
    latest_manifest,
    list_manifests,
    open_files,
    read_manifest,
    write_manifest,
)
from millrace.state.files import ArrowFiles, LocalFiles
from millrace.state.handles import safe_name
from millrace.state.manifest import manifest_path


def handle(path: str, epoch: int = 1) -> FileHandle:
    return FileHandle(path, 10, "00", epoch, "a", "base", ((epoch, "a"), (epoch + 1, "b")))


def manifest(epoch: int, *paths: str) -> Manifest:
    return Manifest(
        "job",
        epoch,
        sources={"s": [1, None, "x"]},
        subtasks={"v": [StateHandles(tuple(handle(path) for path in paths)), StateHandles()]},
        operators=[OperatorMeta("uid", "v", 2, 128, "count")],
        feedback={"v": {"0": ["feedback/1"]}},
    )


@pytest.fixture(params=["local", "arrow", "synced"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> JobFiles:
    if request.param == "arrow":
        return ArrowFiles(LocalFileSystem(), str(tmp_path))
    return LocalFiles(tmp_path, sync=request.param == "synced")


def test_a_file_is_written_whole_replaced_listed_and_deleted(files: JobFiles) -> None:
    assert files.list("state") == []
    files.write("state/a/b.txt", b"1")
    files.write("state/a/b.txt", b"22")
    files.write("state/c.txt", b"")
    assert files.read("state/a/b.txt") == b"22"
    assert files.list("state") == ["state/a/b.txt", "state/c.txt"]
    files.delete("state/c.txt")
    files.delete("state/c.txt")
    assert files.list("state") == ["state/a/b.txt"]
    with pytest.raises(StateCorruptedError, match=r"state/c\.txt: the file is missing"):
        files.read("state/c.txt")


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", "a\\..\\x", "c:/x", "a\0b"])
def test_a_path_stays_within_the_directory(files: JobFiles, path: str) -> None:
    for use in (files.read, files.delete, files.list, lambda path: files.write(path, b"")):
        with pytest.raises(StateError, match="leads out"):
            use(path)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(tmp_path)
    files.write("a", b"old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        files.write("a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_files_are_opened_by_path_or_uri(tmp_path: Path) -> None:
    open_files(tmp_path).write("a", b"1")
    assert open_files(f"file://{tmp_path}").read("a") == b"1"
    assert isinstance(open_files("mock:///x"), ArrowFiles)


def test_names_of_files_are_harmless_and_distinct() -> None:
    assert safe_name("7.1-a") == "7.1-a"
    names = [safe_name(text) for text in ("a/b", "a\\b", "..", ".", "a b", "")]
    assert len(set(names)) == len(names)
    assert all("/" not in name and name.strip(".") for name in names)


def test_a_manifest_comes_back_as_it_was_written(files: JobFiles) -> None:
    written = manifest(3, "state/v/0/3-a.base")
    assert write_manifest(files, written) == "manifests/000000000003.manifest"
    assert read_manifest(files, 3) == written
    assert written.files() == {"state/v/0/3-a.base", "feedback/1"}


def test_the_latest_whole_manifest_is_found_and_damaged_ones_are_named(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    assert latest_manifest(files) == (None, [])
    for epoch in (1, 9, 10):
        write_manifest(files, manifest(epoch))
    assert list_manifests(files) == [1, 9, 10]
    (tmp_path / manifest_path(10)).write_bytes(b"")
    found, damaged = latest_manifest(files)
    assert found == manifest(9)
    assert [error.path for error in damaged] == [manifest_path(10)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), cut=st.booleans())
def test_any_damage_to_a_manifest_is_recognised(tmp_path: Path, where: float, cut: bool) -> None:
    files = open_files(tmp_path)
    write_manifest(files, manifest(1, "state/v/0/1-a.base"))
    path = tmp_path / manifest_path(1)
    data = bytearray(path.read_bytes())
    place = int(where * len(data))
    data[place] ^= 0x20
    path.write_bytes(data[:place] if cut else data)
    with pytest.raises(StateCorruptedError, match=r"000000000001\.manifest"):
        read_manifest(files, 1)


def test_garbage_is_what_no_manifest_names_and_none_to_come_can_name(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    names = ["1-a.base", "2-a.delta", "2-zombie.delta", "3-running.delta", "2-a.delta.0f.tmp"]
    for name in names:
        files.write(f"state/v/0/{name}", b"")
    kept = [manifest(1, "state/v/0/1-a.base"), manifest(2, "state/v/0/1-a.base", "state/v/0/2-a.delta")]
    assert garbage(files, kept) == ["state/v/0/2-a.delta.0f.tmp", "state/v/0/2-zombie.delta"]
    assert garbage(files, []) == []
