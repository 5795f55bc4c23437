"""Checkpoints, restarts and savepoints on Spark: processes are killed for real, and no record is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import millrace
from millrace.common import Configuration, RestartStrategies, Types, WatermarkStrategy
from millrace.common.job_status import JobStatus
from millrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millrace.datastream.connectors import DataGeneratorSource, TextFileSink
from millrace.datastream.state import ValueStateDescriptor
from millrace.queryable_state import QueryableStateClient, UnknownKeyError, UnknownStateNameError
from tests.spark.jobs import Steps, environment, eventually, worker_processes

pytestmark = pytest.mark.spark

SOURCE = str(Path(millrace.__file__).parents[1])
SEED = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 30)))
KEYS = 7


class RunningSum(KeyedProcessFunction):
    """Emits `key count sum`: what it emits twice, or leaves out, shows."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count, total = (self.count.value() or 0) + 1, (self.sum.value() or 0) + value
        self.count.update(count)
        self.sum.update(total)
        yield f"{ctx.get_current_key()} {count} {total}"


def expected(records: int) -> list[str]:
    sums: dict[int, tuple[int, int]] = {}
    lines = []
    for number in range(records):
        count, total = sums.get(number % KEYS, (0, 0))
        sums[number % KEYS] = count + 1, total + number
        lines.append(f"{number % KEYS} {count + 1} {total + number}")
    return sorted(lines)


def written(directory: Path) -> list[str]:
    files = list(directory.glob("part-*")) if directory.is_dir() else []
    return sorted(line for path in files for line in path.read_text().splitlines())


def durable(directory: Path, parallelism: int = 2, interval: int = 10) -> StreamExecutionEnvironment:
    env = environment(parallelism)
    env.enable_checkpointing(interval)
    env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))
    return env.set_restart_strategy(RestartStrategies.fixed_delay_restart(30, 10))


def sum_into(env: StreamExecutionEnvironment, source: Any, directory: Path) -> None:
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.key_by(lambda number: number % KEYS).process(RunningSum(), Types.STRING()).uid("sums")
    sums.sink_to(TextFileSink(str(directory / "out"))).uid("out")


