"""The sources that Millrace reads itself: what they plan and what their splits hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.common import ProgramError
from millrace.runtime.failure import UserCodeError
from millrace.runtime.sources.base import CHUNK_RECORDS, Source
from millrace.runtime.sources.collection import CollectionSource
from millrace.runtime.sources.sequence import DataGeneratorSource, NumberSequenceSource
from millrace.runtime.sources.text import TextFileSource
from millrace.testing import EpochSource


def read_all(source: Source, readers: int = 1) -> list[Any]:
    """Everything in one epoch, in the order in which a task downstream reads it."""
    start = source.initial_offset()
    end = source.latest_offset(start, 0)
    assert source.at_end(end)
    shares = source.plan(start, end, readers)
    assert len(shares) == readers
    chunks = [
        (chunk.seq, split.origin, reader, chunk.values)
        for reader, share in enumerate(shares)
        for split in share
        for chunk in source.read(split)
    ]
    return [value for *_, values in sorted(chunks, key=lambda chunk: chunk[:3]) for value in values]


@pytest.mark.parametrize("readers", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 5, 64, 1000, 3 * 64 * CHUNK_RECORDS + 17])
def test_a_sequence_is_whole_and_in_order_for_any_number_of_readers(count: int, readers: int) -> None:
    assert read_all(NumberSequenceSource(1, count), readers) == list(range(1, count + 1))


def test_a_short_sequence_gives_every_reader_something() -> None:
    source = NumberSequenceSource(1, 8)
    shares = source.plan(source.initial_offset(), source.latest_offset({}, 0), 4)
    assert all(sum(len(chunk.values) for split in share for chunk in source.read(split)) == 2 for share in shares)


@pytest.mark.parametrize(("start", "end"), [(3, 1), (1.0, 2), (True, 2), ("1", 2)])
def test_a_sequence_that_is_none_is_refused(start: Any, end: Any) -> None:
    with pytest.raises(ValueError, match="NumberSequenceSource"):
        NumberSequenceSource(start, end)


@pytest.mark.parametrize("count", [0, 1, CHUNK_RECORDS, CHUNK_RECORDS + 1])
def test_a_collection_is_read_in_order_by_one_reader(count: int) -> None:
    source = CollectionSource(list(range(count)))
    assert source.max_parallelism == 1
    assert read_all(source) == list(range(count))
    assert read_all(source, 3) == list(range(count))


def test_a_split_is_read_the_same_every_time() -> None:
    source = NumberSequenceSource(1, 500)
    [split] = source.plan(source.initial_offset(), source.latest_offset({}, 0), 1)[0]
    assert list(source.read(split)) == list(source.read(split))


# --- made-up records ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("readers", [1, 3])
def test_made_up_records_are_made_of_their_index(readers: int) -> None:
    assert read_all(DataGeneratorSource(lambda index: index * 2, count=300), readers) == list(range(0, 600, 2))


def test_without_a_count_the_source_never_ends() -> None:
    source = DataGeneratorSource(lambda index: index)
    assert not source.bounded
    assert not source.at_end(source.latest_offset({"next": 10}, 0))
    assert source.latest_offset({"next": 10}, 0)["next"] > 10


def test_a_rate_says_how_far_an_epoch_may_read() -> None:
    source = DataGeneratorSource(lambda index: index, count=25, records_per_second=10)
    offset = source.latest_offset(source.initial_offset(), 1000)
    assert offset["next"] == 0
    seen = []
    for now in (1000, 1500, 1400, 3000, 99_000):
        offset = source.latest_offset(offset, now)
        seen.append(offset["next"])
    assert seen == [0, 5, 5, 20, 25]
    assert source.at_end(offset)


@pytest.mark.parametrize("error", [ValueError("at 7"), StopIteration()])
@pytest.mark.parametrize("count", [8, 100])
def test_a_generator_function_that_fails_is_named_with_the_index(error: Exception, count: int) -> None:
    def generate(index: int) -> int:
        if index == 7:
            raise error
        return index

    with pytest.raises(UserCodeError) as failure:
        read_all(DataGeneratorSource(generate, count=count))
    assert failure.value.what == "the generator function"
    assert failure.value.record == "7"


@pytest.mark.parametrize("options", [{"count": -1}, {"records_per_second": 0}, {"records_per_second": -1}])
def test_counts_and_rates_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        DataGeneratorSource(lambda index: index, **options)


# --- text -----------------------------------------------------------------------------------------------------------


def write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory


def test_the_lines_of_a_file_come_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n\n  three  ")
    assert read_all(TextFileSource(str(tmp_path / "a.txt"))) == ["one", "two", "", "  three  "]


@pytest.mark.parametrize("readers", [1, 2, 5])
def test_the_files_of_a_directory_come_in_the_order_of_their_names(tmp_path: Path, readers: int) -> None:
    write(tmp_path, b="3\n4", a="1\n2", c="5", _hidden="x", **{".dot": "x"})
    assert read_all(TextFileSource(str(tmp_path)), readers) == ["1", "2", "3", "4", "5"]


def test_a_pattern_picks_files(tmp_path: Path) -> None:
    write(tmp_path, **{"a.txt": "1", "b.csv": "2", "c.txt": "3"})
    assert read_all(TextFileSource(str(tmp_path / "*.txt"))) == ["1", "3"]
    assert read_all(TextFileSource(f"file://{tmp_path}/b.*")) == ["2"]


def test_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("größer".encode("latin-1"))
    assert read_all(TextFileSource(str(tmp_path / "latin"), "latin-1")) == ["größer"]


def test_a_path_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="nothing"):
        read_all(TextFileSource(str(tmp_path / "nothing")))


# --- for tests ------------------------------------------------------------------------------------------------------


def test_an_epoch_source_gives_one_list_in_each_epoch() -> None:
    source = EpochSource([[1, 2, 3], [], [4]], chunk_records=2)
    offset = source.initial_offset()
    epochs = []
    while not source.at_end(offset):
        end = source.latest_offset(offset, 0)
        [[split]] = source.plan(offset, end, 1)
        epochs.append([chunk.values for chunk in source.read(split)])
        offset = end
    assert epochs == [[[1, 2], [3]], [], [[4]]]
    assert split.ends
