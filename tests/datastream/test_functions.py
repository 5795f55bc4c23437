"""The base classes that functions are made from."""

import asyncio
import inspect

import pytest

from millrace.datastream import functions
from millrace.datastream.functions import (
    AsyncFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RichMapFunction,
)
from millrace.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from millrace.datastream.timerservice import TimerService
from millrace.datastream.window import CountWindow, GlobalWindow, TimeWindow, TriggerResult
from millrace.runtime.contexts import ElementContext, KeyedTimerService
from millrace.runtime.operators.broadcast import BroadcastContext


def test_a_function_without_its_method_cannot_be_made() -> None:
    for name in set(functions.__all__) - {"Function", "BaseBroadcastProcessFunction"}:
        found = getattr(functions, name)
        if inspect.isclass(found) and name.endswith("Function"):
            with pytest.raises(TypeError, match="abstract"):
                found()


def test_rich_functions_are_the_functions() -> None:
    assert RichMapFunction is MapFunction


def test_the_runtimes_contexts_are_what_the_annotations_name() -> None:
    assert issubclass(ElementContext, ProcessFunction.Context)
    assert issubclass(ElementContext, KeyedProcessFunction.OnTimerContext)
    assert issubclass(BroadcastContext, KeyedBroadcastProcessFunction.ReadOnlyContext)
    assert issubclass(KeyedTimerService, TimerService)
    for declared, real in (
        (KeyedProcessFunction.OnTimerContext, ElementContext),
        (KeyedBroadcastProcessFunction.Context, BroadcastContext),
        (KeyedBroadcastProcessFunction.OnTimerContext, BroadcastContext),
    ):
        assert [name for name in dir(declared) if not name.startswith("_") and not hasattr(real, name)] == []


def test_an_asynchronous_function_fails_when_the_answer_is_late() -> None:
    class Ask(AsyncFunction[str, str]):
        async def async_invoke(self, value: str) -> list[str]:
            return [value]

    assert asyncio.run(Ask().async_invoke("x")) == ["x"]
    with pytest.raises(TimeoutError):
        Ask().timeout("x")


def test_windows_that_overlap_are_merged() -> None:
    merged: list[tuple[TimeWindow, list[TimeWindow]]] = []
    windows = [TimeWindow(20, 30), TimeWindow(0, 10), TimeWindow(5, 12), TimeWindow(12, 14)]
    TimeWindow.merge_windows(windows, lambda parts, whole: merged.append((whole, parts)))
    assert merged == [(TimeWindow(0, 14), [TimeWindow(0, 10), TimeWindow(5, 12), TimeWindow(12, 14)])]


def test_windows_know_their_last_timestamp() -> None:
    assert TimeWindow(0, 10).max_timestamp() == 9
    assert CountWindow(3).max_timestamp() == GlobalWindow.get().max_timestamp() == 2**63 - 1


def test_trigger_results_say_what_they_want() -> None:
    wants = {result.name: (result.is_fire(), result.is_purge()) for result in TriggerResult}
    assert wants == {
        "CONTINUE": (False, False),
        "FIRE_AND_PURGE": (True, True),
        "FIRE": (True, False),
        "PURGE": (False, True),
    }


def test_a_slot_sharing_group_keeps_its_resources() -> None:
    group = (
        SlotSharingGroup.builder("gpu")
        .set_managed_memory_mb(1)
        .set_task_off_heap_memory(MemorySize(5))
        .set_external_resource("gpu", 1.0)
        .build()
    )
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(1)
    assert group.get_task_off_heap_memory() == MemorySize(5)
    assert group.get_task_heap_memory() is None
    assert group.get_external_resources() == {"gpu": 1.0}
    assert MemorySize.of_mebi_bytes(2048).get_gibi_bytes() == 2
