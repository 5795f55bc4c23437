"""The pytest plugin: installed with Millrace, it gives two fixtures to every test.

    def test_doubles(millrace_harness):
        harness = millrace_harness(OneInputHarness, lambda value: value * 2)
        harness.push(2)
        assert harness.output == [4]

    def test_whole_program(millrace_env):
        numbers = millrace_env.from_collection([1, 2, 3])
        assert numbers.map(lambda number: number + 1).execute_and_collect(limit=10) == [2, 3, 4]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

# Loaded by every run of pytest where Millrace is installed: what is heavy waits until a test asks for it.
if TYPE_CHECKING:
    from millrace.datastream import StreamExecutionEnvironment
    from millrace.testing.harness import Harness


@pytest.fixture
def millrace_harness() -> Iterator[Callable[..., Harness]]:
    """Makes harnesses that are open: `millrace_harness(KeyedOneInputHarness, MyFunction(), key_selector=...)`.

    The end of the test ends their epochs and closes them, the last one first; if that fails, so does the test.
    """
    opened: list[Harness] = []

    def make(kind: type[Harness], *args: Any, **options: Any) -> Harness:
        harness = kind(*args, **options)
        harness.__enter__()
        opened.append(harness)
        return harness

    yield make
    errors: list[BaseException] = []
    while opened:
        try:
            opened.pop().__exit__(None, None, None)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.fixture
def millrace_env() -> Iterator[StreamExecutionEnvironment]:
    """An environment whose jobs run in this process, without Spark, with two subtasks for each operator."""
    from millrace.datastream import StreamExecutionEnvironment
    from millrace.testing.in_process import InProcessExecutor

    with StreamExecutionEnvironment.create_with_executor(InProcessExecutor()) as env:
        yield env.set_parallelism(2)
