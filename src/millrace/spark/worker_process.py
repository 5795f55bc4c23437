"""What all control lines of one Python worker process share: the signal, the way out, and whether it is idle.

See worker.py for the rules. This module does nothing when imported; the first link installs it there.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from millrace.spark.link import CLOSE

# Not used by pyspark 4.3, nor by its faulthandler (fatal signals, a timer thread) or thread dumps (ptrace).
_SIGNAL = signal.SIGUSR1
# The main thread is left alone in these: a message half sent or a closing half done would be the result.
_OWN_MODULES = {"millrace.spark.worker", "millrace.spark.worker_process"}


class HostedLink(Protocol):
    """What the process needs to know of a link; see ``WorkerLink``."""

    demand: bytes | None
    closed: bool
    exit_after_close: bool
    orphaned_at: float | None

    @property
    def busy(self) -> bool: ...

    @property
    def must_exit(self) -> bool: ...

    def close(self) -> None: ...

    def raise_if_due(self) -> None: ...


class WorkerProcess:
    """The process-wide state: its open links, its signal handler, and its real way out."""

    def __init__(self) -> None:
        self._links: list[HostedLink] = []
        self._installed_for: int | None = None
        self._previous: Callable[[int, FrameType | None], object] | int | None = None
        self.exit: Callable[[int], object] = os._exit

    def adopt(self, link: HostedLink) -> None:
        """Serve a new link; links that are closed and forgotten by their driver leave the list."""
        if self._installed_for != os.getpid():
            self._install()
        self._links = [known for known in self._links if not known.closed] + [link]

    def hosts_other_than(self, link: HostedLink) -> bool:
        """Whether another job has functions open in this process."""
        return any(other is not link and not other.closed for other in self._links)

    def nudge(self) -> None:
        """Have the handler run on the main thread soon, whatever it does now."""
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, _SIGNAL)

    def _install(self) -> None:
        self._links, self._installed_for = [], os.getpid()
        self._previous = signal.signal(_SIGNAL, self._on_signal)
        # pyspark's daemon ends its workers by SIGHUP, whose default action it restores before each task:
        # death without closing. What ends the daemon also ends the worker's socket or the line: our cue.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        atexit.register(self._close_all)
        # By this function pyspark's daemon ends a worker.
        os._exit = self._exit_closing  # type: ignore[assignment]

    def _exit_closing(self, code: int) -> None:
        self._close_all()
        self.exit(code)

    def _close_all(self) -> None:
        if os.getpid() == self._installed_for and threading.current_thread() is threading.main_thread():
            for link in self._links:
                link.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        wanted = [link for link in self._links if link.demand is not None or link.closed]
        if not wanted and callable(self._previous):
            self._previous(number, frame)
        elif not _in_the_line(frame):
            self._obey(wanted, frame)

    def _obey(self, wanted: list[HostedLink], frame: FrameType | None) -> None:
        for link in wanted:
            if link.busy:
                link.raise_if_due()
        if any(link.busy for link in self._links) or _runs_a_task():
            return
        for link in wanted:
            if link.demand == CLOSE:
                link.close()
        self._exit_or_leave_it([link for link in self._links if not link.closed], frame)

    def _exit_or_leave_it(self, still_open: list[HostedLink], frame: FrameType | None) -> None:
        """End the process if nothing needs it; else the youngest job still open inherits that duty."""
        leaving = [link for link in self._links if link.closed and link.must_exit]
        if leaving and still_open:
            still_open[-1].exit_after_close = True
            for link in leaving:
                link.exit_after_close, link.orphaned_at = False, None
        elif leaving and _waits_for_a_task(frame):
            self.exit(0)


def _in_the_line(frame: FrameType | None) -> bool:
    """Whether the main thread was interrupted in the line's own code, or in something that this called."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _OWN_MODULES:
            return True
        frame = frame.f_back
    return False


def _runs_a_task() -> bool:
    """Whether Spark runs a task here, ours or a stranger's. Without pyspark (tests) there are none."""
    module = sys.modules.get("pyspark.taskcontext")
    return module is not None and module.TaskContext.get() is not None


def _waits_for_a_task(frame: FrameType | None) -> bool:
    """Whether the main thread waits for the first byte of a task, so that ending the process loses nothing.

    ``_do_get_init_message`` is where pyspark 4.3 waits; it has more locals than ``self`` once it has read.
    """
    if "pyspark.worker" not in sys.modules:
        return True  # not one of Spark's workers: there is nothing to wait for
    while frame is not None:
        if frame.f_code.co_name == "_do_get_init_message":
            return frame.f_locals.keys() <= {"self"}
        frame = frame.f_back
    return False


PROCESS = WorkerProcess()
