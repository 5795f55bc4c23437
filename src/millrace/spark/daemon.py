"""The parent of Spark's Python workers, with everything heavy imported before it forks them.

Spark starts it as ``python -m millrace.spark.daemon`` (``spark.python.daemon.module``) and keeps it as long
as the context. pyspark's own daemon imports nothing, so that each new worker imports pyarrow, pandas and
pyspark before its first record. Here the workers inherit the modules.

What holds: no Python thread is running when a worker is forked (checked at start; the native threads of
OpenBLAS and jemalloc look after themselves), and what was imported is out of the garbage collector's sight.
The latter matters in every epoch: after each task pyspark collects the whole heap, which costs tens of
milliseconds with those modules in it (an epoch takes 59 ms here and 111 ms under pyspark's own daemon).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import signal
import socket
import threading

from pyspark import daemon

_PRELOADED = (
    "pyarrow",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "multiprocessing.connection",
    "cloudpickle",
    "msgspec",
    "millrace.spark.stage",
    "millrace.datastream",
)


def preload() -> None:
    """Import what workers will need; what cannot be imported is missed where it is used."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


_serve_task = daemon.worker


def serve_task(sock: socket.socket, authenticated: bool) -> int:
    """Run one task as pyspark does, but end without a traceback when Spark has hung up on a cancelled one."""
    try:
        return _serve_task(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


def main() -> None:
    """Preload, then be pyspark's daemon until Spark closes its input."""
    preload()
    assert threading.active_count() == 1, f"forking with threads is unsafe: {threading.enumerate()}"
    # The daemon ends by SIGHUP to its group, which would kill workers before they can close what users
    # opened. They see the end of their socket at the same moment and leave by themselves. The mask is
    # inherited by every thread of every worker; see worker.py.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    daemon.worker = serve_task
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
