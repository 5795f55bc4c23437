"""Files as a source: formats, cutting, order, watching, and offsets that do not grow."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pickle
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.common import Row, SimpleStringSchema, Types, WatermarkStrategy
from millrace.common.errors import ConfigurationError, DecodingError, MillraceError, ProgramError
from millrace.common.time import Duration
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.connectors import NumberSequenceSource, Source
from millrace.datastream.connectors.file_system import (
    BulkFormat,
    FileEnumeratorProvider,
    FileFormat,
    FileSource,
    FileSourceBuilder,
    StreamFormat,
)
from millrace.datastream.connectors.file_system._lines import lines_between
from millrace.datastream.connectors.hybrid_source import HybridSource
from millrace.testing.in_process import InProcessExecutor

TEXT = StreamFormat.text_line_format()
SECOND = 1_000_000_000
NOW = 1_700_000_000


def texts(*paths: Path | str) -> FileSourceBuilder:
    return FileSource.for_record_stream_format(TEXT, *map(str, paths))


def records_between(source: Source, start: Any, end: Any, readers: int = 2) -> list[Any]:
    """In the order of the splits."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    splits = [split for share in source.plan(start, end, readers) for split in share]
    splits = pickle.loads(pickle.dumps(splits))
    splits.sort(key=lambda split: split.origin)
    return [value for split in splits for chunk in source.read(split) for value in chunk.values]


def read_all(source: Source, readers: int = 2, limit: int | None = None) -> list[Any]:
    """Epoch by epoch to the end, with at most `limit` records in each, about."""
    offset, records = source.initial_offset(), []
    for _ in range(10_000):
        end = source.latest_offset(offset, NOW * 1000)
        if limit is not None:
            end = source.at_most(offset, end, limit)
        records += records_between(source, offset, end, readers)
        if source.at_end(end):
            return records
        assert end != offset
        offset = end
    raise AssertionError("it does not end")


def put(path: Path, text: str, age: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = int((NOW - age) * SECOND)
    os.utime(path, ns=(moment, moment))


# --- which files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number, name in enumerate(["b.txt", "a.txt", "sub/c.txt", "sub/d.csv", ".hidden", "_SUCCESS", "sub/.x/e.txt"]):
        put(tmp_path / name, f"{number}\n")
    return tmp_path


def test_all_files_below_a_directory_in_the_order_of_their_names_without_the_hidden_ones(tree: Path) -> None:
    assert read_all(texts(tree).build()) == ["1", "0", "2", "3"]


def test_several_paths_and_patterns(tree: Path) -> None:
    assert read_all(texts(tree / "*.txt").build()) == ["1", "0"]
    assert read_all(texts(tree / "*" / "*.txt", tree / "a.txt", tree / "a.*").build()) == ["1", "2"]
    assert read_all(texts(tree / "s*").build()) == ["2", "3"]
    assert read_all(texts(f"file://{tree}/b.txt").build()) == ["0"]


def test_directories_within_directories_can_be_left_out(tree: Path) -> None:
    source = texts(tree).set_file_enumerator(FileEnumeratorProvider.flat_file_enumerator()).build()
    assert read_all(source) == ["1", "0"]


def test_a_set_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="no file at"):
        read_all(texts(tmp_path).build())


@pytest.mark.parametrize("paths", [(), ("",), ("/a", "s3://b/c")])
def test_paths_that_make_no_source_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(ProgramError):
        texts(*paths)


def test_what_is_no_format_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Action: "):
        FileSource.for_record_stream_format("text", "/a")  # type: ignore[arg-type]


def test_a_file_that_comes_during_the_job_is_not_of_the_set(tmp_path: Path) -> None:
    put(tmp_path / "a", "1\n")
    put(tmp_path / "b", "2\n")
    source = texts(tmp_path).build()
    first = source.at_most(source.initial_offset(), source.latest_offset(source.initial_offset(), 0), 1)
    put(tmp_path / "c", "3\n")
    end = source.latest_offset(first, 0)
    assert records_between(source, first, end) == ["2"]
    assert source.at_end(end)


# --- lines ----------------------------------------------------------------------------------------------------------


def test_line_ends_of_all_kinds_and_a_last_line_without_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("eins\r\nzwei\n\ngrün\u2028x\nfünf".encode())
    assert read_all(texts(tmp_path / "a").build()) == ["eins", "zwei", "", "grün\u2028x", "fünf"]


