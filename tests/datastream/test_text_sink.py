"""Text files that appear once their epoch is safe, and only once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.datastream.connectors import TextFileSink


def writer(sink: TextFileSink, subtask: int = 0) -> Any:
    return sink.create_writer(SimpleNamespace(get_index_of_this_subtask=lambda: subtask))  # type: ignore[arg-type]


def epoch(target: Any, *values: Any) -> list[Any]:
    for value in values:
        target.write(value, None)
    target.flush(False)
    return target.prepare_commit()  # type: ignore[no-any-return]


def visible(directory: Path) -> list[str]:
    files = [file for file in directory.iterdir() if not file.name.startswith(".")]
    return sorted(line for file in files for line in file.read_text().splitlines())


def test_nothing_is_seen_before_the_commit(tmp_path: Path) -> None:
    sink = TextFileSink(str(tmp_path))
    staged = epoch(writer(sink), 1, "two")
    assert visible(tmp_path) == []
    sink.create_committer().commit(staged)
    assert visible(tmp_path) == ["1", "two"]


def test_an_epoch_without_records_makes_no_file(tmp_path: Path) -> None:
    assert epoch(writer(TextFileSink(str(tmp_path)))) == []
    assert list(tmp_path.iterdir()) == []


def test_committing_again_changes_nothing(tmp_path: Path) -> None:
    sink = TextFileSink(f"file://{tmp_path}")
    staged = epoch(writer(sink), 1)
    for _ in range(2):
        sink.create_committer().commit(staged)
    assert visible(tmp_path) == ["1"]


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TextFileSink(str(tmp_path)).create_committer().commit(["part-0-lost"])


def test_a_second_attempt_does_not_meet_the_first(tmp_path: Path) -> None:
    sink = TextFileSink(str(tmp_path))
    epoch(writer(sink), 1)
    sink.create_committer().commit(epoch(writer(sink), 1))
    assert visible(tmp_path) == ["1"]


def test_what_was_not_flushed_is_removed(tmp_path: Path) -> None:
    target = writer(TextFileSink(str(tmp_path)))
    target.write(1, None)
    target.close()
    assert list((tmp_path / ".staging").iterdir()) == []


def test_each_epoch_adds_a_file(tmp_path: Path) -> None:
    sink = TextFileSink(str(tmp_path), render=repr)
    target = writer(sink, subtask=3)
    for value in ("a", "b"):
        sink.create_committer().commit(epoch(target, value))
    assert visible(tmp_path) == ["'a'", "'b'"]
    assert all(file.name.startswith(("part-3-", ".")) for file in tmp_path.iterdir())
