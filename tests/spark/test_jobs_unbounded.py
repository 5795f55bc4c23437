"""Programs that never end: epochs come from Structured Streaming until the job is cancelled."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from millrace.common import Duration, JobStatus, Types, WatermarkStrategy
from millrace.common.errors import JobCancelledError, JobExecutionError
from millrace.common.watermark_strategy import TimestampAssigner
from millrace.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from millrace.datastream.connectors import DataGeneratorSource
from millrace.datastream.state import ValueStateDescriptor
from tests.spark.jobs import environment, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def first(stream: DataStream, count: int) -> list[Any]:
    """The first records of a program without end, which is then cancelled."""
    return stream.execute_and_collect(limit=count)


def test_state_is_carried_from_epoch_to_epoch() -> None:
    class RunningSum(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
            self.total.update((self.total.value() or 0) + value)
            yield ctx.get_current_key(), self.total.value(), ctx.current_processing_time()

    source = DataGeneratorSource(lambda index: index, records_per_second=200)
    numbers = environment().from_source(source, NO_WATERMARKS, "numbers")
    results = []
    with numbers.key_by(lambda number: number % 3).process(RunningSum()).execute_and_collect() as records:
        while len({now for _, _, now in results}) < 4:
            results.append(next(records))
    for key in range(3):
        sums = [total for found, total, _ in results if found == key]
        assert sums == [sum(range(key, key + 3 * count + 1, 3)) for count in range(len(sums))]


def test_source_without_a_rate_and_without_an_end() -> None:
    source = DataGeneratorSource(lambda index: index)
    numbers = environment().from_source(source, NO_WATERMARKS, "numbers")
    few = numbers.filter(lambda number: number % 500_000 == 0)
    assert first(few, 5) == [0, 500_000, 1_000_000, 1_500_000, 2_000_000]


def test_processing_time_timers_of_idle_keys_fire_when_no_data_comes() -> None:
    class Alarm(KeyedProcessFunction):
        """Fires three times, 0.2 s apart, though only one record ever comes."""

        def process_element(self, value: str, ctx: Any) -> None:
            self._again(ctx)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int, int]]:
            yield ctx.get_current_key(), timestamp, ctx.current_processing_time()
            self._again(ctx)

        def _again(self, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(ctx.current_processing_time() + 200)

    env = environment()
    silent = DataGeneratorSource(lambda index: "never", records_per_second=0.001)
    stream = env.from_source(silent, NO_WATERMARKS, "silent").union(env.from_collection(["a", "b", "c"]))
    fired = first(stream.key_by(lambda key: key).process(Alarm()), 9)
    assert sorted(key for key, _, _ in fired) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert all(timer <= now for _, timer, now in fired)
    assert [timer for _, timer, _ in fired] == sorted(timer for _, timer, _ in fired)
    assert len({(key, timer) for key, timer, _ in fired}) == 9


class OwnTime(TimestampAssigner):
    """A record is its own timestamp."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class OnEventTime(KeyedProcessFunction):
    """Emits a record once event time has passed it by a hundred."""

    def process_element(self, value: int, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
        yield timestamp - 100


def test_idle_source_does_not_hold_back_event_time() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
    patient = strategy.with_idleness(Duration.of_millis(300))
    env = environment()
    silent = DataGeneratorSource(lambda index: index, records_per_second=0.001)
    busy = DataGeneratorSource(lambda index: index * 10, records_per_second=50)
    one = env.from_source(silent, patient, "silent")
    two = env.from_source(busy, strategy, "busy").set_parallelism(1)
    fired = first(one.union(two).key_by(lambda number: 0).process(OnEventTime()), 20)
    assert fired == list(range(0, 200, 10))


def test_silent_source_without_idleness_holds_back_event_time() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
    env = environment()
    silent = DataGeneratorSource(lambda index: index, records_per_second=0.001)
    busy = DataGeneratorSource(lambda index: index * 10, records_per_second=50)
    united = env.from_source(silent, strategy, "silent").union(env.from_source(busy, strategy, "busy"))
    late = united.key_by(lambda number: 0).process(OnEventTime()).map(lambda number: ("fired", number))
    records = env.from_source(busy, strategy, "clock").map(lambda number: ("record", number))
    assert {kind for kind, _ in first(late.union(records), 60)} == {"record"}


def test_bounded_and_unbounded_sources_in_one_program() -> None:
    env = environment()
    source = DataGeneratorSource(lambda index: index, records_per_second=100)
    endless = env.from_source(source, NO_WATERMARKS, "endless")
    ending = env.from_collection(list(range(-5, 0)))
    results = first(endless.union(ending).map(lambda number: number), 40)
    assert len(set(results)) == len(results) == 40
    assert {number for number in results if number < 0} == set(range(-5, 0))


def test_streaming_data_frame_of_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"name": "a", "my number": 1}\n{"name": "b", "my number": 2}\n')
    frame = spark.readStream.schema("name string, `my number` long").json(str(folder))
    pairs = environment().from_data_frame(frame).map(lambda row: (row.name, row["my number"]))
    with pairs.execute_and_collect() as results:
        assert sorted([next(results), next(results)]) == [("a", 1), ("b", 2)]
        (folder / "2.json").write_text('{"name": "c", "my number": 3}\n')
        assert next(results) == ("c", 3)