def test_compressed_files_are_decompressed(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\r\n3"))
    assert read_all(texts(tmp_path).build(), limit=1) == ["1", "2", "3"]
    source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(SimpleStringSchema()), str(tmp_path))
    assert read_all(source.build()) == ["1", "2", "3"]


def test_a_charset_in_which_lines_cannot_be_found_from_the_middle(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("ž\nb\n".encode("utf-16"))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-16"), str(tmp_path)).build()
    assert read_all(source, limit=1) == ["ž", "b"]


def test_the_wrong_charset_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe\n")
    with pytest.raises(DecodingError, match=str(tmp_path / "a")):
        read_all(texts(tmp_path).build())


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=20), st.data())
def test_every_line_is_in_one_part_wherever_a_file_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    content = b"".join(line + b"\n" for line in lines)
    if data.draw(st.booleans()):
        content = content.removesuffix(b"\n")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    places = [0, *cuts, len(content)]
    parts = [
        b"".join(lines_between(pa.BufferReader(content), start, end))
        for start, end in itertools.pairwise(places)
    ]
    assert b"".join(parts) == content


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=5), st.integers(1, 50), st.integers(1, 4))
def test_epochs_of_any_size_read_everything_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int, readers: int
) -> None:
    directory = tmp_path_factory.mktemp("sized")
    expected = []
    for number, size in enumerate([*sizes, 3]):
        lines = [f"{number}:{line}" for line in range(size)]
        put(directory / str(number), "".join(f"{line}\n" for line in lines))
        expected += lines
    assert read_all(texts(directory).build(), readers, limit) == expected


def test_a_large_file_is_dealt_to_all_readers_unless_that_is_unwanted(tmp_path: Path) -> None:
    lines = [f"line number {number}" for number in range(200_000)]
    (tmp_path / "large").write_text("\n".join(lines))
    splittable = texts(tmp_path).build()
    end = splittable.latest_offset(splittable.initial_offset(), 0)
    assert [len(share) for share in splittable.plan(splittable.initial_offset(), end, 3)] == [2, 1, 1]
    assert read_all(splittable, 3) == lines
    whole = texts(tmp_path).set_file_enumerator(
        FileEnumeratorProvider.default_non_splittable_file_enumerator()
    ).build()
    assert [len(share) for share in whole.plan(whole.initial_offset(), end, 3)] == [1, 0, 0]
    assert read_all(whole, 3, limit=10) == lines


def test_thousands_of_files_are_read_with_few_open_at_once(tmp_path: Path) -> None:
    for number in range(2100):
        (tmp_path / f"{number:05}").write_text(f"{number}\n")
    source = texts(tmp_path).build()
    assert read_all(source) == [str(number) for number in range(2100)]
    start, end = source.initial_offset(), {"after": str(tmp_path / "02099"), "last": str(tmp_path / "02099")}
    assert max(map(len, source.plan(start, end, 2))) <= 500
    assert records_between(source, start, end) == [str(number) for number in range(2100)]


def test_a_file_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    put(tmp_path / "a", "1\n")
    source = texts(tmp_path).build()
    [[split]] = source.plan(source.initial_offset(), source.latest_offset(source.initial_offset(), 0), 1)
    (tmp_path / "a").unlink()
    with pytest.raises(MillraceError, match=f"{tmp_path}/a is gone"):
        list(source.read(split))


# --- formats --------------------------------------------------------------------------------------------------------


@dataclass
class Person:
    id: int
    name: str | None


PERSON = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
ROWS = [Row(id=number, name=None if number == 3 else f"n{number}") for number in range(10)]
TABLE = pa.table({"id": [row.id for row in ROWS], "more": [0.5] * 10, "name": [row.name for row in ROWS]})


def write_table(path: Path, kind: str) -> BulkFormat:
    if kind == "parquet":
        pyarrow.parquet.write_table(TABLE, path, row_group_size=3)
    elif kind == "orc":
        pyarrow.orc.write_table(TABLE, str(path))
    else:
        fastavro = pytest.importorskip("fastavro")
        fields = [{"name": "id", "type": "long"}, {"name": "more", "type": "double"}]
        fields.append({"name": "name", "type": ["null", "string"]})
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "person", "fields": fields}, TABLE.to_pylist())
    return getattr(BulkFormat, f"{kind}_format")  # type: ignore[no-any-return]


