"""Savepoints as values: what they hold, how it is changed, and that a job can go on from what was written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import Instant, Row
from millrace.common.errors import KeyHashError
from millrace.common.typeinfo import Types
from millrace.state import (
    FileHandle,
    ListStateDescriptor,
    Manifest,
    MapStateDescriptor,
    OperatorMeta,
    ReducingStateDescriptor,
    Savepoint,
    StateCorruptedError,
    StateEncodingError,
    StateError,
    StateHandles,
    StatePickleError,
    StateTtlConfig,
    StateTypeError,
    SubtaskState,
    ValueStateDescriptor,
    key_group,
    key_group_range,
    open_files,
    subtask_of,
    write_manifest,
)
from millrace.state.backends import BackendSpec
from tests.state.make_savepoint_data import (
    DESCRIPTORS,
    MAX_PARALLELISM,
    NOW,
    PLAIN,
    RICH,
    USERS,
    VERTEX,
    WINDOWS,
    Color,
    Reading,
    Subtask,
    write_savepoint,
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("savepoint")
    write_savepoint(path)
    return path


def restored(path: Path, parallelism: int, allow_pickle: bool = True) -> list[Subtask]:
    """The program of the data at another parallelism, restored from a savepoint."""
    files, savepoint = open_files(path), Savepoint.read(path)
    subtasks = []
    for index in range(parallelism):
        subtask = Subtask(files, index, allow_pickle)
        owned = key_group_range(index, parallelism, MAX_PARALLELISM)
        handles = [one for of_vertex in savepoint.manifest.subtasks.values() for one in of_vertex]
        subtask.state.restore_rescaled(handles, lambda _, owned=owned: (owned, MAX_PARALLELISM), parallelism)
        subtask.state.clock.now = NOW
        subtasks.append(subtask)
    return subtasks


def table_of(view: Any) -> list[dict[str, Any]]:
    rows = view.to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (str(row.get("key")), repr(row)))


def everything(savepoint: Savepoint) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for operator in savepoint.operators():
        for meta in operator.states:
            if meta.section == "timers":
                continue
            view = savepoint.keyed_state if meta.section == "keyed" else savepoint.operator_state
            found[f"{operator.uid}/{meta.name}"] = table_of(view(operator.uid, meta.name))
        found[f"{operator.uid}/timers"] = table_of(savepoint.timers(operator.uid))
    return found


# -- reading ----------------------------------------------------------------------------------------------------------


def test_keyed_state_is_rows_of_python_values(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    items = {name: dict(savepoint.keyed_state(RICH, name).items()) for name in DESCRIPTORS}
    assert items["total"] == {user: n for n, user in enumerate(USERS)}
    assert items["lines"]["user-1"] == [
        Row(item="i0", price=0.0, when=Instant(0, 5_000)),
        Row(item="i1", price=0.5, when=Instant(1, 5_000)),
    ]
    assert items["scores"]["user-2"] == {"a": 0.5, "b": None}
    assert items["max"]["user-3"] == 2**70 + 3
    assert items["average"]["user-3"] == (3, 1)
    assert items["seen"]["user-3"] == datetime.fromisoformat("2023-11-14T22:13:03")
    assert items["recent"]["user-3"] == [[3], [3, None]]
    assert items["carts"]["user-3"] == {"x": b"\x00\xff", "y": b"\x03"}
    windows = savepoint.keyed_state(RICH, "windows")
    assert len(windows) == 2 * len(USERS)
    assert ("user-3", (60, 120), 63) in list(windows)


def test_classes_are_stood_in_for_unless_pickle_is_allowed(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    reading = dict(savepoint.keyed_state(RICH, "reading"))["user-2"]
    assert repr(reading) == "Reading(sensor='user-2', value=0.25, tags=('user-2', 2))"
    assert type(reading) is not Reading
    assert dict(savepoint.keyed_state(RICH, "color"))["user-1"].name == "BLUE"


def test_keyed_state_is_a_table_with_key_groups_and_stamps(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    first = table_of(savepoint.keyed_state(RICH, "seen"))[0]
    group, seen = key_group("user-0", MAX_PARALLELISM), datetime.fromisoformat("2023-11-14T22:13:00")
    assert first == {"key": "user-0", "value": seen, "stamp": NOW, "key_group": group}
    assert table_of(savepoint.keyed_state(RICH, "carts"))[0]["stamps"] == [NOW, NOW]
    schema = savepoint.keyed_state(RICH, "reading").to_arrow().schema
    tags = pa.struct([("f0", pa.string()), ("f1", pa.int64())])
    reading = pa.struct([("sensor", pa.string()), ("value", pa.float64()), ("tags", tags)])
    assert schema == pa.schema([("key", pa.string()), ("value", reading), ("key_group", pa.int64())])
    window = table_of(savepoint.keyed_state(RICH, "windows"))[0]
    assert window["namespace"] == {"f0": 0, "f1": 60}
    frame = savepoint.keyed_state(RICH, "total").to_pandas()
    assert (list(frame.columns), frame["value"].sum()) == (["key", "value", "key_group"], sum(range(len(USERS))))


def test_operator_state_and_timers_are_read_over_all_subtasks(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    assert list(savepoint.operator_state(RICH, "items")) == [f"item {index}.{n}" for index in (0, 1) for n in range(3)]
    assert table_of(savepoint.operator_state(RICH, "union")) == [{"item": 0}, {"item": 1}]
    assert list(savepoint.operator_state(RICH, "rules")) == [("small", Row(limit=10))]
    assert table_of(savepoint.operator_state(RICH, "rules")) == [{"key": "small", "value": {"limit": 10}}]
    timers = list(savepoint.timers(RICH))
    assert timers[:2] == [("event", 60, "user-0", (0, 60)), ("event", 61, "user-1", (0, 60))]
    assert len(timers) == len(savepoint.timers(RICH)) == 2 * len(USERS)
    assert list(savepoint.timers("orders")) == []


def test_a_table_goes_to_spark_through_its_session(saved: Path) -> None:
    class Session:
        def createDataFrame(self, table: pa.Table) -> pa.Table:
            return table

    view = Savepoint.read(saved).keyed_state(RICH, "total")
    assert view.to_spark(Session()) == view.to_arrow()


def test_an_unknown_operator_or_state_is_told_with_those_that_there_are(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    with pytest.raises(StateError, match="there is no operator 'profile'") as raised:
        savepoint.keyed_state("profile", "total")
    assert raised.value.action == "Take one of those there are: 'profiles', 'untyped', 'orders'."
    with pytest.raises(StateError, match="operator 'untyped' has no keyed state 'x'") as raised:
        savepoint.keyed_state(PLAIN, "x")
    assert raised.value.action == "Take one of those that it has: 'plain' (keyed), 'pickled' (keyed)."
    with pytest.raises(StateError, match="has no operator state 'total'"):
        savepoint.operator_state(RICH, "total")


def test_untyped_state_needs_pickle_only_where_it_was_pickled(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    assert dict(savepoint.keyed_state(PLAIN, "plain")) == {0: 7, 1: "text 1", 2: 7, 3: 0.5, 4: 4, 5: "text 5"}
    with pytest.raises(StatePickleError, match="state 'pickled' of operator 'untyped'") as raised:
        savepoint.keyed_state(PLAIN, "pickled").to_arrow()
    assert "state.savepoint.allow-pickle" in str(raised.value.action)
    allowed = Savepoint.read(saved, allow_pickle=True)
    assert dict(allowed.keyed_state(PLAIN, "pickled"))[2] == {2, 3}
    row = table_of(allowed.keyed_state(PLAIN, "pickled"))[2]
    assert row == {"key": 2, "value": [2, 3], "key_group": key_group(2, MAX_PARALLELISM)}


def test_typed_state_never_needs_pickle(tmp_path: Path) -> None:
    write_savepoint(tmp_path, pickled=False)
    assert everything(Savepoint.read(tmp_path))
    assert len(restored(tmp_path, 3, allow_pickle=False)) == 3


def test_a_checkpoint_directory_is_read_by_its_newest_manifest(tmp_path: Path) -> None:
    write_savepoint(tmp_path, kind="checkpoint", epochs=3)
    newest = Savepoint.read(tmp_path)
    assert newest.manifest.epoch == 9
    chain = newest.manifest.subtasks[VERTEX][0].chain
    assert [handle.kind for handle in chain] == ["base", "delta", "delta"]
    assert list(newest.operator_state(RICH, "items")).count("epoch 9") == 2
    older = Savepoint.read(tmp_path / "manifests" / "000000000008.manifest")
    assert list(older.operator_state(RICH, "items")).count("epoch 9") == 0
    assert list(older.operator_state(RICH, "items")).count("epoch 8") == 2


def test_a_damaged_manifest_is_named_and_an_older_one_read(tmp_path: Path) -> None:
    write_savepoint(tmp_path, kind="checkpoint", epochs=2)
    broken = tmp_path / "manifests" / "000000000008.manifest"
    broken.write_bytes(broken.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"manifests/000000000008\.manifest: .* reading the state of epoch 7"):
        savepoint = Savepoint.read(tmp_path)
    assert savepoint.manifest.epoch == 7
    assert [error.path for error in savepoint.damaged] == ["manifests/000000000008.manifest"]
    with pytest.raises(StateCorruptedError):
        Savepoint.read(broken)


def test_what_is_no_savepoint_is_told_with_what_it_might_be(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"there is no manifests/<epoch>\.manifest in it"):
        Savepoint.read(tmp_path)
    write_savepoint(tmp_path / "job-1")
    with pytest.raises(StateError, match="holds the state of several jobs: job-1"):
        Savepoint.read(tmp_path)
    (tmp_path / "x.manifest").write_text("")
    with pytest.raises(StateError, match="is not in a directory 'manifests'"):
        Savepoint.read(tmp_path / "x.manifest")


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    manifest = write_savepoint(tmp_path)
    path = manifest.subtasks[VERTEX][1].chain[0].path
    data = bytearray((tmp_path / path).read_bytes())
    data[-1] ^= 1
    (tmp_path / path).write_bytes(data)
    with pytest.raises(StateCorruptedError, match=path):
        list(Savepoint.read(tmp_path).keyed_state(RICH, "total"))


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "state/../../secret", "state\\x", "c:/x", "a\0b"])
def test_a_forged_manifest_leads_to_no_file_outside(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    home = tmp_path / "savepoint"
    manifest = write_savepoint(home)
    handle = manifest.subtasks[VERTEX][0].chain[0]
    state = {VERTEX: [StateHandles((FileHandle(path, handle.size, handle.checksum, 7, "attempt-0", "base"),))]}
    write_manifest(open_files(home), msgspec.structs.replace(manifest, subtasks=state))
    with pytest.raises(StateError, match="leads out of the job's directory"):
        list(Savepoint.read(home).keyed_state(RICH, "total"))
    write_manifest(open_files(home), msgspec.structs.replace(manifest, feedback={VERTEX: {"0": [path]}}))
    with pytest.raises(StateError, match="leads out of the job's directory"):
        Savepoint.read(home).write(tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("*.manifest"))


def test_a_forged_operator_writes_to_no_place_outside(tmp_path: Path) -> None:
    operators = [msgspec.structs.replace(Savepoint.new().with_operator("x").operator("x"), vertex="../../x")]
    manifest = Manifest("job", 1, operators=operators, subtasks={"../../x": []})
    write_manifest(open_files(tmp_path / "a"), manifest)
    savepoint = Savepoint.read(tmp_path / "a").with_keyed_state("x", ValueStateDescriptor("v"), {"k": 1})
    savepoint.write(tmp_path / "b")
    written = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"a", "b"}
    assert list(Savepoint.read(tmp_path / "b").keyed_state("x", "v")) == [("k", 1)]


def test_a_manifest_that_disagrees_with_its_files_is_damage(tmp_path: Path) -> None:
    manifest = write_savepoint(tmp_path)
    rich, *others = manifest.operators
    states = [msgspec.structs.replace(meta, kind="list") if meta.name == "total" else meta for meta in rich.states]
    forged = [msgspec.structs.replace(rich, states=states), *others]
    write_manifest(open_files(tmp_path), msgspec.structs.replace(manifest, operators=forged))
    with pytest.raises(StateCorruptedError, match="is value state in the files and list state in the manifest"):
        Savepoint.read(tmp_path).keyed_state(RICH, "total").to_arrow()


def test_a_checkpoint_of_rocksdb_is_read_like_any_other(tmp_path: Path) -> None:
    files = open_files(tmp_path / "job")
    state = SubtaskState(files, "1", 0, backend=BackendSpec("rocksdb", str(tmp_path / "local")))
    total = state.operator("sum", Types.STRING()).keyed.get_state(ValueStateDescriptor("total", Types.LONG()))
    handles = StateHandles()
    for epoch in range(1, 5):
        state.open(handles)
        state._base_wanted = epoch == 3  # Its base is what epoch 2 has left in the database.
        for number in range(epoch):
            state.operator("sum").keyed.context.key = f"k{number}"
            total.update((total.value() or 0) + epoch)
        handles = state.snapshot(epoch, "a")
    assert handles.database
    operator = OperatorMeta("sum", "1", 1, 128, "Sum", state.describe()["sum"])
    write_manifest(files, Manifest("job", 4, subtasks={"1": [handles]}, operators=[operator]))
    view = Savepoint.read(tmp_path / "job").keyed_state("sum", "total")
    assert dict(view) == {"k0": 10, "k1": 9, "k2": 7, "k3": 4}


# -- writing ----------------------------------------------------------------------------------------------------------


def test_a_copy_holds_the_same_in_bases_alone_whatever_was_pickled(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "job", kind="checkpoint", epochs=3)
    Savepoint.read(tmp_path / "job").write(tmp_path / "copy")
    before, after = (Savepoint.read(tmp_path / name, allow_pickle=True) for name in ("job", "copy"))
    assert everything(after) == everything(before)
    chains = [handles.chain for handles in after.manifest.subtasks[VERTEX]]
    assert [[handle.kind for handle in chain] for chain in chains] == [["base"], ["base"]]
    assert (after.manifest.kind, after.manifest.sources) == ("savepoint", before.manifest.sources)
    with pytest.raises(StateError, match="there is state in"):
        before.write(tmp_path / "copy")


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_written_savepoint_is_restored_with_every_key_at_its_owner(tmp_path: Path, parallelism: int) -> None:
    write_savepoint(tmp_path / "a")
    savepoint = Savepoint.read(tmp_path / "a").transform_keyed_state(RICH, "total", lambda key, n: n + 100)
    savepoint.transform_keyed_state(RICH, "windows", lambda key, n: -n).write(tmp_path / "b")
    subtasks = restored(tmp_path / "b", parallelism)
    for n, user in enumerate(USERS):
        owner = subtasks[subtask_of(key_group(user, MAX_PARALLELISM), parallelism, MAX_PARALLELISM)]
        for subtask in subtasks:
            assert (user in subtask.state.operator(RICH).keyed.keys("total")) == (subtask is owner)
        owner.keys.key = user
        owner.windows.set_namespace((60, 120))
        keyed = owner.keyed
        assert [keyed["total"].value(), owner.windows.get(), keyed["average"].get()] == [n + 100, -n - 60, float(n)]
        assert keyed["reading"].value() == Reading(user, None if n % 2 else 0.25, (user, n))
        assert keyed["color"].value() is list(Color)[n % 2]
        assert keyed["recent"].get() == [[n], [n, None]]
        assert [timer[0] for timer in owner.timers.event.timers_of(user)] == [60 + n]
    assert min(item for subtask in subtasks for item in subtask.items.get()) == "item 0.0"
    assert all(subtask.rules.items() == [("small", Row(limit=10))] for subtask in subtasks)


def test_rows_come_from_tuples_pandas_arrow_spark_and_other_savepoints(saved: Path, tmp_path: Path) -> None:
    savepoint = Savepoint.read(saved)

    class SparkFrame:
        def __init__(self, table: pa.Table) -> None:
            self._table = table

        def toArrow(self) -> pa.Table:
            return self._table

    for name in (*DESCRIPTORS, "windows"):
        view = savepoint.keyed_state(RICH, name)
        expected = table_of(view)
        table = view.to_arrow()
        forms = {"pandas": view.to_pandas(), "arrow": table, "spark": SparkFrame(table), "view": view}
        for form, rows in forms.items():
            changed = savepoint.with_keyed_state(RICH, name, rows)
            assert table_of(changed.keyed_state(RICH, name)) == expected, (name, form)
        if not view.meta.ttl:
            assert table_of(savepoint.with_keyed_state(RICH, name, view.items()).keyed_state(RICH, name)) == expected
    real = [("user-1", Reading("s", 1.0, ("t", 1)))]
    changed = savepoint.with_keyed_state(RICH, DESCRIPTORS["reading"], real)
    assert list(changed.keyed_state(RICH, "reading").to_arrow().column("value").to_pylist()) == [
        {"sensor": "s", "value": 1.0, "tags": {"f0": "t", "f1": 1}}
    ]
    same = savepoint.with_keyed_state(RICH, "reading", real)
    assert same.keyed_state(RICH, "reading").to_arrow() == changed.keyed_state(RICH, "reading").to_arrow()


def test_a_change_makes_another_savepoint(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    changed = savepoint.with_keyed_state(RICH, "total", {"a": 1})
    assert len(savepoint.keyed_state(RICH, "total")) == len(USERS)
    assert [meta.entries for meta in changed.operator(RICH).states if meta.name == "total"] == [1]
    assert list(changed.keyed_state(RICH, "total")) == [("a", 1)]


def test_a_transformation_removes_keeps_stamps_and_gives_new_entries_the_newest(tmp_path: Path) -> None:
    write_savepoint(tmp_path, parallelism=1)
    savepoint = Savepoint.read(tmp_path)
    fewer = savepoint.transform_keyed_state(RICH, "total", lambda key, n: n if n > 10 else None)
    assert list(fewer.keyed_state(RICH, "total")) == [("user-11", 11)]

    def carts(key: str, old: dict[str, bytes]) -> dict[str, bytes]:
        return {"y": old["y"], "z": b"new"}

    changed = savepoint.transform_keyed_state(RICH, "carts", carts)
    row = table_of(changed.keyed_state(RICH, "carts"))[0]
    assert (row["entries"], row["stamps"]) == ([("y", b"\x00"), ("z", b"new")], [NOW, NOW])
    longer = savepoint.transform_keyed_state(RICH, "recent", lambda key, lists: [*lists, [1]])
    assert table_of(longer.keyed_state(RICH, "recent"))[0]["stamps"] == [NOW] * 3
    emptied = savepoint.transform_keyed_state(RICH, "recent", lambda key, lists: [])
    assert len(emptied.keyed_state(RICH, "recent")) == 0


def test_files_beside_the_state_come_along(tmp_path: Path) -> None:
    manifest = write_savepoint(tmp_path / "a")
    (tmp_path / "a" / "spark" / "0").mkdir(parents=True)
    (tmp_path / "a" / "spark" / "0" / "1").write_bytes(b"seen")
    (tmp_path / "a" / "feedback").mkdir()
    (tmp_path / "a" / "feedback" / "x").write_bytes(b"round")
    spark = {"files": ["spark/0/1"], "sources": {"orders": "41", "others": "7"}}
    more = msgspec.structs.replace(manifest, spark=spark, feedback={VERTEX: {"0": ["feedback/x"]}})
    write_manifest(open_files(tmp_path / "a"), more)
    Savepoint.read(tmp_path / "a").with_keyed_state(RICH, "total", {}).write(tmp_path / "b")
    assert (tmp_path / "b" / "spark" / "0" / "1").read_bytes() == b"seen"
    assert (tmp_path / "b" / "feedback" / "x").read_bytes() == b"round"
    forgotten = Savepoint.read(tmp_path / "a")
    for operator in forgotten.operators():
        forgotten = forgotten.without_operator(operator.uid)
    assert forgotten.manifest.feedback == {}
    assert forgotten.manifest.spark["sources"] == {"others": "7"}


def test_state_that_was_given_a_time_to_live_later_has_no_stamps_yet(tmp_path: Path) -> None:
    manifest = write_savepoint(tmp_path)
    rich, *others = manifest.operators
    late = ("total", "lines")
    states = [msgspec.structs.replace(meta, ttl=True) if meta.name in late else meta for meta in rich.states]
    changed = [msgspec.structs.replace(rich, states=states), *others]
    write_manifest(open_files(tmp_path), msgspec.structs.replace(manifest, operators=changed))
    savepoint = Savepoint.read(tmp_path)
    for name, column in (("total", "stamp"), ("lines", "stamps")):
        assert savepoint.keyed_state(RICH, name).to_arrow().column(column).null_count == len(USERS)
        moved = savepoint.transform_keyed_state(RICH, name, lambda key, value: value)
        assert moved.keyed_state(RICH, name).to_arrow().column(column).null_count == 0
        given = savepoint.with_keyed_state(RICH, name, savepoint.keyed_state(RICH, name).to_pandas())
        assert given.keyed_state(RICH, name).to_arrow().column(column).null_count == 0
    short = pa.table({"key": ["a"], "items": [[[1]]], "stamps": [[1, 2]]})
    with pytest.raises(StateError, match=r"\[1, 2\] are not the stamps of"):
        savepoint.with_keyed_state(RICH, "recent", short)


def test_an_operator_is_forgotten_with_all_that_is_its_own(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "a")
    Savepoint.read(tmp_path / "a").without_operator(PLAIN).without_operator("orders").write(tmp_path / "b")
    left = Savepoint.read(tmp_path / "b")
    assert [operator.uid for operator in left.operators()] == [RICH]
    assert left.manifest.sources == {}
    assert everything(left).keys() == {key for key in everything(left) if key.startswith(RICH)}
    bases = [path.read_bytes() for path in (tmp_path / "b" / "state").rglob("*.base")]
    assert bases
    assert not any(b'"untyped"' in data for data in bases)
    with pytest.raises(StateError, match="there is no operator 'gone'"):
        left.without_operator("gone")


def test_operator_state_is_replaced_and_added(saved: Path, tmp_path: Path) -> None:
    savepoint = Savepoint.read(saved)
    savepoint = savepoint.with_operator_state(RICH, "items", ["x", "y", "z"]).with_operator_state(RICH, "union", [9])
    savepoint = savepoint.with_operator_state(RICH, "rules", {"big": Row(limit=99), "dict": {"limit": 1}})
    more = ListStateDescriptor("more", Types.LONG())
    savepoint = savepoint.with_operator_state("orders", more, [1, 2, 3], mode="union")
    savepoint.write(tmp_path / "b")
    for parallelism in (1, 2):
        subtasks = restored(tmp_path / "b", parallelism)
        assert [item for subtask in subtasks for item in subtask.items.get()] == ["x", "y", "z"]
        assert all(subtask.union.get() == [9] for subtask in subtasks)
        rules = [("big", Row(limit=99)), ("dict", Row(limit=1))]
        assert all(subtask.rules.items() == rules for subtask in subtasks)
        added = subtasks[-1].state.operator("orders").operator.get_union_list_state(more)
        assert added.get() == [1, 2, 3]
    with pytest.raises(StateError, match="describes no operator state of the mode 'broadcast'"):
        savepoint.with_operator_state(RICH, more, [], mode="broadcast")


def test_wrong_rows_are_refused_with_the_state_that_they_were_for(saved: Path) -> None:
    savepoint = Savepoint.read(saved)
    place = "state 'total' of operator 'profiles'"
    with pytest.raises(StateError, match=f"{place}: 7 is not a tuple \\(key, value\\)"):
        savepoint.with_keyed_state(RICH, "total", [7])
    with pytest.raises(StateError, match=f"{place}: the key 'a' is there twice"):
        savepoint.with_keyed_state(RICH, "total", [("a", 1), ("a", 2)])
    with pytest.raises(StateTypeError, match=f"{place}, keys: a value does not fit"):
        savepoint.with_keyed_state(RICH, "total", [(1, 1)])
    with pytest.raises(StateEncodingError, match=place):
        savepoint.with_keyed_state(RICH, "total", [("a", "one")])
    with pytest.raises(StateError, match=f"{place}: the table has no column value; it has key, total"):
        savepoint.with_keyed_state(RICH, "total", pa.table({"key": ["a"], "total": [1]}))
    with pytest.raises(StateTypeError, match="state 'color' of operator 'profiles'"):
        savepoint.with_keyed_state(RICH, "color", [("a", "GREEN")])
    with pytest.raises(KeyHashError, match="cannot be a key"):
        savepoint.with_keyed_state(PLAIN, "plain", [([1], 1)])
    with pytest.raises(StateError, match="is kept by namespace"):
        savepoint.with_keyed_state(RICH, WINDOWS, [("a", 1)])
    with pytest.raises(StateError, match="there is an operator 'profiles' already"):
        savepoint.with_operator(RICH)


# -- from nothing -----------------------------------------------------------------------------------------------------

TOTAL = ValueStateDescriptor("total", Types.LONG())
NAMES = ListStateDescriptor("names", Types.STRING())
FLAGS = MapStateDescriptor("flags", Types.STRING(), Types.BOOLEAN())
LOWEST = ReducingStateDescriptor("lowest", min, Types.DOUBLE())
BOOTSTRAPPED = (TOTAL, NAMES, FLAGS, LOWEST)

KEYS = st.tuples(st.text(max_size=3), st.integers(-5, 5))
ROWS = st.fixed_dictionaries({
    "total": st.dictionaries(KEYS, st.integers(-(2**63), 2**63 - 1), max_size=20),
    "names": st.dictionaries(KEYS, st.lists(st.text(max_size=3) | st.none(), max_size=3), max_size=20),
    "flags": st.dictionaries(KEYS, st.dictionaries(st.text(max_size=2), st.booleans() | st.none(), max_size=3)),
    "lowest": st.dictionaries(KEYS, st.floats(allow_nan=False), max_size=20),
})  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, again=st.booleans())
def test_any_state_made_from_nothing_is_what_a_job_begins_with(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, dict[Any, Any]], again: bool
) -> None:
    path = tmp_path_factory.mktemp("new") / "savepoint"
    key_type = Types.TUPLE([Types.STRING(), Types.LONG()])
    savepoint = Savepoint.new(max_parallelism=8, job_name="begun").with_operator("op", key_type)
    for descriptor in BOOTSTRAPPED:
        savepoint = savepoint.with_keyed_state("op", descriptor, rows[descriptor.name])
    savepoint.write(path)
    if again:  # through a table, and through another savepoint
        savepoint = Savepoint.read(path)
        for name in rows:
            savepoint = savepoint.with_keyed_state("op", name, savepoint.keyed_state("op", name).to_arrow())
        path = path / "again"
        savepoint.write(path)
    expected = {
        name: {key: value for key, value in kept.items() if value not in ([], {})} for name, kept in rows.items()
    }
    read = Savepoint.read(path)
    assert {name: dict(read.keyed_state("op", name)) for name in rows} == expected
    (handles,) = read.manifest.subtasks.values()
    for parallelism in (1, 2, 3):
        found: dict[str, dict[Any, Any]] = {name: {} for name in rows}
        for index in range(parallelism):
            state = SubtaskState(open_files(path), "7", index)
            keyed = state.operator("op", key_type).keyed
            owned = key_group_range(index, parallelism, 8)
            state.restore_rescaled(handles, lambda _, owned=owned: (owned, 8), parallelism)
            for descriptor in BOOTSTRAPPED:
                table = keyed.get_state(descriptor)
                for key in keyed.keys(descriptor.name):
                    assert key_group(key, 8) in owned
                    keyed.context.key = key
                    found[descriptor.name][key] = _kept(table)
        assert found == expected


def _kept(state: Any) -> Any:
    if hasattr(state, "items"):
        return dict(state.items())
    return state.value() if hasattr(state, "value") else state.get()


def test_a_new_savepoint_has_state_with_a_time_to_live_untyped_keys_and_operator_state(tmp_path: Path) -> None:
    lasting = ValueStateDescriptor("lasting", Types.LONG())
    lasting.enable_time_to_live(StateTtlConfig.new_builder(1000).build())
    table = pa.table({"key": [1, 2], "value": [10, 20], "stamp": [NOW, NOW + 500]})
    savepoint = Savepoint.new(MAX_PARALLELISM).with_operator("op", name="An operator")
    savepoint = savepoint.with_keyed_state("op", lasting, table)
    savepoint = savepoint.with_operator_state("op", ListStateDescriptor("offsets", Types.LONG()), [1, 2])
    savepoint.write(tmp_path)
    (handles,) = Savepoint.read(tmp_path).manifest.subtasks.values()
    state = SubtaskState(open_files(tmp_path), "7", 0)
    state.restore_rescaled(handles, lambda _: (range(MAX_PARALLELISM), MAX_PARALLELISM), 1)
    state.clock.now = NOW + 1200
    backends = state.operator("op")
    value = backends.keyed.get_state(lasting)
    for backends.keyed.context.key, expected in ((1, None), (2, 20)):
        assert value.value() == expected
    assert backends.operator.get_list_state(ListStateDescriptor("offsets", Types.LONG())).get() == [1, 2]
    assert Savepoint.read(tmp_path).operator("op").name == "An operator"
