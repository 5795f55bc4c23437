"""The driver's end of the control line to the Python workers that host a job.

Spark offers no hook at the end of a job, so every worker process that opened the job's functions holds one
TCP connection to the driver's :class:`JobLink`. Over it the driver says *cancel* and *close*; the worker says
*hello*, *failure* and *done*. A message is one tag byte and a body: JSON, or bytes that are handed on unread.
Nothing that arrives is ever unpickled.

What holds:

* Both ends prove that they know the job's key before anything else is read.
* A worker that connects after ``cancel`` or ``close`` is told so at once.
* A failure cancels the job: whatever Spark would try again then finds that it may not run.
* A worker that dies is forgotten; a worker whose driver dies sees the end of the line, closes and exits.
* No call here waits for a worker without a time limit.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from types import TracebackType
from typing import Self

HELLO, FAILURE, DONE = b"H", b"F", b"D"
CANCEL, CLOSE, ABANDON = b"X", b"C", b"A"

# The longest message that is read: a pickled exception with its traceback stays far below; a stranger's
# length prefix must not make the driver allocate gigabytes.
MAX_MESSAGE = 64 << 20
# A peer that stops in the middle of a message (or a stranger who connects and says nothing) holds the line's
# only thread for this long at most; on a loopback or a cluster network a message takes milliseconds.
_STALL_SECONDS = 2
# What a worker that did not close in time gets to end by force; that is one system call.
_ABANDON_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LinkAddress:
    """Where a job's workers reach the driver, and the key that both must know. Travels in the task
    closure."""

    host: str
    port: int
    key: bytes = field(repr=False)


@dataclass(eq=False)
class _Worker:
    """One worker process of the job, as the driver sees it."""

    connection: Connection
    pid: int = 0
    acknowledged: bool = False

    def tell(self, command: bytes) -> None:
        """Send a command; a worker that is gone is not an error here, its end of the line reports it."""
        with contextlib.suppress(OSError):
            self.connection.send_bytes(command)

    def hang_up(self) -> None:
        """End our direction only: the worker's end of line still tells us when its process is gone."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.connection.fileno())) as line:
            line.shutdown(socket.SHUT_WR)


class JobLink:
    """The control line of one job attempt; a context manager, whose exit closes what is still open.

    ``host`` is the address to listen on: loopback for a local master, else the driver's host. With
    ``workers_exit`` (the session is ours) a worker process ends after closing, and :meth:`close` waits for
    that. ``failures`` holds the payloads of :meth:`WorkerLink.report_failure` in order of arrival;
    ``on_failure`` is called with each, on the line's thread.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        *,
        workers_exit: bool = False,
        on_failure: Callable[[bytes], None] | None = None,
    ) -> None:
        self.failures: list[bytes] = []
        self._on_failure = on_failure
        self._workers_exit = workers_exit
        self._changed = threading.Condition()
        self._workers: dict[Connection, _Worker] = {}
        self._errors: list[str] = []
        self._command: bytes | None = None
        self._stopped = False
        self._listener = socket.create_server((host, 0))
        self._wake_up, self._woken = socket.socketpair()
        port: int = self._listener.getsockname()[1]
        self.address = LinkAddress(host, port, secrets.token_bytes(32))
        self._thread = threading.Thread(target=self._serve, name="millrace-job-link", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def workers(self) -> list[int]:
        """Process ids of the workers that are connected now."""
        with self._changed:
            return [worker.pid for worker in self._workers.values() if worker.pid]

    def cancel(self) -> None:
        """Interrupt what workers run for this job, now and from now on. Returns at once; does not close."""
        self._demand(CANCEL)

    def close(self, timeout: float = 30.0) -> list[str]:
        """Have every worker close the job's functions; return the errors of closing as text, each once.

        Returns when all have acknowledged (and, with ``workers_exit``, their processes are gone) or after
        ``timeout`` seconds. Who has not finished by then is named in the result; if the session is ours,
        and the process hosts no other job, it ends by force. A second call returns the same errors.
        """
        self._demand(CLOSE)
        with self._changed:
            if not self._stopped:
                self._changed.wait_for(self._all_closed, timeout)
                self._give_up(self._unfinished(), timeout)
        self._stop()
        return list(self._errors)

    # What the callers' threads do ------------------------------------------------------------------------

    def _demand(self, command: bytes) -> None:
        with self._changed:
            if self._command != CLOSE:
                self._command = command
                for worker in self._workers.values():
                    worker.tell(command)

    def _unfinished(self) -> list[_Worker]:
        """Workers to wait for: their line ends when the process does, which only our own workers' do."""
        return [worker for worker in self._workers.values() if self._workers_exit or not worker.acknowledged]

    def _all_closed(self) -> bool:
        return not self._unfinished()

    def _give_up(self, late: list[_Worker], timeout: float) -> None:
        for worker in late:
            what = "exit after closing" if worker.acknowledged else "close its functions"
            self._errors.append(f"worker process {worker.pid} did not {what} within {timeout:g} s")
            worker.acknowledged = True
            if self._workers_exit:
                worker.tell(ABANDON)
        if late:
            self._changed.wait_for(self._all_closed, _ABANDON_SECONDS)

    def _stop(self) -> None:
        with self._changed:
            first, self._stopped = not self._stopped, True
        if first:
            self._wake_up.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # What the line's own thread does -----------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while self._woken not in (ready := wait([self._woken, self._listener, *self._workers])):
                for source in ready:
                    if source is self._listener:
                        self._accept()
                    elif isinstance(source, Connection):
                        self._receive(self._workers[source])
        finally:
            self._listener.close()
            self._woken.close()
            for connection in self._workers:
                connection.close()

    def _accept(self) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:
            return  # the peer left before we came to it
        line.settimeout(None)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _STALL_SECONDS, 0))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(line.detach())
        try:
            deliver_challenge(connection, self.address.key)
            answer_challenge(connection, self.address.key)
        except (OSError, EOFError, AuthenticationError):
            connection.close()
            return
        self._welcome(_Worker(connection))

    def _welcome(self, worker: _Worker) -> None:
        with self._changed:
            self._workers[worker.connection] = worker
            if self._command:
                worker.tell(self._command)

    def _receive(self, worker: _Worker) -> None:
        try:
            message = worker.connection.recv_bytes(MAX_MESSAGE)
            self._take(worker, message[:1], message[1:])
        except (OSError, EOFError, ValueError):
            self._forget(worker)

    def _take(self, worker: _Worker, tag: bytes, body: bytes) -> None:
        if tag == HELLO:
            hello = json.loads(body)
            worker.pid = int(hello["pid"])
        elif tag == FAILURE:
            self._take_failure(body)
        elif tag == DONE:
            self._take_done(worker, json.loads(body)["error"])

    def _take_failure(self, payload: bytes) -> None:
        self.failures.append(payload)
        if self._on_failure is not None:
            try:
                self._on_failure(payload)
            except Exception:  # a callback's error must not end the line
                _log.exception("the failure callback of a job link raised")
        self._demand(CANCEL)

    def _take_done(self, worker: _Worker, error: str | None) -> None:
        worker.hang_up()
        with self._changed:
            worker.acknowledged = True
            if error:
                self._errors.append(error)
            self._changed.notify_all()

    def _forget(self, worker: _Worker) -> None:
        """The line is at its end: the process is gone, or (in a user's session) has nothing left to say."""
        with self._changed:
            del self._workers[worker.connection]
            worker.connection.close()
            if self._command == CLOSE and not worker.acknowledged:
                self._errors.append(f"worker process {worker.pid} ended before it had closed its functions")
            self._changed.notify_all()
