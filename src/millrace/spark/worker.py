"""The worker's end of the control line: keeps a job's functions open, and closes them exactly once.

A Spark Python worker runs tasks of several jobs one after the other on its **main thread** and sits between
them in a blocking read. What users opened there (an sqlite connection, say) may be used on that thread only.
So the line's own thread never touches the functions: it writes down what the driver wants and sends the main
thread ``SIGUSR1`` until that has happened. The Python handler then runs on the main thread, and

* inside a task of the job raises :class:`TaskCancelled`, which interrupts sleeps and I/O; as the task
  unwinds, :meth:`WorkerLink.running` closes;
* in an idle process closes at once, and ends the process if the session is ours;
* inside another job's task, or inside this module, does nothing: the signal comes again.

A process that leaves without being told (its task failed, Spark dropped an idle worker) closes on its way out.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Client, Connection
from types import TracebackType

from millrace.spark.link import ABANDON, CANCEL, CLOSE, DONE, FAILURE, HELLO, MAX_MESSAGE, LinkAddress
from millrace.spark.worker_process import PROCESS

# Pauses between two signals: short at first, because an idle worker reacts in microseconds; at most a quarter
# of a second, because a busy process has nothing better to do with a signal than to note it.
_FIRST_NUDGE, _LAST_NUDGE = 0.002, 0.25
# TaskCancelled may be lost in a ``__del__`` or swallowed by a bare ``except``, so it is raised again, but
# late enough for a task's own clean-up to end in peace. Each pause is twice as long as the one before.
_RAISE_AGAIN = 1.0
# How long a failed task waits for its driver to stop the job: a message there and one back.
_STOP_SECONDS = 2.0
# How long a worker whose driver died may take to close before it is ended by force.
_ORPHAN_SECONDS = 30.0


class TaskCancelled(BaseException):
    """Raised inside a running task when its job is cancelled or closed. Not an ``Exception``: let it pass."""


class ClosingFailed(Exception):
    """Raised by ``on_close`` with all that the driver is to be told."""


class WorkerLink:
    """One job's line from this process to its driver. Make it with :meth:`connect`, on the main thread.

    ``on_close`` runs exactly once, on the main thread, never while a task of the job is running, unless the
    process is killed outright. When it raises, the traceback goes to the driver as a closing error.
    """

    def __init__(self, connection: Connection, on_close: Callable[[], None], exit_after_close: bool) -> None:
        self._connection = connection
        self._on_close = on_close
        self._sending = threading.Lock()
        self._tasks = 0
        self._raise_at, self._raise_pause = 0.0, _RAISE_AGAIN
        self._told = False
        self.demand: bytes | None = None
        self._heard = threading.Event()
        self.closing = False
        self.closed = False
        self.exit_after_close = exit_after_close
        self.orphaned_at: float | None = None

    @classmethod
    def connect(cls, address: LinkAddress, on_close: Callable[[], None], exit_after_close: bool) -> WorkerLink:
        """Join the job's line. Raises ``OSError`` when the job has ended already: then nothing was opened."""
        connection = Client((address.host, address.port), authkey=address.key)
        link = cls(connection, on_close, exit_after_close)
        link._send(HELLO, json.dumps({"pid": os.getpid()}).encode())
        PROCESS.adopt(link)
        threading.Thread(target=link._listen, name="millrace-worker-link", daemon=True).start()
        return link

    def running(self) -> _Running:
        """Mark a task of this job: ``with link.running(): ...``. Raises ``TaskCancelled`` if none may run.

        Leaving it with an exception closes the functions: Spark ends a process whose task has failed.
        """
        return _Running(self)

    def report_failure(self, payload: bytes) -> None:
        """Tell the driver of a failure, in the caller's own encoding, and wait until it has stopped the job: else
        Spark would run the task again before. Quiet when the driver is gone."""
        self._send(FAILURE, payload)
        self._heard.wait(_STOP_SECONDS)

    @property
    def must_exit(self) -> bool:
        """Whether the process is to end once it is closed and idle."""
        return self.exit_after_close or self.orphaned_at is not None

    @property
    def busy(self) -> bool:
        """Whether a task of this job is running in this process."""
        return self._tasks > 0

    def begin_task(self) -> None:
        """See :meth:`running`."""
        if self.closed or self.demand is not None:
            self.close()
            raise TaskCancelled("the job is being cancelled or closed")
        self._tasks += 1

    def end_task(self, failed: bool) -> None:
        """See :meth:`running`."""
        self._tasks -= 1
        if failed or self.demand == CLOSE:
            self.close()

    def close(self) -> None:
        """Close the functions and tell the driver, once. Only on the main thread, only outside of tasks."""
        if self.closing:
            return
        self.closing = True
        error = None
        try:
            self._on_close()
        except ClosingFailed as failed:
            error = str(failed)
        except BaseException:  # whatever a user's close() raises is reported, and must not fail a task
            error = f"in worker process {os.getpid()}:\n{traceback.format_exc()}"
        self._told = True
        self._send(DONE, json.dumps({"error": error}).encode())
        self.closed = True  # only now: the line's thread hangs up as soon as it sees this

    def raise_if_due(self) -> None:
        """Raise ``TaskCancelled`` in the task that is running, unless it was raised a moment ago."""
        now = time.monotonic()
        if now >= self._raise_at:
            self._raise_at, self._raise_pause = now + self._raise_pause, self._raise_pause * 2
            raise TaskCancelled("the job is being cancelled or closed")

    def _send(self, tag: bytes, body: bytes) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._connection.send_bytes(tag + body)

    # What the line's own thread does -----------------------------------------------------------------------

    def _listen(self) -> None:
        """Take commands, and nudge the main thread until it has done what they say."""
        pause = _FIRST_NUDGE
        while not self._finished():
            if self._must_nudge():
                PROCESS.nudge()
                self._end_overdue_orphan()
                heard, pause = self._hear(pause), min(pause * 2, _LAST_NUDGE)
            else:
                heard = self._hear(None)
            pause = _FIRST_NUDGE if heard else pause
        self._connection.close()

    def _finished(self) -> bool:
        return self.closed and not self.must_exit

    def _must_nudge(self) -> bool:
        return self.demand == CLOSE or self.closed or (self.demand == CANCEL and self.busy)

    def _hear(self, timeout: float | None) -> bool:
        """Wait for a command; true if one came. The end of the line is a command to close, then silence."""
        if self.orphaned_at is not None or (self.closed and timeout is not None):
            time.sleep(timeout or _LAST_NUDGE)
            return False
        try:
            if not self._connection.poll(timeout):
                return False
            command = self._connection.recv_bytes(MAX_MESSAGE)
        except (OSError, EOFError):
            self._line_ended()
            return True
        if command == ABANDON:
            self._end_if_stuck()
        self.demand = CANCEL if command == CANCEL and self.demand != CLOSE else CLOSE
        self._heard.set()
        return True

    def _line_ended(self) -> None:
        self.demand = CLOSE
        self._heard.set()
        if not self._told:  # else the driver has heard all that it wanted, and hung up
            self.orphaned_at = time.monotonic()

    def _end_overdue_orphan(self) -> None:
        """Nobody waits for an orphan: one that cannot be interrupted must not live for ever."""
        if self.orphaned_at and time.monotonic() - self.orphaned_at > _ORPHAN_SECONDS:
            self._end_if_stuck()

    def _end_if_stuck(self) -> None:
        """End the process by force if this job's code holds it up, and no other job lives in it."""
        if (self.busy or (self.closing and not self.closed)) and not PROCESS.hosts_other_than(self):
            PROCESS.exit(1)


class _Running:
    """See :meth:`WorkerLink.running`."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link

    def __enter__(self) -> None:
        self._link.begin_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.end_task(failed=kind is not None)
