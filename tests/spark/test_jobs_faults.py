"""What goes wrong in a job on Spark, and what a person sees of it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Types, WatermarkStrategy
from millrace.common.errors import JobExecutionError, MillraceError, ShippingError
from millrace.datastream import DataStream, KeyedProcessFunction, MapFunction, ProcessFunction, RuntimeContext
from millrace.datastream.connectors import DataGeneratorSource
from millrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from tests.spark.jobs import Steps, collected, environment, note, notes_in

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("nothing_is_left")]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def failure_of(stream: DataStream) -> JobExecutionError:
    """How the program fails."""
    with pytest.raises(JobExecutionError) as caught:
        collected(stream)
    return caught.value


def line_of(function: Callable[..., Any], below: int = 1) -> str:
    """A line of a function, as errors name it."""
    return f"{__file__}:{function.__code__.co_firstlineno + below}"


# --- processes that die ------------------------------------------------------------------------------------------


class Mean(KeyedProcessFunction):
    """Everything that state can hold: emits what a key has seen, and has a timer for each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int, list[int]]]:
        self.seen.add(value)
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value(), list(self.seen.get())


@pytest.mark.parametrize("where", ["source", "keyed"])
def test_killed_worker_does_not_change_the_result(tmp_path: Path, where: str) -> None:
    def die_at(number: int, wanted: int) -> int:
        if number == wanted and not (tmp_path / str(wanted)).exists():
            (tmp_path / str(wanted)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    env = environment(2)
    numbers = env.from_source(Steps(6, 30), NO_WATERMARKS, "numbers")
    if where == "source":
        numbers = numbers.map(lambda number: die_at(number, 70)).map(lambda number: die_at(number, 71))
    means = numbers.key_by(lambda number: number % 4).process(Mean())
    if where == "keyed":
        means = means.map(lambda result: (die_at(result[2][-1], 90), result)[1])
    results = collected(means)
    assert {*map(str, (tmp_path).iterdir())} > {str(tmp_path / ("70" if where == "source" else "90"))}
    for key in range(4):
        mine = [(count, seen) for found, count, seen in results if found == key]
        numbers_of_key = list(range(key, 180, 4))
        assert mine == [(count, numbers_of_key[:count]) for count in range(1, 46)]


def test_function_that_ends_the_process_fails_the_job_with_a_clear_error(capfd: pytest.CaptureFixture[str]) -> None:
    def leave(number: int) -> int:
        os._exit(3)

    with pytest.raises(MillraceError) as caught:
        collected(environment().from_sequence(1, 10).map(leave).name("leaver"))
    message = str(caught.value)
    assert "worker" in message
    assert "Action:" in message
    assert "org.apache" not in message
    assert capfd.readouterr().err == ""


# --- exceptions --------------------------------------------------------------------------------------------------


def fail_on_seven(number: int) -> float:
    return 1 / (number - 7)


def test_exception_fails_the_job_once_and_names_all_that_helps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(number: int) -> float:
        note(tmp_path / "calls", str(number)) if number == 7 else None
        return fail_on_seven(number)

    began = time.monotonic()
    stream = environment().from_sequence(1, 10).key_by(lambda number: number).map(fail).name("divider")
    error = failure_of(stream)
    assert time.monotonic() - began < 10
    assert notes_in(tmp_path / "calls") == ["7"]
    assert error.operator_name == "divider"
    assert error.function_name == fail.__qualname__
    assert error.record_repr == "7"
    assert error.location == line_of(fail_on_seven)
    assert str(error).splitlines() == [
        "[MR-2001] ZeroDivisionError: division by zero",
        "  operator: divider",
        f"  function: {fail.__qualname__}",
        f"  at: {line_of(fail_on_seven)}",
        "  record: 7",
        "Traceback (most recent call last):",
        f'  File "{__file__}", line {fail.__code__.co_firstlineno + 2}, in fail',
        "    return fail_on_seven(number)",
        "           ^^^^^^^^^^^^^^^^^^^^^",
        f'  File "{__file__}", line {fail_on_seven.__code__.co_firstlineno + 1}, in fail_on_seven',
        "    return 1 / (number - 7)",
        "           ~~^~~~~~~~~~~~~~",
        "ZeroDivisionError: division by zero",
    ]
    assert error.__cause__ is None
    assert capfd.readouterr() == ("", "")


def test_exception_in_a_process_function_a_timer_and_a_key_selector() -> None:
    class Late(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            raise LookupError("too late")

    env = environment()
    error = failure_of(env.from_sequence(1, 3).key_by(lambda number: number).process(Late()).name("timers"))
    assert (error.operator_name, error.location) == ("timers", line_of(Late.on_timer))
    assert "LookupError: too late" in str(error)

    def key(number: int) -> int:
        raise LookupError("no key")

    error = failure_of(environment().from_sequence(1, 3).key_by(key).process(Late()).name("keyless"))
    assert error.location == line_of(key)
    assert "LookupError: no key" in str(error)


def test_exception_in_a_generator_function_of_a_source() -> None:
    def make(index: int) -> int:
        raise LookupError(f"no record {index}")

    source = DataGeneratorSource(make, count=3)
    error = failure_of(environment(1).from_source(source, NO_WATERMARKS, "records"))
    assert error.location == line_of(make)
    assert "no record 0" in str(error)


@pytest.mark.parametrize(
    "leave", [lambda: next(iter(())), lambda: sys.exit(4), lambda: exec("raise KeyboardInterrupt")]
)
@pytest.mark.parametrize("keyed", [False, True])
def test_exceptions_that_python_treats_specially_fail_the_job(leave: Callable[[], Any], keyed: bool) -> None:
    def fail(number: int) -> int:
        if number == 5:
            leave()
        return number

    class Fail(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            return [fail(value)]

    numbers = environment().from_sequence(1, 10)
    stream = numbers.key_by(lambda number: 0).process(Fail()) if keyed else numbers.map(fail)
    error = failure_of(stream.name("special"))
    assert error.operator_name == "special"
    assert any(kind in str(error) for kind in ("StopIteration", "SystemExit: 4", "KeyboardInterrupt"))


def test_exception_in_open() -> None:
    class Opens(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("the database is gone")

        def map(self, value: int) -> int:
            return value

    error = failure_of(environment().from_sequence(1, 10).map(Opens()).name("opener"))
    assert error.operator_name == "opener"
    assert error.location == line_of(Opens.open)
    assert "OSError: the database is gone" in str(error)


def test_exception_in_close() -> None:
    class Closes(MapFunction):
        def close(self) -> None:
            raise OSError("the database is gone")

        def map(self, value: int) -> int:
            return value

    error = failure_of(environment(1).from_sequence(1, 10).map(Closes()).name("closer"))
    assert "closer" in str(error)
    assert "OSError: the database is gone" in str(error)
    assert "millrace" not in (error.traceback_text or "")


def test_exception_in_close_does_not_hide_the_one_before() -> None:
    class Both(MapFunction):
        def close(self) -> None:
            raise OSError("the database is gone")

        def map(self, value: int) -> int:
            raise ValueError("the first error")

    assert "ValueError: the first error" in str(failure_of(environment().from_sequence(1, 10).map(Both())))


# --- what cannot travel ------------------------------------------------------------------------------------------


def test_function_that_cannot_be_pickled_is_named_before_the_job_starts(job_directories: Path) -> None:
    lock = threading.Lock()

    def locked(number: int) -> int:
        with lock:
            return number

    stream = environment().from_sequence(1, 10).map(locked).name("locker")
    with pytest.raises(ShippingError) as caught:
        collected(stream)
    assert "'locker'" in str(caught.value)
    assert "variable 'lock'" in str(caught.value)
    assert list(job_directories.iterdir()) == []


def test_record_that_cannot_be_pickled() -> None:
    numbers = environment().from_sequence(1, 10)
    locks = numbers.map(lambda number: threading.Lock()).name("lock maker")
    error = failure_of(locks.rebalance().map(lambda lock: 1))
    assert "lock" in str(error)
    assert error.operator_name is not None
    assert "lock maker" in error.operator_name


def test_record_that_cannot_be_collected() -> None:
    error = failure_of(environment().from_sequence(1, 10).map(lambda number: threading.Lock()).name("lock maker"))
    assert "lock" in str(error)


def test_keys_without_a_stable_hash() -> None:
    class Thing:
        pass

    for make, what in ((lambda number: [number], "list"), (lambda number: Thing(), "Thing")):
        error = failure_of(environment().from_sequence(1, 10).key_by(make).reduce(lambda one, two: one).name("joined"))
        assert what in str(error)
        assert "MR-1003" in str(error)
        assert error.record_repr in {"1", "2"}  # the first record of one of the two subtasks


def test_value_of_the_wrong_type_names_operator_field_and_value() -> None:
    kind = Types.ROW_NAMED(["name", "score"], [Types.STRING(), Types.INT()])
    from millrace.common import Row

    rows = environment().from_sequence(1, 3).map(lambda n: Row(name="a", score="many"), kind).name("scorer")
    error = failure_of(rows)
    assert error.operator_name == "scorer"
    assert "field 'score'" in str(error)
    assert "'many'" in str(error)


# --- the program's modules ---------------------------------------------------------------------------------------


def test_state_without_a_key() -> None:
    class Keyless(ProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))

        def process_element(self, value: int, ctx: Any) -> None:
            """Nothing."""

    error = failure_of(environment().from_sequence(1, 3).process(Keyless()).name("keyless"))
    assert error.operator_name == "keyless"
    assert "key_by" in str(error)


def test_job_after_a_failed_one() -> None:
    assert "division" in str(failure_of(environment().from_sequence(1, 10).map(fail_on_seven)))
    assert sorted(collected(environment().from_sequence(1, 3).map(lambda number: number))) == [1, 2, 3]
