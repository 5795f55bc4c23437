"""Sessions: what is set, what a user's session keeps, and that the terminal stays empty."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import millrace
from millrace.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = str(Path(millrace.__file__).parents[1])

NOISY_PROGRAM = """
import sys, threading, time
import psutil
from millrace.spark.session import open_session

spark = open_session({"spark.master": "local[2]"})

def fail(batches):
    raise ValueError("a user's error")
    yield

def sleep(batches):
    time.sleep(30)
    yield from batches

def speak(batches):
    # One write: Spark's workers do not buffer, and two of them speak at once.
    sys.stdout.write("a user's line\\n")
    yield from batches

def refused(function):
    try:
        spark.range(2).mapInArrow(function, "id long").collect()
    except Exception as error:
        print(type(error).__name__, flush=True)

refused(fail)
job = threading.Thread(target=refused, args=(sleep,))
job.start()
time.sleep(1)
spark.sparkContext.cancelAllJobs()
job.join()
spark.range(2).mapInArrow(speak, "id long").collect()
for child in psutil.Process().children(recursive=True):
    try:
        print(" ".join(child.cmdline()), flush=True)
    except psutil.NoSuchProcess:
        pass  # a worker has just ended
spark.stop()
end = time.monotonic() + 10
while (left := [child.name() for child in psutil.Process().children(recursive=True)]) != ["java"]:
    if time.monotonic() > end:
        break
    time.sleep(0.1)
print("left:", left, flush=True)
for child in psutil.Process().children(recursive=True):
    if child.name() != "java":
        print("left:", child.status(), child.cmdline(), flush=True)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", f"local[{session.available_cores()},4]"),
        ("local[*, 1]", f"local[{session.available_cores()},1]"),
        ("local-cluster[2,2,1024]", "local-cluster[2,2,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_masters_count_their_cores_and_retry(given: str, expected: str) -> None:
    assert session.retrying_master(given) == expected


@pytest.mark.parametrize("master", ["local-cluster[2,2,1024]", "yarn", "spark://local", "k8s://https://local"])
def test_only_an_executor_in_this_process_is_local(master: str) -> None:
    assert not session.is_local(master)
    assert session.is_local("local[2,4]")


def test_options_overrule_ours_and_java_options_add_up() -> None:
    settings = session.session_settings(
        {
            "spark.ui.enabled": "true",
            "spark.driver.extraJavaOptions": "-Xmx2g",
            "millrace.spark.log.level": "warn",
            "parallelism.default": "2",
        }
    )
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"].endswith("-Xmx2g")
    assert "-Dmillrace.spark.log.level=WARN" in settings["spark.driver.extraJavaOptions"]
    assert all(key.startswith("spark.") for key in settings)


def test_cluster_gets_no_setting_that_is_meant_for_this_machine() -> None:
    settings = session.session_settings({"spark.master": "yarn"})
    assert not settings.keys() & {"spark.driver.host", "spark.python.daemon.module", "spark.pyspark.python"}
    assert not settings.keys() & session.LOCAL_CHECKPOINT_SETTINGS.keys()


def test_checkpoint_directories_are_local_without_a_scheme_or_with_file() -> None:
    assert session.has_local_checkpoints("/data/checkpoints")
    assert session.has_local_checkpoints("file:///data/checkpoints")
    assert not session.has_local_checkpoints("hdfs://name/data")
    assert not session.has_local_checkpoints("s3a://bucket/data")


@pytest.mark.spark
def test_derived_session_leaves_the_users_settings_and_shares_data(spark: SparkSession) -> None:
    user = spark.newSession()
    user.conf.set("spark.sql.adaptive.enabled", "true")
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.range(3).createOrReplaceTempView("numbers")

    derived = session.derive_session(user, session.LOCAL_CHECKPOINT_SETTINGS)

    assert derived.conf.get("spark.sql.adaptive.enabled") == "false"
    assert derived.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert user.conf.get("spark.sql.adaptive.enabled") == "true"
    union = derived.range(2).union(user.range(3)).union(derived.table("numbers"))
    assert union.mapInArrow(lambda batches: batches, "id long").count() == 8


@pytest.mark.spark
def test_second_context_is_refused_with_an_action(spark: SparkSession) -> None:
    with pytest.raises(RuntimeError, match=r"Action: derive a session"):
        session.open_session({})


@pytest.mark.spark
def test_workers_descend_from_our_daemon_and_are_warm(spark: SparkSession) -> None:
    def ask(batches):  # type: ignore[no-untyped-def]
        import gc

        import pyarrow as pa

        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        for batch in batches:
            yield pa.RecordBatch.from_pydict(
                {"frozen": [gc.get_freeze_count()] * batch.num_rows, "parent": [command] * batch.num_rows}
            )

    row = spark.range(1).mapInArrow(ask, "frozen long, parent string").first()
    assert row is not None
    assert row.frozen > 10_000
    assert "-m millrace.spark.daemon" in row.parent


@pytest.mark.spark
def test_start_failure_cancel_and_stop_print_nothing_and_leave_no_process() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r})" + NOISY_PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr.split("\n") == ["a user's line", "a user's line", ""]
    lines = done.stdout.splitlines()
    assert lines[0] == "PythonException"
    assert any("millrace.spark.daemon" in line for line in lines)
    assert lines[-1] == "left: ['java']"