@pytest.mark.parametrize("limit", [None, 1, 4])
@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_files_of_columns(tmp_path: Path, kind: str, limit: int | None) -> None:
    make: Any = write_table(tmp_path / "table", kind)
    typed = FileSource.for_bulk_file_format(make(PERSON), str(tmp_path)).build()
    assert read_all(typed, limit=limit) == ROWS
    people = FileSource.for_bulk_file_format(make(Types.DATACLASS(Person)), str(tmp_path)).build()
    assert read_all(people, limit=limit) == [Person(row.id, row.name) for row in ROWS]
    untyped = FileSource.for_bulk_file_format(make(), str(tmp_path)).build()
    assert read_all(untyped, limit=limit) == [Row(id=row.id, more=0.5, name=row.name) for row in ROWS]


def test_a_column_that_a_file_lacks_is_an_error_that_names_it(tmp_path: Path) -> None:
    write_table(tmp_path / "table", "parquet")
    wanted = Types.ROW_NAMED(["id", "age"], [Types.LONG(), Types.INT()])
    with pytest.raises(DecodingError, match="no column 'age'"):
        read_all(FileSource.for_bulk_file_format(BulkFormat.parquet_format(wanted), str(tmp_path)).build())


def test_comma_separated_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;name\n1;"two; three\nfour"\n2;\n')
    kind = StreamFormat.csv_format(PERSON, delimiter=";", skip_header=True)
    source = FileSource.for_record_stream_format(kind, str(tmp_path)).build()
    assert read_all(source) == [Row(id=1, name="two; three\nfour"), Row(id=2, name=None)]


def test_comma_separated_values_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n")
    with pytest.raises(DecodingError, match=r"a\.csv"):
        read_all(FileSource.for_record_stream_format(StreamFormat.csv_format(PERSON), str(tmp_path)).build())


class Numbers(FileFormat):
    """One of our own: a file holds how many numbers there are."""

    def read(self, file: Any, start: int, end: int) -> Any:
        with file.open() as stream:
            yield list(range(int(stream.read())))


def test_a_format_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("3")
    assert read_all(FileSource.for_record_stream_format(Numbers(), str(tmp_path)).build()) == [0, 1, 2]  # type: ignore[arg-type]


# --- watching -------------------------------------------------------------------------------------------------------


def watching(path: Path, **window: int) -> FileSource:
    builder = texts(path).monitor_continuously(timedelta(microseconds=1))
    return (builder.remember_files(Duration.of_seconds(window["seconds"]), 100) if window else builder).build()


def step(source: FileSource, offset: Any) -> tuple[list[str], Any]:
    end = source.latest_offset(offset, NOW * 1000)
    return records_between(source, offset, end), end


def test_new_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    source = watching(tmp_path / "in")
    assert not source.bounded
    records, offset = step(source, source.initial_offset())
    assert (records, offset) == ([], source.initial_offset())
    put(tmp_path / "in" / "a", "2\n", age=10)
    put(tmp_path / "in" / "b", "1\n", age=20)
    records, offset = step(source, offset)
    assert records == ["1", "2"]
    assert step(source, offset) == ([], offset)
    put(tmp_path / "in" / "same-time", "3\n", age=10)
    put(tmp_path / "in" / "late", "4\n", age=600)
    records, offset = step(source, offset)
    assert records == ["4", "3"]
    assert step(source, offset) == ([], offset)
    assert not source.at_end(offset)


def test_what_comes_later_than_the_window_is_not_read(tmp_path: Path) -> None:
    source = watching(tmp_path, seconds=60)
    put(tmp_path / "a", "1\n")
    _, offset = step(source, source.initial_offset())
    put(tmp_path / "b", "2\n", age=59)
    put(tmp_path / "c", "3\n", age=61)
    assert step(source, offset)[0] == ["2"]


def test_an_offset_does_not_grow_with_the_files(tmp_path: Path) -> None:
    source = watching(tmp_path, seconds=3600)
    offset, read = source.initial_offset(), []
    for number in range(400):
        put(tmp_path / f"{number}", f"{number}\n", age=400 - number)
        if number % 20 == 19:
            records, offset = step(source, offset)
            read += records
    assert read == [str(number) for number in range(400)]
    assert len(json.dumps(offset)) < 100 * 20 + 100


