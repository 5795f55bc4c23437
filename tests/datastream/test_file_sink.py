"""Files that appear whole, once their checkpoint is complete: buckets, rolling, formats, compaction."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.common import Row, SerializationSchema, Types
from millrace.common.errors import ConfigurationError, MillraceError, ProgramError
from millrace.common.serialization import Encoder
from millrace.datastream.connectors import CommitterContext
from millrace.datastream.connectors.file_system import (
    BucketAssigner,
    ColumnarWriterFactory,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from millrace.datastream.connectors.file_system._policies import python_format
from millrace.datastream.connectors.file_system._storage import ArrowStorage, intercept_storage
from millrace.datastream.connectors.file_system._writer import staging_folder
from millrace.testing.crashes import Crash, Crashes

BASE = BucketAssigner.base_path_bucket_assigner()
MERGE = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
NOON = 1_714_564_800_000  # 2024-05-01 12:00 UTC


def lines(path: Path) -> FileSink.RowFormatBuilder:
    return FileSink.for_row_format(str(path), Encoder.simple_string_encoder()).with_bucket_assigner(BASE)


def writer(sink: FileSink, subtask: int = 0, now: int = NOON) -> Any:
    context = SimpleNamespace(
        get_index_of_this_subtask=lambda: subtask,
        get_job_id=lambda: "job",
        get_operator_unique_id=lambda: "sink",
        get_processing_time=lambda: now,
    )
    return sink.create_writer(context)  # type: ignore[arg-type]


def committer(sink: FileSink) -> Any:
    made = sink.create_committer()
    made.open(CommitterContext("job", "test", "sink", "Sink: Writer", ""))
    return made


def epoch(target: Any, *values: Any) -> list[Any]:
    if hasattr(target, "write_all"):
        if values:
            target.write_all(list(values), None)
    else:
        for value in values:
            target.write(value, SimpleNamespace(current_processing_time=lambda: NOON, timestamp=lambda: None))
    target.flush(False)
    prepared = target.prepare_commit()
    return json.loads(json.dumps(prepared))  # type: ignore[no-any-return]


def visible(directory: Path) -> list[Path]:
    files = [file for file in directory.rglob("*") if file.is_file()]
    hidden = [file for file in files if any(part.startswith(".") for part in file.relative_to(directory).parts)]
    return sorted(set(files) - set(hidden))


def content(directory: Path) -> list[str]:
    return sorted(line for file in visible(directory) for line in file.read_text().splitlines())


def test_nothing_is_seen_before_the_commit(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    staged = epoch(writer(sink), 1, "two")
    assert visible(tmp_path) == []
    committer(sink).commit(staged)
    assert content(tmp_path) == ["1", "two"]


def test_committing_again_changes_nothing(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    staged = epoch(writer(sink), 1)
    for _ in range(3):
        committer(sink).commit(staged)
    assert content(tmp_path) == ["1"]


def test_several_epochs_are_committed_at_once(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    target = writer(sink)
    staged = [*epoch(target, 1), *epoch(target, 2), *epoch(target), *epoch(target, 3)]
    assert len(staged) == 3
    committer(sink).commit(staged)
    assert content(tmp_path) == ["1", "2", "3"]


def test_what_was_staged_and_lost_is_an_error_that_names_the_directory(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    staged = epoch(writer(sink), 1)
    (tmp_path / staged[0]["staged"]).unlink()
    with pytest.raises(MillraceError, match=str(tmp_path)):
        committer(sink).commit(staged)


@pytest.mark.parametrize("compacts", [False, True])
def test_what_another_job_made_visible_before_it_ended_may_be_gone(tmp_path: Path, compacts: bool) -> None:
    """A job that goes on from a savepoint commits once more what the job before it committed."""
    sink = (lines(tmp_path).enable_compact(MERGE) if compacts else lines(tmp_path)).build()
    staged = [*epoch(writer(sink), 1), *epoch(writer(sink), 2)]
    committer(sink).commit(staged)
    for file in visible(tmp_path):
        file.unlink()
    with pytest.raises(MillraceError, match="is gone"):
        committer(sink).commit(staged)
    other = sink.create_committer()
    other.open(CommitterContext("another", "test", "sink", "", ""))
    other.commit(staged)
    assert visible(tmp_path) == []


def test_what_attempts_left_over_is_removed_and_the_files_stay(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    epoch(writer(sink), "of an attempt that failed")
    committer(sink).commit(epoch(writer(sink), 1))
    made = committer(sink)
    made.clean_up()
    assert not (tmp_path / ".staging").exists()
    assert content(tmp_path) == ["1"]


def test_the_staged_files_of_another_job_are_left_alone(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    staged = epoch(writer(sink), 1)
    other = sink.create_committer()
    other.open(CommitterContext("another", "test", "sink", "", ""))
    other.clean_up()
    committer(sink).commit(staged)
    assert content(tmp_path) == ["1"]


def test_a_writer_that_is_closed_leaves_nothing(tmp_path: Path) -> None:
    target = writer(lines(tmp_path).build())
    target.write_all([1], None)
    target.flush(False)
    target.write_all([2], None)
    target.close()
    assert list((tmp_path / staging_folder("job", "sink")).iterdir()) == []


def test_names_say_prefix_subtask_and_suffix(tmp_path: Path) -> None:
    names = OutputFileConfig.builder().with_part_prefix("log").with_part_suffix(".txt").build()
    sink = lines(tmp_path).with_output_file_config(names).build()
    committer(sink).commit(epoch(writer(sink, subtask=3), 1))
    [file] = visible(tmp_path)
    assert file.name.startswith("log-3-")
    assert file.name.endswith(".txt")


@pytest.mark.parametrize("prefix", ["", ".hidden", "_hidden", "a/b"])
def test_a_prefix_that_would_hide_files_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError):
        OutputFileConfig(prefix, "")


# --- buckets and rolling --------------------------------------------------------------------------------------------


def test_by_default_there_is_a_folder_for_each_hour(tmp_path: Path) -> None:
    assigner = BucketAssigner.date_time_bucket_assigner(timezone_id="Europe/Berlin")
    sink = lines(tmp_path).with_bucket_assigner(assigner).build()
    committer(sink).commit(epoch(writer(sink), 1))
    assert [file.parent.name for file in visible(tmp_path)] == ["2024-05-01--14"]


class ByParity(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"parity={element % 2}"


def test_records_are_dealt_to_folders_by_an_assigner_of_ones_own(tmp_path: Path) -> None:
    sink = lines(tmp_path).with_bucket_assigner(ByParity()).build()
    committer(sink).commit(epoch(writer(sink), *range(6)))
    assert {file.parent.name: file.read_text().split() for file in visible(tmp_path)} == {
        "parity=0": ["0", "2", "4"],
        "parity=1": ["1", "3", "5"],
    }


@pytest.mark.parametrize("bucket", ["../out", "/etc", "a//b", "a/../b", "..", ".staging/x", None])
def test_a_bucket_outside_of_the_directory_is_refused(tmp_path: Path, bucket: Any) -> None:
    class Elsewhere(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return bucket  # type: ignore[no-any-return]

    with pytest.raises(ProgramError):
        epoch(writer(lines(tmp_path).with_bucket_assigner(Elsewhere()).build()), 1)


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    sink = lines(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1000)).build()
    target = writer(sink)
    for start in range(0, 1000, 100):
        target.write_all(list(range(start, start + 100)), None)
    target.flush(False)
    committer(sink).commit(target.prepare_commit())
    assert 3 <= len(visible(tmp_path)) <= 5
    assert content(tmp_path) == sorted(map(str, range(1000)))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("yyyy-MM-dd--HH", "%Y-%m-%d--%H"), ("'day='yyyyMMdd", "day=%Y%m%d"), ("HH'%'mm", "%H%%%M")],
)
def test_patterns_of_java(pattern: str, expected: str) -> None:
    assert python_format(pattern) == expected


@pytest.mark.parametrize(
    "make", [lambda: python_format("QQ"), lambda: BucketAssigner.date_time_bucket_assigner("HH", "x")]
)
def test_patterns_and_zones_that_do_not_exist_are_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


# --- formats --------------------------------------------------------------------------------------------------------

PERSON = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
PEOPLE = [Row(id=number, name=None if number == 3 else f"n{number}") for number in range(10)]


class AsJson(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return json.dumps(element).encode()


def test_a_schema_writes_lines(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(str(tmp_path), AsJson()).with_bucket_assigner(BASE).build()
    committer(sink).commit(epoch(writer(sink), {"a": 1}, [2]))
    assert content(tmp_path) == ["[2]", '{"a": 1}']


def test_the_record_that_cannot_be_encoded_is_named(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(str(tmp_path), AsJson()).with_bucket_assigner(BASE).build()
    target = writer(sink)
    with pytest.raises(Exception, match="not JSON serializable") as failed:
        epoch(target, 1, {2}, 3)
    target.close()
    assert failed.value.record == "{2}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("rows_per_group", [4, 65_536])
def test_columnar_files_hold_the_rows(tmp_path: Path, file_format: str, rows_per_group: int) -> None:
    factory = ColumnarWriterFactory(PERSON, file_format, rows_per_group=rows_per_group)
    sink = FileSink.for_bulk_format(str(tmp_path), factory).with_bucket_assigner(BASE).build()
    target = writer(sink)
    committer(sink).commit([*epoch(target, *PEOPLE[:7]), *epoch(target, *PEOPLE[7:])])
    read = {"parquet": pyarrow.parquet.read_table, "orc": pyarrow.orc.read_table}[file_format]
    rows = [row for file in visible(tmp_path) for row in read(str(file)).to_pylist()]
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": row.id, "name": row.name} for row in PEOPLE]


def test_a_columnar_writer_that_is_closed_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    target = writer(FileSink.for_bulk_format(str(tmp_path), ColumnarWriterFactory(PERSON)).build())
    target.write_all(PEOPLE, None)
    target.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_type_without_columns_is_refused() -> None:
    with pytest.raises(ProgramError, match="has no columns"):
        ColumnarWriterFactory(Types.STRING())


@pytest.mark.parametrize(
    "wrong", [lambda: FileSink.for_row_format("/x", "y"), lambda: FileSink.for_bulk_format("/x", 1)]
)
def test_what_is_no_format_is_refused(wrong: Any) -> None:
    with pytest.raises(ProgramError, match=r"Action: |takes a"):
        wrong()


# --- compaction -----------------------------------------------------------------------------------------------------


def test_the_files_of_a_checkpoint_become_one(tmp_path: Path) -> None:
    sink = lines(tmp_path).enable_compact(MERGE).build()
    staged = [part for subtask in range(3) for part in epoch(writer(sink, subtask), subtask, "x")]
    for _ in range(2):
        committer(sink).commit(staged)
    [file] = visible(tmp_path)
    assert file.read_text().split() == ["0", "x", "1", "x", "2", "x"]
    assert file.name.startswith("compacted-part-")


def test_a_large_file_is_left_as_it_is(tmp_path: Path) -> None:
    strategy = FileCompactStrategy.builder().set_size_threshold(10).set_num_compact_threads(2).build()
    sink = lines(tmp_path).enable_compact(strategy).build()
    target = writer(sink)
    staged = [part for values in (["a"], ["b"], ["long enough"], ["c"], ["d"]) for part in epoch(target, *values)]
    committer(sink).commit(staged)
    contents = sorted(file.read_text().split() for file in visible(tmp_path))
    assert contents == [["a", "b"], ["c", "d"], ["long", "enough"]]


def test_files_of_different_folders_are_not_merged(tmp_path: Path) -> None:
    sink = lines(tmp_path).with_bucket_assigner(ByParity()).enable_compact(MERGE).build()
    target = writer(sink)
    committer(sink).commit([*epoch(target, 1, 2), *epoch(target, 3, 4)])
    assert {file.parent.name: file.read_text().split() for file in visible(tmp_path)} == {
        "parity=0": ["2", "4"],
        "parity=1": ["1", "3"],
    }


def test_parquet_files_are_merged_by_row_groups(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(str(tmp_path), ColumnarWriterFactory(PERSON)).with_bucket_assigner(BASE)
    with pytest.raises(ProgramError, match="compactor"):
        builder.enable_compact(MERGE)
    sink = builder.enable_compact(MERGE, FileCompactor.parquet_file_compactor()).build()
    target = writer(sink)
    committer(sink).commit([*epoch(target, *PEOPLE[:4]), *epoch(target, *PEOPLE[4:])])
    [file] = visible(tmp_path)
    assert [row["id"] for row in pyarrow.parquet.read_table(str(file)).to_pylist()] == list(range(10))


def test_compaction_that_was_switched_on_after_a_crash_leaves_what_is_visible(tmp_path: Path) -> None:
    sink = lines(tmp_path).build()
    staged = [part for number in range(4) for part in epoch(writer(sink), number)]
    committer(sink).commit(staged[:2])
    committer(lines(tmp_path).enable_compact(MERGE).build()).commit(staged)
    assert content(tmp_path) == ["0", "1", "2", "3"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=8),
    st.integers(1, 40),
    st.integers(0, 20),
    st.booleans(),
)
def test_whatever_is_written_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[int]], size: int, stop: int, compacts: bool
) -> None:
    """A commit that dies half-way is repeated by another committer."""
    directory = tmp_path_factory.mktemp("any")
    builder = lines(directory).with_bucket_assigner(ByParity())
    if compacts:
        builder = builder.enable_compact(FileCompactStrategy.builder().set_size_threshold(size).build())
    sink = builder.build()
    staged = [part for number, values in enumerate(epochs) for part in epoch(writer(sink, number % 2), *values)]
    try:
        with Crashes(at=stop or None):
            committer(sink).commit(staged)
    except Crash:
        committer(sink).commit(staged)
    made = committer(sink)
    made.clean_up()
    assert content(directory) == sorted(str(value) for values in epochs for value in values)


# --- other file systems ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compacts", [False, True])
def test_files_of_a_file_system_of_arrow(tmp_path: Path, compacts: bool) -> None:
    """The one of local files stands for those of HDFS and object stores."""
    arrow = ArrowStorage(pyarrow.fs.LocalFileSystem())
    builder = lines(tmp_path / "out")
    sink = (builder.enable_compact(MERGE) if compacts else builder).build()
    with intercept_storage(lambda _: arrow):
        epoch(writer(sink), "of an attempt that failed")
        staged = [*epoch(writer(sink), 1, 2), *epoch(writer(sink), 3)]
        made = committer(sink)
        for _ in range(2):
            made.commit(staged)
        made.clean_up()
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "out")).build()
        end = source.latest_offset(source.initial_offset(), 0)
        shares = source.plan(source.initial_offset(), end, 1)
        read = [line for split in shares[0] for chunk in source.read(split) for line in chunk.values]
    assert sorted(read) == content(tmp_path / "out") == ["1", "2", "3"]
    assert not (tmp_path / "out" / ".staging").exists()
    with pytest.raises(FileNotFoundError):
        arrow.rename(str(tmp_path / "nothing"), str(tmp_path / "a"))


def test_messages_name_a_place_without_its_credentials() -> None:
    sink = FileSink.for_row_format("s3://key:secret@bucket/out?region=x", Encoder.simple_string_encoder()).build()
    assert committer(sink).describe() == "files in s3://bucket/out"
