"""Jobs in a session that the user hands in, on this machine's cores and on a cluster of two executor processes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import millrace
from millrace.common import Row, WatermarkStrategy
from millrace.common.errors import JobExecutionError
from millrace.datastream.connectors import DataGeneratorSource
from tests.spark.jobs import collected, environment, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SOURCE = str(Path(millrace.__file__).parents[1])


@pytest.fixture
def user(spark: SparkSession, job_directories: Path) -> Iterator[SparkSession]:
    """A session with settings of its own, which must be there unchanged when the jobs are done."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", "7")
    before = session.conf.getAll
    yield session
    assert session.conf.getAll == before
    assert session.range(10).repartition(3).mapInArrow(lambda batches: batches, "id long").count() == 10
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    eventually(lambda: not [thread for thread in threading.enumerate() if "millrace" in thread.name], 2)
    assert list(job_directories.iterdir()) == []


def test_data_frame_comes_as_rows_with_the_names_of_its_columns(user: SparkSession) -> None:
    frame = user.sql(
        "select 7 number, 'text' text, 1.5D ratio, true flag, date'2024-02-29' day, 12.50 price, array(1, 2) items, "
        "timestamp'2024-02-29 12:30:00Z' moment, timestamp_ntz'2024-02-29 12:30:00' local, "
        "map('a', 1L) counts, named_struct('x', 1, 'y', 'z') inner, cast(null as string) missing, "
        "binary('ab') bytes, 8 `a name with dots. and spaces`"
    )
    (row,) = collected(environment(spark=user).from_data_frame(frame).map(lambda row: row))
    assert isinstance(row, Row)
    assert row.as_dict() == {
        "number": 7,
        "text": "text",
        "ratio": 1.5,
        "flag": True,
        "day": date(2024, 2, 29),
        "price": Decimal("12.50"),
        "items": [1, 2],
        "moment": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "local": datetime.fromisoformat("2024-02-29T12:30"),
        "counts": {"a": 1},
        "inner": Row(x=1, y="z"),
        "missing": None,
        "bytes": b"ab",
        "a name with dots. and spaces": 8,
    }


def test_data_frame_with_many_partitions_through_a_keyed_program(user: SparkSession) -> None:
    frame = user.range(0, 20_000, 1, 5).selectExpr("id", "id % 13 as remainder").repartition(9)
    rows = environment(3, spark=user).from_data_frame(frame)
    sums = rows.key_by("remainder").reduce(lambda one, two: Row(id=one.id + two.id, remainder=one.remainder))
    totals: dict[int, int] = {}
    for row in collected(sums):
        totals[row.remainder] = max(row.id, totals.get(row.remainder, 0))
    assert totals == {remainder: sum(range(remainder, 20_000, 13)) for remainder in range(13)}


@pytest.mark.parametrize("query", ["select id from range(0)", "select 1 id where false", "select 1 id limit 0"])
def test_empty_data_frame_beside_a_collection(user: SparkSession, query: str) -> None:
    env = environment(spark=user)
    nothing = env.from_data_frame(user.sql(query)).map(lambda row: row.id)
    assert sorted(collected(nothing.union(env.from_collection([1, 2])).map(lambda number: number))) == [1, 2]


def test_temporary_view_and_function_of_the_user(user: SparkSession) -> None:
    user.udf.register("twice", lambda number: 2 * number, "long")
    user.range(3).createOrReplaceTempView("numbers")
    rows = environment(spark=user).from_data_frame(user.sql("select twice(id) as twice from numbers"))
    assert sorted(collected(rows.map(lambda row: row.twice))) == [0, 2, 4]


def test_failure_and_cancelling_leave_the_session_usable(user: SparkSession) -> None:
    with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        collected(environment(spark=user).from_sequence(0, 3).map(lambda number: 1 // number))
    source = DataGeneratorSource(lambda index: index, records_per_second=100)
    endless = environment(spark=user).from_source(source, WatermarkStrategy.no_watermarks(), "endless")
    assert endless.map(lambda number: number).execute_and_collect(limit=3) == [0, 1, 2]


def test_error_in_the_users_data_frame_is_told_in_a_few_lines(user: SparkSession) -> None:
    frame = user.sql("select assert_true(false, 'what the user says') from range(1)")
    with pytest.raises(Exception, match="what the user says") as caught:
        collected(environment(spark=user).from_data_frame(frame).map(lambda row: row))
    assert len(str(caught.value).splitlines()) < 8


# --- a cluster ---------------------------------------------------------------------------------------------------

CLUSTER_PROGRAM = """
import json, os, signal, sys, tempfile, time
from pathlib import Path

here = Path(sys.argv[1])
os.environ["PYSPARK_PYTHON"] = sys.executable
tempfile.tempdir = str(here)  # a directory that the driver and all executors see
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")

from millrace.common import WatermarkStrategy
from millrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millrace.datastream.state import ListStateDescriptor
from tests.spark.jobs import Steps, note

def where():
    return f"{os.getppid()} {os.getpid()}"

class Sums(KeyedProcessFunction):
    def open(self, runtime_context):
        self.me = f"{id(self)} {runtime_context.get_index_of_this_subtask()}"
        note(here / "notes", f"open {where()} {self.me}")
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value, ctx):
        if value == die_at and not (here / "died").exists():
            (here / "died").write_text(where())
            executor = os.getppid()
            with open(f"/proc/{executor}/status") as status:  # our parent is pyspark's daemon, its parent the executor
                parent = next(int(line.split()[1]) for line in status if line.startswith("PPid"))
            os.kill(parent, signal.SIGKILL)
            time.sleep(60)
        self.seen.add(value)
        yield ctx.get_current_key(), sum(self.seen.get())

    def close(self):
        note(here / "notes", f"close {where()} {self.me}")

def run(epochs):
    env = StreamExecutionEnvironment.get_execution_environment(spark=spark)
    env.set_parallelism(2)
    numbers = env.from_source(Steps(epochs, 40), WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.map(lambda number: number + 1).key_by(lambda number: number % 5)
    return list(keyed.process(Sums()).execute_and_collect())

results = {}
die_at = None
results["quiet"] = run(4)
results["notes"] = (here / "notes").read_text().splitlines()
die_at = 90
try:
    results["killed"] = run(4)
except Exception as error:
    results["error"] = str(error)
results["after"] = spark.range(10).count()
(here / "results.json").write_text(json.dumps(results))
spark.stop()
"""


def running_sums(count: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number in range(1, count + 1):
        sums = found.setdefault(number % 5, [])
        sums.append((sums[-1] if sums else 0) + number)
    return found


def by_key(results: list[Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key, value in results:
        found.setdefault(key, []).append(value)
    return found


def test_two_executor_processes_of_which_one_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(CLUSTER_PROGRAM))
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{SOURCE}:{root}"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert by_key(results["quiet"]) == running_sums(160)
    opened, closed = (
        Counter(line.split(maxsplit=1)[1] for line in results["notes"] if line.startswith(what))
        for what in ("open", "close")
    )
    assert closed == opened
    assert set(opened.values()) == {1}
    assert len({process.split()[0] for process in opened}) == 2  # two daemons: one of each executor
    assert (tmp_path / "died").exists()
    assert by_key(results["killed"]) == running_sums(160), results.get("error")
    assert results["after"] == 10
