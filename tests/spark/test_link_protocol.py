"""The control line without Spark: workers are plain subprocesses that run a small script."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest

import millrace
from millrace.spark.link import JobLink, LinkAddress

SOURCE = str(Path(millrace.__file__).parents[1])
PRELUDE = """
import sys, threading, time
from millrace.spark.link import LinkAddress
from millrace.spark.worker import TaskCancelled, WorkerLink

path, host, port, key, leave = sys.argv[1:6]

def note(what):
    with open(path, "a") as file:
        file.write(f"{what} {threading.current_thread() is threading.main_thread()}\\n")

def on_close():
    note("close")

def connect():
    return WorkerLink.connect(LinkAddress(host, int(port), bytes.fromhex(key)), on_close, leave == "exit")

def idle(seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.5)
"""
IDLE = "link = connect(); note('open'); idle(); note('end')"


class Workers:
    """Starts worker scripts that share one note file, and ends those that a test leaves behind."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, body: str, address: LinkAddress, leave: str = "exit") -> subprocess.Popen[bytes]:
        arguments = [str(self.notes), address.host, str(address.port), address.key.hex(), leave]
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(body), *arguments],
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        self.processes.append(process)
        return process

    def lines(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def wait_for(self, line: str, count: int = 1) -> None:
        eventually(lambda: self.lines().count(line) >= count)


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    started = Workers(tmp_path / "notes")
    yield started
    for process in started.processes:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    eventually(lambda: not {t for t in set(threading.enumerate()) - before if "millrace" in t.name}, 3)


def test_idle_workers_close_once_on_their_main_thread_and_exit(workers: Workers) -> None:
    with JobLink(workers_exit=True) as link:
        started = [workers.start(IDLE, link.address) for _ in range(2)]
        workers.wait_for("open True", 2)
        eventually(lambda: sorted(link.workers) == sorted(process.pid for process in started))
        assert link.close() == []
        assert [process.wait(5) for process in started] == [0, 0]
    assert sorted(workers.lines()) == ["close True"] * 2 + ["open True"] * 2


def test_in_a_users_session_the_process_lives_on_after_closing(workers: Workers) -> None:
    with JobLink() as link:
        body = "link = connect(); note('open'); idle(1.5); note('end')"
        process = workers.start(body, link.address, "stay")
        workers.wait_for("open True")
        assert link.close() == []
    assert process.wait(10) == 0
    assert workers.lines() == ["open True", "close True", "end True"]


def test_cancel_interrupts_a_sleeping_task_which_then_closes(workers: Workers) -> None:
    body = """
    link = connect()
    try:
        with link.running():
            note("open")
            time.sleep(30)
    except TaskCancelled:
        note("cancelled")
    idle()
    """
    with JobLink(workers_exit=True) as link:
        process = workers.start(body, link.address)
        workers.wait_for("open True")
        link.cancel()
        workers.wait_for("cancelled True")
        assert workers.lines() == ["open True", "close True", "cancelled True"]
        assert link.close() == []
        assert process.wait(5) == 0
    assert workers.lines().count("close True") == 1


def test_closing_interrupts_a_task_that_swallows_the_first_cancellation(workers: Workers) -> None:
    body = """
    link = connect()
    try:
        with link.running():
            note("open")
            try:
                time.sleep(30)
            except BaseException:
                note("swallowed")
            time.sleep(30)
    except TaskCancelled:
        note("cancelled")
    idle()
    """
    with JobLink(workers_exit=True) as link:
        workers.start(body, link.address)
        workers.wait_for("open True")
        assert link.close() == []
    assert workers.lines() == ["open True", "swallowed True", "close True", "cancelled True"]


def test_worker_that_connects_after_cancel_may_not_run_a_task(workers: Workers) -> None:
    body = """
    link = connect()
    time.sleep(0.3)
    try:
        with link.running():
            note("ran")
    except TaskCancelled:
        note("refused")
    idle()
    """
    with JobLink(workers_exit=True) as link:
        link.cancel()
        workers.start(body, link.address)
        workers.wait_for("refused True")
    assert workers.lines() == ["close True", "refused True"]


def test_worker_that_connects_during_closing_is_told_to_close(workers: Workers) -> None:
    slow = "on_close = lambda: (time.sleep(3), note('slow'));" + IDLE
    with JobLink(workers_exit=True) as link:
        workers.start(slow, link.address)
        workers.wait_for("open True")
        closing = threading.Thread(target=link.close)
        closing.start()
        workers.start(IDLE, link.address)
        closing.join()
    lines = workers.lines()  # the newcomer may have been told before it came to note its opening
    assert (lines.count("slow True"), lines.count("close True")) == (1, 1)


def test_closing_error_is_reported_as_text(workers: Workers) -> None:
    body = "def on_close(): raise ValueError('no more disk')\n" + IDLE
    with JobLink(workers_exit=True) as link:
        workers.start(body, link.address)
        workers.wait_for("open True")
        (error,) = link.close()
        assert "ValueError: no more disk" in error
        assert link.close() == [error]


def test_failure_payloads_arrive_in_order_and_unread(workers: Workers) -> None:
    heard: list[bytes] = []
    body = "link = connect(); [link.report_failure(bytes([n]) * 100_000) for n in range(3)]; idle()"
    with JobLink(workers_exit=True, on_failure=heard.append) as link:
        workers.start(body, link.address)
        eventually(lambda: len(link.failures) == 3)
        assert link.failures == heard == [bytes([n]) * 100_000 for n in range(3)]


def test_killed_worker_is_forgotten_and_the_others_close(workers: Workers) -> None:
    with JobLink(workers_exit=True) as link:
        victim, other = (workers.start(IDLE, link.address) for _ in range(2))
        workers.wait_for("open True", 2)
        eventually(lambda: len(link.workers) == 2)
        victim.send_signal(signal.SIGKILL)
        eventually(lambda: link.workers == [other.pid])
        assert link.close() == []
    assert workers.lines().count("close True") == 1


def test_worker_that_cannot_close_in_time_is_named_and_ended(workers: Workers) -> None:
    body = "def on_close(): time.sleep(60)\n" + IDLE
    with JobLink(workers_exit=True) as link:
        process = workers.start(body, link.address)
        workers.wait_for("open True")
        assert link.close(timeout=0.3) == [f"worker process {process.pid} did not close its functions within 0.3 s"]
        assert process.wait(5) == 1


def test_task_of_another_job_is_not_disturbed_by_closing(workers: Workers) -> None:
    body = """
    link = connect()
    other = WorkerLink.connect(
        LinkAddress(host, int(sys.argv[6]), bytes.fromhex(sys.argv[7])), lambda: note("other"), True
    )
    with other.running():
        note("open")
        time.sleep(2)
        note("undisturbed")
    idle()
    """
    with JobLink(workers_exit=True) as link, JobLink(workers_exit=True) as second:
        arguments = f"sys.argv += ['{second.address.port}', '{second.address.key.hex()}']\n"
        process = workers.start(arguments + textwrap.dedent(body), link.address)
        workers.wait_for("open True")
        assert link.close(timeout=0.1) != []  # it closes as soon as the other job's task has ended
        workers.wait_for("close True")
        assert process.poll() is None
        assert second.close() == []
        assert process.wait(5) == 0
    assert workers.lines() == ["open True", "undisturbed True", "close True", "other True"]


def test_worker_whose_driver_dies_closes_and_exits(workers: Workers) -> None:
    script = (
        "from millrace.spark.link import JobLink; import time; link = JobLink(); a = link.address\n"
        "print(a.port, a.key.hex(), flush=True); time.sleep(60)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
    )
    assert driver.stdout is not None
    port, key = driver.stdout.readline().decode().split()
    body = """
    link = connect()
    try:
        with link.running():
            note("open")
            time.sleep(30)
    except TaskCancelled:
        idle()
    """
    process = workers.start(body, LinkAddress("127.0.0.1", int(port), bytes.fromhex(key)), "stay")
    workers.wait_for("open True")
    driver.kill()
    driver.wait()
    driver.stdout.close()
    assert process.wait(5) == 0
    assert workers.lines() == ["open True", "close True"]


def test_worker_that_leaves_by_itself_closes_on_its_way_out(workers: Workers) -> None:
    with JobLink(workers_exit=True) as link:
        process = workers.start("import os; link = connect(); note('open'); os._exit(3)", link.address)
        assert process.wait(10) == 3
        assert workers.lines() == ["open True", "close True"]
        assert link.close() == []


def test_failed_task_closes_before_its_error_reaches_spark(workers: Workers) -> None:
    body = """
    link = connect()
    try:
        with link.running():
            note("open")
            raise ValueError
    except ValueError:
        note("failed")
    idle()
    """
    with JobLink(workers_exit=True) as link:
        workers.start(body, link.address)
        workers.wait_for("failed True")
    assert workers.lines() == ["open True", "close True", "failed True"]


def test_stranger_without_the_key_is_turned_away_and_harms_nobody(workers: Workers) -> None:
    with JobLink(workers_exit=True) as link:
        with pytest.raises((AuthenticationError, EOFError, OSError)):
            Client((link.address.host, link.address.port), authkey=b"guess")
        with socket.create_connection((link.address.host, link.address.port)):  # connects and says nothing
            workers.start(IDLE, link.address)
            workers.wait_for("open True")
        assert link.close() == []
    assert workers.lines() == ["open True", "close True"]


def test_address_hides_its_key() -> None:
    assert "key" not in repr(LinkAddress("127.0.0.1", 1, b"secret"))