@pytest.mark.usefixtures("nothing_is_left")
def test_a_function_that_fails_now_and_then_restarts_from_the_checkpoint(tmp_path: Path) -> None:
    env = durable(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()

    def fails_once_at_each_hundred(number: int) -> int:
        if number % 100 == 99 and not (marks / str(number)).exists():
            (marks / str(number)).touch()
            raise RuntimeError(f"{number} is not liked")
        return number

    numbers = env.from_source(Steps(20, 25), WatermarkStrategy.no_watermarks(), "numbers")
    checked = numbers.map(fails_once_at_each_hundred)
    sums = checked.key_by(lambda number: number % KEYS).process(RunningSum(), Types.STRING())
    sums.sink_to(TextFileSink(str(tmp_path / "out")))
    client = env.execute_async("restarts")
    client.get_job_execution_result().result()
    restarts = client.get_restarts().result()
    assert [restart.number for restart in restarts] == [1, 2, 3, 4, 5]
    assert "99 is not liked" in restarts[0].cause
    assert written(tmp_path / "out") == expected(500)


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_python_workers_are_killed_again_and_again(tmp_path: Path, backend: str) -> None:
    draw = random.Random(SEED)
    env = durable(tmp_path)
    env.configure(Configuration.from_dict({"state.backend.type": backend}))
    sum_into(env, DataGeneratorSource(lambda index: index, records_per_second=300), tmp_path)
    client = env.execute_async("workers die")
    killed = 0
    while killed < 14:
        time.sleep(draw.uniform(0.05, 0.25))
        for worker in draw.sample(workers := worker_processes(), min(1, len(workers))):
            worker.kill()
            killed += 1
    before = len(written(tmp_path / "out"))
    eventually(lambda: len(written(tmp_path / "out")) > before, 60)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    lines = written(tmp_path / "out")
    assert lines == expected(len(lines)), f"MILLRACE_SEED={SEED}"


@pytest.mark.usefixtures("nothing_is_left")
def test_stop_with_a_savepoint_and_go_on_with_another_parallelism(tmp_path: Path) -> None:
    """An unbounded job: the savepoint takes the place of what Spark logs of offsets."""
    source = DataGeneratorSource(lambda index: index, records_per_second=200)
    savepoint = None
    for parallelism in (2, 4, 1):
        env = durable(tmp_path, parallelism, interval=200)
        if savepoint is not None:
            env._configuration.set_string("execution.state-recovery.path", savepoint)
        sum_into(env, source, tmp_path)
        client = env.execute_async("saved")
        before = len(written(tmp_path / "out"))
        eventually(lambda before=before: len(written(tmp_path / "out")) > before + 100, 30)
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        client.get_job_execution_result().result()
        assert client.get_job_status().result() is JobStatus.FINISHED
        lines = written(tmp_path / "out")
        assert lines == expected(len(lines))


@pytest.mark.usefixtures("nothing_is_left")
def test_a_savepoint_of_a_running_job_disturbs_nothing(tmp_path: Path) -> None:
    env = durable(tmp_path, interval=100)
    sum_into(env, DataGeneratorSource(lambda index: index, records_per_second=200), tmp_path)
    client = env.execute_async("goes on")
    eventually(lambda: written(tmp_path / "out"), 30)
    paths = [client.trigger_savepoint(str(tmp_path / "savepoints")).result() for _ in range(2)]
    at = len(written(tmp_path / "out"))
    eventually(lambda: len(written(tmp_path / "out")) > at, 30)
    client.cancel().result()
    assert all((Path(path) / "manifests").is_dir() for path in paths)
    lines = written(tmp_path / "out")
    assert lines == expected(len(lines))


@pytest.mark.usefixtures("nothing_is_left")
def test_files_that_spark_streams_are_read_once_across_a_savepoint(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()

    def feed(name: str, start: int) -> None:
        partial = tmp_path / f"{name}.partial"
        partial.write_text("".join(f"{number}\n" for number in range(start, start + 50)))
        partial.rename(tmp_path / "in" / name)

    savepoint = None
    for round_ in range(3):
        feed(f"{round_}.txt", round_ * 50)
        env = durable(tmp_path, 2, interval=50)
        if savepoint is not None:
            env._configuration.set_string("execution.state-recovery.path", savepoint)
        frame = spark.readStream.format("text").load(str(tmp_path / "in"))
        numbers = env.from_data_frame(frame).uid("files").map(lambda row: int(row[0]), Types.LONG())
        sums = numbers.key_by(lambda number: number % KEYS).process(RunningSum(), Types.STRING()).uid("sums")
        sums.sink_to(TextFileSink(str(tmp_path / "out"))).uid("out")
        client = env.execute_async("files")
        wanted = (round_ + 1) * 50
        eventually(lambda wanted=wanted: len(written(tmp_path / "out")) >= wanted, 30)
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        client.get_job_execution_result().result()
    assert len(written(tmp_path / "out")) == 150
    totals = {line.split()[0]: int(line.split()[2]) for line in written(tmp_path / "out") if line.split()[1] == "21"}
    assert totals == {str(key): sum(range(key, 147, KEYS)) for key in range(KEYS)}


class QueryableSum(RunningSum):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        total = ValueStateDescriptor("total", Types.LONG())
        total.set_queryable("totals")
        self.total = runtime_context.get_state(total)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.total.update((self.total.value() or 0) + value)
        yield from super().process_element(value, ctx)


@pytest.mark.usefixtures("nothing_is_left")
def test_running_state_answers_queries_from_the_last_checkpoint(tmp_path: Path) -> None:
    env = durable(tmp_path, interval=100)
    env.configure(Configuration.from_dict({"queryable-state.enable": True}))
    source = DataGeneratorSource(lambda index: index, records_per_second=200)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.key_by(lambda number: number % KEYS, Types.LONG()).process(QueryableSum(), Types.STRING())
    sums.sink_to(TextFileSink(str(tmp_path / "out")))
    job = env.execute_async("queried")
    eventually(lambda: len(written(tmp_path / "out")) > 100, 30)
    host, port, token = job.get_queryable_state_address()
    with QueryableStateClient(host, port, token=token) as client:
        job_id = job.get_job_id().to_hex_string()
        answers = [client.get_kv_state(job_id, "totals", key, Types.LONG()).result() for key in range(KEYS)]
        with pytest.raises(UnknownKeyError):
            client.get_kv_state(job_id, "totals", KEYS, Types.LONG()).result()
        with pytest.raises(UnknownStateNameError):
            client.get_kv_state(job_id, "sums", 0, Types.LONG()).result()
    job.cancel().result()
    for key, answer in enumerate(answers):
        counted = {int(line.split()[2]) for line in expected(20_000) if line.startswith(f"{key} ")}
        assert answer in counted


PROGRAM = """
    import sys, time
    from pathlib import Path
    from millrace.common import Configuration, Types, WatermarkStrategy
    from millrace.datastream import StreamExecutionEnvironment
    from millrace.datastream.connectors import TextFileSink
    from tests.spark.jobs import Steps
    from tests.spark.test_jobs_recovery import KEYS, RunningSum

    directory, master, epochs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    configuration = Configuration().set_string("spark.master", master)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    env.enable_checkpointing(int(sys.argv[4]))
    env.get_checkpoint_config().set_checkpoint_storage(str(directory / "checkpoints"))

    def slowly(number):
        if number % 10 == 0:
            time.sleep(0.02)
        return number

    numbers = env.from_source(Steps(epochs, 50), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.map(slowly).key_by(lambda number: number % KEYS).process(RunningSum(), Types.STRING()).uid("sums")
    sums.sink_to(TextFileSink(str(directory / "out"))).uid("out")
    env.execute("killed")
"""


_STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """What a test that failed has left running, and its pipes."""
    yield
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            kill_all(process)


def start(directory: Path, epochs: int, master: str = "local[2]", interval: int = 10) -> subprocess.Popen[bytes]:
    (directory / "tmp").mkdir(exist_ok=True)
    script = directory / "job.py"
    script.write_text(textwrap.dedent(PROGRAM))
    root = str(Path(__file__).parents[2])
    with (directory / "err").open("ab") as err:
        process = subprocess.Popen(
            [sys.executable, str(script), str(directory), master, str(epochs), str(interval)],
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{root}", "TMPDIR": str(directory / "tmp")},
            stderr=err,
            start_new_session=True,
        )
    _STARTED.append(process)
    return process


def executors_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it may end while we look
            if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                found.append(child)
    return found


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """The driver, its JVM and its workers at once, as a machine that loses power."""
    family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for member in family:
        try:
            member.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(family, 10)


@pytest.mark.slow
@pytest.mark.usefixtures("no_process_is_left")
def test_a_driver_that_is_killed_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    for _ in range(5):
        before = len(written(tmp_path / "out"))
        process = start(tmp_path, 80, interval=draw.choice([10, 300]))
        eventually(lambda before=before, process=process: (
            len(written(tmp_path / "out")) > before or process.poll() is not None
        ), 60)
        time.sleep(draw.uniform(0.0, 0.6))
        assert process.poll() is None, (tmp_path / "err").read_text()
        kill_all(process)
    process = start(tmp_path, 80)
    assert process.wait(120) == 0, (tmp_path / "err").read_text()
    assert (tmp_path / "err").read_text().count("goes on from checkpoint") == 5
    assert written(tmp_path / "out") == expected(4000), f"MILLRACE_SEED={SEED}"
    assert not list((tmp_path / "checkpoints" / "jobs").glob("*.json"))


@pytest.mark.slow
@pytest.mark.usefixtures("no_process_is_left")
def test_executors_of_a_cluster_are_killed(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    process = start(tmp_path, 60, "local-cluster[2,1,1024]")
    for _ in range(3):
        before = len(written(tmp_path / "out"))
        eventually(lambda before=before: len(written(tmp_path / "out")) > before + 100, 90)
        draw.choice(executors_of(process)).kill()
    assert process.wait(180) == 0, (tmp_path / "err").read_text()
    assert written(tmp_path / "out") == expected(3000), f"MILLRACE_SEED={SEED}"


def test_two_copies_of_a_program_share_a_checkpoint_directory_and_stay_apart(tmp_path: Path) -> None:
    """The second one finds the first one alive, and begins anew."""
    clients, outs = [], [tmp_path / "a", tmp_path / "b"]
    for out in outs:
        out.mkdir()
        env = durable(tmp_path, 1)
        sum_into(env, Steps(10, 20), out)
        clients.append(env.execute_async("copies"))
    threads = [threading.Thread(target=client.get_job_execution_result().result) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [written(out / "out") for out in outs] == [expected(200)] * 2
