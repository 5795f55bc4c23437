"""Starts the JVM without what it says about itself on the terminal.

Spark's launch scripts and the JVM print lines that no logging setting reaches ("Using incubator modules"),
and the JVM's standard error is also where the output of users' functions appears. So the JVM starts with
its standard error in an unnamed file, and once it runs its ``System.err`` is pointed to the terminal. If it
does not start, the file's content goes into the error.
"""

from __future__ import annotations

import os
import tempfile
from typing import IO

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

_STANDARD_ERROR = 2


def quiet_gateway(conf: SparkConf) -> JavaGateway:
    """Launch the JVM for ``conf``. Raises ``RuntimeError`` with what it printed when it does not come up."""
    terminal = os.dup(_STANDARD_ERROR)
    with tempfile.TemporaryFile("w+b") as said:
        try:
            settings = {"stderr": said, "pass_fds": (terminal,)}
            gateway = launch_gateway(conf, settings)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise RuntimeError(f"the JVM did not start: {_content(said)}") from error
        finally:
            os.close(terminal)
        _show_errors_on(gateway, terminal)
    return gateway


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
