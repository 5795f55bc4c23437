"""The format on disk is what docs/state-format.md says, and what older releases wrote can still be read."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from millrace.state import Savepoint, key_group, stable_hash
from tests.state.make_savepoint_data import MAX_PARALLELISM, NOW, RICH, USERS, VERTEX, write_savepoint
from tests.state.test_savepoint import everything, restored

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "data" / "savepoint-v1"


def manifest_of(directory: Path) -> dict[str, Any]:
    """A manifest, read as the document says."""
    (path,) = (directory / "manifests").iterdir()
    head, _, body = path.read_bytes().partition(b"\n")
    magic, version, length, checksum = head.decode().split(" ")
    assert (magic, version, int(length)) == ("millrace-manifest", "1", len(body))
    assert checksum == blake2b(body, digest_size=16).hexdigest()
    found: dict[str, Any] = json.loads(body)
    return found


def columns_of(data: bytes) -> Iterator[tuple[dict[str, Any], dict[str, list[Any]]]]:
    """The fragments of a state file with their columns, read as the document says."""
    magic, version, length, crc = struct.unpack_from("<8sHII", data)
    header = data[18 : 18 + length]
    assert (magic, version, crc) == (b"MILLRACE", 1, crc32(header))
    start = 18 + length
    for part in json.loads(header)["parts"]:
        for fragment in part["fragments"]:
            columns = {}
            for column in fragment["columns"]:
                raw = data[start : start + column["length"]]
                assert crc32(raw) == column["crc"]
                start += column["length"]
                columns[column["name"]] = values_of(column, raw)
            yield fragment, columns
    assert start == len(data)


def values_of(column: dict[str, Any], raw: bytes) -> list[Any]:
    if column["encoding"] == "int64":
        return [number for (number,) in struct.iter_unpack("<q", raw)]
    if column["encoding"] == "pickle":
        assert column["pickled"]
        return []
    if column["encoding"] == "plain":
        return list(msgspec.msgpack.decode(raw))
    (length,) = struct.unpack_from("<I", raw)
    present = iter(msgspec.msgpack.decode(raw[4 + length :], strict=False))
    return [None if none else next(present) for none in raw[4 : 4 + length]] if length else list(present)


def test_the_format_is_what_the_document_says() -> None:
    manifest = manifest_of(KEPT)
    found: dict[tuple[str, str], list[dict[str, list[Any]]]] = {}
    for subtask in manifest["subtasks"][VERTEX]:
        (file,) = subtask["chain"]
        data = (KEPT / file["path"]).read_bytes()
        assert (file["kind"], file["size"]) == ("base", len(data))
        assert file["checksum"] == blake2b(data, digest_size=16).hexdigest()
        for fragment, columns in columns_of(data):
            found.setdefault((fragment["uid"], fragment["state"]["name"]), []).append(columns)
    totals = dict(pair for c in found[RICH, "total"] for pair in zip(c["put.key"], c["put.value"], strict=True))
    assert totals == {user: n for n, user in enumerate(USERS)}
    first = found[RICH, "lines"][0]
    assert sum(first["set.count"]) == len(first["set.item"])
    assert first["set.item"][0] == [0, "i0", 0.0, [0, 5000]]
    assert set(found[RICH, "carts"][0]) == {"put.key", "put.count", "put.entry", "put.value", "put.stamp"}
    assert set(found[RICH, "carts"][0]["put.stamp"]) == {NOW}
    assert found[RICH, "windows"][0]["put.ns"][0] == [0, 60]
    assert [item for columns in found[RICH, "union"] for item in columns["all.item"]] == [0, 1]
    assert set(found[RICH, "event"][0]) == {"put.time", "put.seq", "put.key", "put.ns", "next.seq"}
    operator = manifest["operators"][0]
    for subtask, columns in enumerate(found[RICH, "total"]):
        for key in columns["put.key"]:
            assert key_group(key, MAX_PARALLELISM) == stable_hash(key) % operator["max_parallelism"]
            assert key_group(key, MAX_PARALLELISM) * operator["parallelism"] // MAX_PARALLELISM == subtask


def test_every_field_and_kind_is_in_the_document() -> None:
    text = (ROOT / "docs" / "state-format.md").read_text()
    manifest = manifest_of(KEPT)
    words = set(re.findall(r"[\w-]+", text))
    assert set(manifest) <= words
    assert {field for operator in manifest["operators"] for field in operator} <= words
    assert {field for operator in manifest["operators"] for meta in operator["states"] for field in meta} <= words
    assert {meta["kind"] for operator in manifest["operators"] for meta in operator["states"]} <= words
    assert {field for subtask in manifest["subtasks"][VERTEX] for field in subtask["chain"][0]} <= words


def test_a_savepoint_of_this_version_is_still_read_as_it_was_written(tmp_path: Path) -> None:
    write_savepoint(tmp_path)
    kept, now = (Savepoint.read(path, allow_pickle=True) for path in (KEPT, tmp_path))
    assert everything(kept) == everything(now)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_savepoint_of_this_version_is_still_restored(parallelism: int) -> None:
    subtasks = restored(KEPT, parallelism)
    seen = {}
    for subtask in subtasks:
        for key in subtask.state.operator(RICH).keyed.keys("average"):
            subtask.keys.key = key
            seen[key] = (subtask.keyed["average"].get(), subtask.keyed["seen"].value() is not None)
    assert seen == {user: (float(n), True) for n, user in enumerate(USERS)}


def test_the_documents_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "state-format.md").read_text(), re.DOTALL)
    exec(program, {})
    assert list(Savepoint.read("doubled").keyed_state("totals", "total")) == [("a", 2), ("b", 4)]