def test_two_streaming_data_frames_and_a_table(spark: SparkSession) -> None:
    env = environment()
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    one = env.from_data_frame(rate).map(lambda row: ("one", row.value))
    two = env.from_data_frame(rate.selectExpr("value * 2 as double")).map(lambda row: ("two", row.double))
    table = env.from_data_frame(spark.range(3)).map(lambda row: ("table", row.id))
    found = first(one.union(two, table).key_by(0).map(lambda record: record), 63)
    assert sorted(value for name, value in found if name == "table") == [0, 1, 2]
    for name, step in (("one", 1), ("two", 2)):
        values = sorted(value for found_name, value in found if found_name == name)
        assert values[:20] == list(range(0, 20 * step, step))


def test_socket_text_stream() -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for line in ("to be", "or not", "to be"):
                connection.sendall(f"{line}\n".encode())
            stop.wait(30)

    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        lines = environment().socket_text_stream("127.0.0.1", listener.getsockname()[1])
        words = lines.flat_map(str.split).map(lambda word: (word, 1)).key_by(0).sum(1)
        found = first(words, 6)
        stop.set()
        thread.join()
    assert sorted(found) == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]


def test_cancelling_from_another_thread_takes_less_than_five_seconds() -> None:
    env = environment()
    source = DataGeneratorSource(lambda index: index, records_per_second=100)
    numbers = env.from_source(source, NO_WATERMARKS, "numbers")
    pending = numbers.key_by(lambda number: number % 2).map(lambda number: number).collect_async()
    client = env.execute_async("endless")
    results = pending.results(client)
    next(results)
    assert client.get_job_status().result() == JobStatus.RUNNING
    began = time.monotonic()
    client.cancel().result()
    assert time.monotonic() - began < 5
    assert client.get_job_status().result() == JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    with pytest.raises(JobCancelledError):
        list(results)


def test_cancelling_interrupts_a_function_that_sleeps(tmp_path: Path) -> None:
    def sleep(number: int) -> int:
        (tmp_path / "sleeping").touch()
        time.sleep(60)
        return number

    env = environment()
    source = DataGeneratorSource(lambda index: index, records_per_second=100)
    numbers = env.from_source(source, NO_WATERMARKS, "numbers")
    numbers.map(sleep).print()
    client = env.execute_async("sleeping")
    eventually((tmp_path / "sleeping").exists, 30)
    began = time.monotonic()
    client.cancel().result()
    assert time.monotonic() - began < 5


def test_cancelling_before_the_first_epoch() -> None:
    env = environment()
    env.from_source(DataGeneratorSource(lambda index: index, records_per_second=9), NO_WATERMARKS, "numbers").print()
    client = env.execute_async("hasty")
    client.cancel().result()
    assert client.get_job_status().result() == JobStatus.CANCELED


def test_failing_function_ends_the_job_with_its_error(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail_late(number: int) -> int:
        if number == 120:
            raise ValueError("a hundred and twenty is too many")
        return number

    env = environment()
    source = DataGeneratorSource(lambda index: index, records_per_second=100)
    numbers = env.from_source(source, NO_WATERMARKS, "numbers").key_by(lambda number: number % 2)
    numbers.map(fail_late).name("picky").filter(lambda number: False).print()
    with pytest.raises(JobExecutionError) as caught:
        env.execute("failing")
    error = caught.value
    assert error.operator_name == "picky"
    assert error.record_repr == "120"
    assert error.location is not None
    assert error.location.startswith(f"{__file__}:")
    assert "a hundred and twenty is too many" in str(error)
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""
