"""Functions in real Python workers: opened once per process, closed once, however the job ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from millrace.spark.link import JobLink, LinkAddress
from millrace.spark.worker import TaskCancelled, WorkerLink

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module

Body = Callable[[int], None]


def note(path: str, what: str) -> None:
    main = threading.current_thread() is threading.main_thread()
    with Path(path).open("a") as file:
        file.write(f"{what} {os.getpid()} {main}\n")


def stage(address: LinkAddress, path: str, body: Body) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A stage whose functions are opened once per process and job, as the real one will do it."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        links: dict[bytes, WorkerLink] = sys.__dict__.setdefault("millrace_test_links", {})
        link = links.get(address.key)
        if link is None:
            link = WorkerLink.connect(address, lambda: note(path, "close"), True)
            links[address.key] = link
            note(path, "open")
        with link.running():
            for batch in batches:
                for slot in batch.column(0).to_pylist():
                    body(slot)
                yield batch

    return run


def epoch(spark: SparkSession, link: JobLink, notes: Path, body: Body) -> DataFrame:
    """Two levels, like a job's epoch; ``body`` is called in the second."""
    first = stage(link.address, str(notes), lambda slot: None)
    second = stage(link.address, str(notes), body)
    slots = spark.range(0, 2, 1, 2).selectExpr("cast(id as int) slot").mapInArrow(first, "slot int")
    return slots.repartitionById(2, slots.slot).mapInArrow(second, "slot int")


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def events(notes: Path) -> list[list[str]]:
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


def pids(notes: Path, what: str) -> Counter[str]:
    return Counter(pid for event, pid, _ in events(notes) if event == what)


def assert_closed_once_per_open(notes: Path, *, but_not: str = "") -> None:
    opened, closed = pids(notes, "open"), pids(notes, "close")
    del opened[but_not]
    assert opened
    assert closed == opened
    assert set(opened.values()) == {1}
    assert {main for event, _, main in events(notes) if event == "close"} == {"True"}
    eventually(lambda: not any(psutil.pid_exists(int(pid)) for pid in opened), 3)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture(autouse=True)
def _session_works_and_nothing_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    assert spark.range(4).mapInArrow(lambda batches: batches, "id long").count() == 4
    eventually(lambda: not any("millrace" in thread.name for thread in threading.enumerate()), 3)
    workers = [child for child in psutil.Process().children(recursive=True) if "python" in child.name()]
    assert not [worker for worker in workers if worker.status() == psutil.STATUS_ZOMBIE]


def test_success_closes_once_per_open_after_the_last_epoch(spark: SparkSession, notes: Path) -> None:
    with JobLink(workers_exit=True) as link:
        for _ in range(4):
            assert epoch(spark, link, notes, lambda slot: None).count() == 2
        assert not pids(notes, "close")
        assert len(pids(notes, "open")) <= 2  # processes are reused from epoch to epoch
        assert link.close() == []
    assert_closed_once_per_open(notes)


def test_failed_task_closes_before_spark_ends_its_process(spark: SparkSession, notes: Path) -> None:
    def fail(slot: int) -> None:
        if slot == 1:
            raise ValueError("a user's error")

    with JobLink(workers_exit=True) as link:
        with pytest.raises(Exception, match="a user's error"):
            epoch(spark, link, notes, fail).collect()
        assert link.close() == []
    assert_closed_once_per_open(notes)


def test_cancel_interrupts_sleeping_user_code_at_once(spark: SparkSession, notes: Path) -> None:
    def sleep(slot: int) -> None:
        note(str(notes), "sleep")
        time.sleep(60)

    raised: list[BaseException] = []

    def collect() -> None:
        try:
            epoch(spark, link, notes, sleep).collect()
        except Exception as error:
            raised.append(error)

    with JobLink(workers_exit=True) as link:
        job = threading.Thread(target=collect)
        job.start()
        eventually(lambda: bool(pids(notes, "sleep")), 30)
        before = time.monotonic()
        link.cancel()
        job.join(30)
        assert time.monotonic() - before < 10
        assert TaskCancelled.__name__ in str(raised[0])
        assert link.close() == []
    assert_closed_once_per_open(notes)


def test_cancelling_the_spark_job_alone_leaves_closing_to_the_link(spark: SparkSession, notes: Path) -> None:
    def sleep(slot: int) -> None:
        note(str(notes), "sleep")
        time.sleep(60)

    def collect() -> None:
        with pytest.raises(Exception, match="cancelled"):
            epoch(spark, link, notes, sleep).collect()

    with JobLink(workers_exit=True) as link:
        job = threading.Thread(target=collect)
        job.start()
        eventually(lambda: bool(pids(notes, "sleep")), 30)
        spark.sparkContext.cancelAllJobs()
        job.join(30)
        assert link.close() == []
    assert_closed_once_per_open(notes)


def test_killed_worker_is_replaced_and_the_others_close(spark: SparkSession, notes: Path) -> None:
    def die_once(slot: int) -> None:
        marker = notes.with_name("killed")
        if slot == 1 and not marker.exists():
            marker.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)

    with JobLink(workers_exit=True) as link:
        assert epoch(spark, link, notes, die_once).count() == 2  # Spark retries the task in another process
        assert link.close() == []
    assert_closed_once_per_open(notes, but_not=notes.with_name("killed").read_text())


def test_two_jobs_share_worker_processes_and_close_apart(spark: SparkSession, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with JobLink(workers_exit=True) as first, JobLink(workers_exit=True) as second:
        epoch(spark, first, one, lambda slot: None).collect()
        epoch(spark, second, two, lambda slot: None).collect()
        shared = set(pids(one, "open")) & set(pids(two, "open"))
        assert shared
        first.close(timeout=1)
        assert pids(one, "close") == pids(one, "open")
        assert not pids(two, "close")
        assert epoch(spark, second, two, lambda slot: None).count() == 2
        assert second.close() == []
    assert_closed_once_per_open(two)