def test_a_file_from_the_future_does_not_hide_the_present(tmp_path: Path) -> None:
    source = watching(tmp_path, seconds=1)
    put(tmp_path / "future", "1\n", age=-1e6)
    _, offset = step(source, source.initial_offset())
    put(tmp_path / "now", "2\n")
    records, offset = step(source, offset)
    assert records == ["2"]
    assert step(source, offset) == ([], offset)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=4), max_size=6), st.integers(1, 9))
def test_watched_files_are_read_once_whatever_their_times_and_the_size_of_epochs(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[int]], limit: int
) -> None:
    directory = tmp_path_factory.mktemp("watched")
    source = watching(directory, seconds=100)
    offset, records, expected = source.initial_offset(), [], []
    for number, ages in enumerate([*rounds, [], [], []]):
        for index, age in enumerate(ages):
            lines = [f"{number}.{index}.{line}" for line in range(age % 7)]
            put(directory / f"{number}.{index}", "".join(f"{line}\n" for line in lines), age=age)
            expected += lines
        for _ in range(3 if number < len(rounds) else 40):
            end = source.latest_offset(offset, NOW * 1000)
            end = source.at_most(offset, end, limit)
            records += records_between(source, offset, end)
            offset = end
    assert sorted(records) == sorted(expected)


def test_the_directory_is_looked_at_no_more_often_than_asked_for(tmp_path: Path) -> None:
    source = texts(tmp_path).monitor_continuously(Duration.of_hours(1)).build()
    assert step(source, source.initial_offset())[0] == []
    put(tmp_path / "a", "1\n")
    assert step(source, source.initial_offset())[0] == []
    assert step(pickle.loads(pickle.dumps(source)), source.initial_offset())[0] == ["1"]


@pytest.mark.parametrize("interval", [timedelta(0), "1 s"])
def test_an_interval_that_is_none_is_refused(interval: Any) -> None:
    with pytest.raises(ConfigurationError):
        texts("/a").monitor_continuously(interval)


# --- in a program ---------------------------------------------------------------------------------------------------


def test_a_program_reads_files_with_a_watermark_for_each(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path / name, "".join(f"{number}\n" for number in range(100)))
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor()).set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: int(value))
    lines = env.from_source(texts(tmp_path).build(), strategy, "files", Types.STRING())
    assert sorted(map(int, lines.execute_and_collect())) == sorted(list(range(100)) * 3)


# --- one source after the other -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_files_and_then_another_source(tmp_path: Path, limit: int | None) -> None:
    put(tmp_path / "a", "x\ny\n")
    put(tmp_path / "b", "z\n")
    source = HybridSource.builder(texts(tmp_path).build()).add_source(NumberSequenceSource(1, 4)).build()
    assert source.bounded
    assert read_all(source, 1, limit) == ["x", "y", "z", 1, 2, 3, 4]


def test_a_hybrid_source_is_read_whole_in_one_range(tmp_path: Path) -> None:
    put(tmp_path / "a", "x\n")
    source = HybridSource.builder(texts(tmp_path).build()).add_source(NumberSequenceSource(1, 2)).build()
    offset = source.initial_offset()
    while not source.at_end(offset):
        offset = source.latest_offset(offset, 0)
    assert records_between(source, source.initial_offset(), offset, 1) == ["x", 1, 2]


def test_a_source_without_records_is_passed_over() -> None:
    builder = HybridSource.builder(NumberSequenceSource(1, 0)).add_source(NumberSequenceSource(1, 0))
    assert read_all(builder.add_source(NumberSequenceSource(5, 6)).build(), 1) == [5, 6]


def test_a_source_behind_one_that_never_ends_is_refused(tmp_path: Path) -> None:
    builder = HybridSource.builder(watching(tmp_path))
    with pytest.raises(ProgramError, match="never ends"):
        builder.add_source(NumberSequenceSource(1, 2))
    with pytest.raises(ProgramError, match="made of sources"):
        HybridSource.builder("files")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_a_program_reads_a_hybrid_source(tmp_path: Path, mode: str) -> None:
    from millrace.datastream import RuntimeExecutionMode

    put(tmp_path / "a", "x\ny\n")
    source = HybridSource.builder(texts(tmp_path).build()).add_source(NumberSequenceSource(1, 3)).build()
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor()).set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "both")
    assert sorted(map(str, stream.execute_and_collect())) == ["1", "2", "3", "x", "y"]
