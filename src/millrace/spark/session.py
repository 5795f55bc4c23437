"""Spark sessions that are set up for epochs: one of our own, or a copy of one that the user handed in.

An epoch is a tiny Spark job, so what counts is what Spark does around it. Every setting below says what it is
for; measured figures are per epoch of two Python stages on two cores, unless said otherwise.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from urllib.parse import urlparse

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from millrace.spark.gateway import quiet_gateway

LOG_LEVEL = "millrace.spark.log.level"
_EXTRA_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

# A task may fail four times before its job does, like on a cluster. `local[N]` alone would never retry.
_TASK_ATTEMPTS = 4

_LOCAL = re.compile(r"local(?:\[\s*(?P<cores>\*|\d+)\s*(?:,\s*(?P<attempts>\d+)\s*)?\])?")

# Settings of SQL sessions: they may be set on a copy of a user's session.
SQL_SETTINGS: Mapping[str, str] = {
    # The plan of an epoch is fixed: one task per slot. Adaptive execution would run each exchange as a job
    # of its own and may merge slots.
    "spark.sql.adaptive.enabled": "false",
    # Rows are buffers of 5 to 100 KB. Few of them per Arrow batch keep the memory of a task flat; down to 8 the
    # time of an epoch does not change, at 1 it grows by a tenth.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # The anchor join (DESIGN, "Exactly once") must stay a shuffled join: a broadcast has no locality.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # A buffer names the attempt that made it, so a stage that runs again never has the bytes of its first run, and
    # Spark would give up the job. The reports of an epoch tell whether all has read the same attempts.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    # Millrace keeps its own progress; Spark's history of it is not read.
    "spark.sql.streaming.numRecentProgressUpdates": "4",
}

# What else a SQL session of ours needs when its checkpoints lie in the local file system.
LOCAL_CHECKPOINT_SETTINGS: Mapping[str, str] = {
    # Hadoop's default for local files starts 20 processes (readlink, chmod) per epoch: 50 ms instead of 8 ms.
    # Renaming a local file is atomic, so the simpler manager is as safe. Not so on HDFS or object stores.
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
}

# Settings of a context: only for a session that we start.
_CONTEXT_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "millrace",
    # Unix sockets to the Python workers: over TCP each task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # Functions stay open in the workers from epoch to epoch.
    "spark.python.worker.reuse": "true",
    # How long a cancelled task may take to close what it has open before Spark kills its Python worker.
    "spark.python.task.killTimeout": "30s",
    # Two copies of a subtask at once would share its local state.
    "spark.speculation": "false",
    # A task placed by the anchor goes where its state is; the exchange must not overrule that.
    "spark.shuffle.reduceLocality.enabled": "false",
    # Reports of an epoch are collected; their size is the job's business.
    "spark.driver.maxResultSize": "0",
    # Millrace has its own web page. Spark's costs memory and a port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Settings for a context whose executors are all on this machine.
_LOCAL_SETTINGS: Mapping[str, str] = {
    # Loopback only: neither Spark's ports nor ours are open to the network, and a laptop may change networks.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Workers are forked from a parent that has imported everything already.
    "spark.python.daemon.module": "millrace.spark.daemon",
    # No checksum files beside checkpoints: Spark's logs are small and their writes are atomic.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


def is_local(master: str) -> bool:
    """Whether a master URL means: driver and executor are this one process."""
    return _LOCAL.fullmatch(master.strip()) is not None


def is_on_this_machine(master: str) -> bool:
    """Whether a master URL means: every executor is a process of this machine."""
    return is_local(master) or master.strip().startswith("local-cluster[")


def retrying_master(master: str) -> str:
    """A local master with its cores counted and with task retries; any other master as it is."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return master
    cores = match["cores"] or ("1" if master.strip() == "local" else "*")
    if cores == "*":
        cores = str(available_cores())
    return f"local[{cores},{match['attempts'] or _TASK_ATTEMPTS}]"


