"""Starts the JVM without what it says about itself on the terminal.

Spark's launch scripts and the JVM print lines that no logging setting reaches ("Using incubator modules"),
and the JVM's standard error is also where the output of users' functions appears. So the JVM starts with
its standard error in an unnamed file, and once it runs its ``System.err`` is pointed to the terminal. If it
does not start, the file's content goes into the error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from types import FrameType
from typing import IO

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

_STANDARD_ERROR = 2

# py4j tells of each connection that it closes at INFO, between the lines of a program that logs at INFO itself.
_PY4J = logging.getLogger("py4j")
if _PY4J.level == logging.NOTSET:
    _PY4J.setLevel(logging.WARNING)


def quiet_gateway(conf: SparkConf) -> JavaGateway:
    """Launch the JVM for ``conf``. Raises ``RuntimeError`` with what it printed when it does not come up."""
    terminal = os.dup(_STANDARD_ERROR)
    with tempfile.TemporaryFile("w+b") as said:
        try:
            settings = {"stderr": said, "pass_fds": (terminal,)}
            with _interrupts_wait():
                gateway = launch_gateway(conf, settings)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise RuntimeError(f"the JVM did not start: {_content(said)}") from error
        finally:
            os.close(terminal)
        _show_errors_on(gateway, terminal)
    return gateway


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back for the seconds that a launch takes.

    pyspark waits for a file in which the JVM tells its port, and removes the directory when it is interrupted: the
    JVM then cannot write it, and stays for ever. One that has come up ends with this process.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held_back: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held_back.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held_back:
            before(*held_back[0])


def _show_errors_on(gateway: JavaGateway, descriptor: int) -> None:
    """Point the JVM's ``System.err`` to a file descriptor that it has inherited.

    The descriptor itself, not the file opened anew: so it works for sockets, and both sides share one
    offset. Java keeps that constructor private; Spark opens the package to reflection.
    """
    java = gateway.jvm.java
    (constructor,) = (
        found
        for found in java.lang.Class.forName("java.io.FileDescriptor").getDeclaredConstructors()
        if [kind.getName() for kind in found.getParameterTypes()] == ["int"]
    )
    constructor.setAccessible(True)
    arguments = gateway.new_array(java.lang.Object, 1)
    arguments[0] = descriptor
    stream = java.io.FileOutputStream(constructor.newInstance(arguments))
    java.lang.System.setErr(java.io.PrintStream(stream, True))


def _content(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace").strip()
