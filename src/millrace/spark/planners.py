"""The Python processes in which Spark plans a data source written in Python, such as our own.

Spark asks such a process three times before a query's first batch, and keeps the three idle processes for a minute.
When it hangs up on them then, each writes a traceback to standard error. So they are ended before, once nobody needs
them. They are looked for among the JVM's processes, because Spark tells nobody which they are.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import SparkSession

_COMMAND = "-m pyspark.daemon pyspark.sql.worker."


class Planners:
    """Counts the queries that are being planned: only when the last one is through, the processes may go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._planning = 0

    def begin(self) -> None:
        """A query will be planned."""
        with self.lock:
            self._planning += 1

    def end(self, spark: SparkSession) -> None:
        """It is planned, or has failed."""
        with self.lock:
            self._planning -= 1
            if not self._planning:
                _end_idle(spark)


def _end_idle(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    for process in jvm.java.lang.ProcessHandle.current().descendants().toArray():
        # A daemon stays: Spark does not expect it to end. Its workers have its command line.
        command, parent = _command(process), process.parent().orElse(None)
        if _COMMAND in command and parent is not None and _command(parent) == command:
            process.destroyForcibly()


def _command(process: Any) -> str:
    return str(process.info().commandLine().orElse(""))


PLANNERS = Planners()