def available_cores() -> int:
    """Cores that this process may use (a container or `taskset` may grant fewer than the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def link_host(spark: SparkSession) -> str:
    """The address on which the driver listens for the Python workers of this session."""
    if is_local(str(spark.sparkContext.master)):
        return "127.0.0.1"
    return spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"


def session_settings(options: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session that we start: ours, overruled by ``options``. Pure; no JVM is needed."""
    master = retrying_master(options.get("spark.master", "local[*]"))
    settings = {**_CONTEXT_SETTINGS, **SQL_SETTINGS}
    if is_on_this_machine(master):
        settings |= {**_LOCAL_SETTINGS, **LOCAL_CHECKPOINT_SETTINGS}
        # The workers are this interpreter, and find millrace where the driver found it.
        settings |= {"spark.pyspark.python": sys.executable, "spark.executorEnv.PYTHONPATH": _package_root()}
    settings |= {key: value for key, value in options.items() if key.startswith("spark.")}
    settings["spark.master"] = master
    settings[_EXTRA_JAVA_OPTIONS] = _java_options(settings.get(_EXTRA_JAVA_OPTIONS, ""), options)
    return settings


def open_session(options: Mapping[str, str]) -> SparkSession:
    """Start an embedded session, quiet on the terminal. ``spark.*`` options overrule ours.

    ``spark.master`` defaults to all cores of this machine. ``millrace.spark.log.level`` (``OFF``) sets what
    Spark logs. There must be no active context: hand such a session to :func:`derive_session` instead.
    Settings of the JVM itself take effect only in the first session of a Python process, because pyspark
    keeps its JVM.
    """
    if SparkContext._active_spark_context is not None:
        raise RuntimeError("a SparkContext is active already. Action: derive a session from it, or stop it first.")
    conf = SparkConf(loadDefaults=False)
    for key, value in session_settings(options).items():
        conf.set(key, value)
    with _worker_python(conf.get("spark.pyspark.python")):
        gateway = SparkContext._gateway or quiet_gateway(conf)
        return SparkSession(SparkContext(conf=conf, gateway=gateway))


def derive_session(user: SparkSession, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A copy of the user's session with our SQL settings; the user's own settings do not change.

    It shares the context, the catalog and temporary views as they are now. ``extra`` are further SQL settings, for
    example :data:`LOCAL_CHECKPOINT_SETTINGS`.
    """
    session = SparkSession(user.sparkContext, user._jsparkSession.cloneSession())
    for key, value in {**SQL_SETTINGS, **(extra or {})}.items():
        session.conf.set(key, value)
    return session


def adopt(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The same table in another session of its context: what is made from it follows that session's settings."""
    if frame.sparkSession is session:
        return frame
    jvm = session.sparkContext._jvm
    assert jvm is not None
    analyzed = frame._jdf.queryExecution().analyzed()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, analyzed), session)


def has_local_checkpoints(uri: str) -> bool:
    """Whether a checkpoint directory lies in the local file system, so that the fast file manager is safe."""
    return urlparse(uri).scheme in {"", "file"}


@contextlib.contextmanager
def _worker_python(executable: str | None) -> Iterator[None]:
    """Have Spark start workers with this interpreter: pyspark reads it from the environment, per context."""
    variable = "PYSPARK_PYTHON"
    before = os.environ.get(variable)
    if executable and before is None:
        os.environ[variable] = executable
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)


def _package_root() -> str:
    """What must be on a worker's path so that it can import millrace, however the driver found it."""
    return str(Path(__file__).resolve().parents[2])


def _java_options(given: str, options: Mapping[str, str]) -> str:
    log4j = resources.files("millrace.spark").joinpath("log4j2.properties")
    level = options.get(LOG_LEVEL, "OFF").upper()
    ours = f"-Dlog4j.configurationFile=file:{log4j} -D{LOG_LEVEL}={level}"
    # A failing job makes Spark match a backtracking pattern against its error, which needs a deep stack.
    # The quick compiler only: the JVM of an embedded session moves blobs, and on two cores the optimising one takes
    # more time from the Python workers in the first minute than it ever gives back.
    return " ".join(filter(None, [ours, "-Xss16m", "-XX:TieredStopAtLevel=1", given]))
