"""Tests without Spark: harnesses for single functions, and whole jobs in one process, with faults if wanted.

    with KeyedOneInputHarness(MyFunction(), key_selector=lambda event: event.user) as harness:
        harness.push(event, timestamp=1000)
        harness.watermark(2000)
        assert harness.output == [...]

Everything here runs the code that runs on Spark, and is for tests only: all data stays in this process.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .faults import Faults, InjectedFault
    from .harness import Harness, HarnessOptions, HarnessSnapshot
    from .harnesses import (
        BroadcastHarness,
        KeyedBroadcastHarness,
        KeyedOneInputHarness,
        KeyedTwoInputHarness,
        OneInputHarness,
        TwoInputHarness,
        TwoStreamsHarness,
        WindowHarness,
    )
    from .in_process import InProcessExecutor, InProcessRunner
    from .memory_files import MemoryFiles
    from .sources import EpochSource

__all__ = [
    "BroadcastHarness",
    "EpochSource",
    "Faults",
    "Harness",
    "HarnessOptions",
    "HarnessSnapshot",
    "InProcessExecutor",
    "InProcessRunner",
    "InjectedFault",
    "KeyedBroadcastHarness",
    "KeyedOneInputHarness",
    "KeyedTwoInputHarness",
    "MemoryFiles",
    "OneInputHarness",
    "TwoInputHarness",
    "TwoStreamsHarness",
    "WindowHarness",
]

# The pytest plugin is in this package, and every run of pytest loads it: nothing else is imported before it is used.
_HOMES = {
    "EpochSource": "sources",
    "Faults": "faults",
    "Harness": "harness",
    "HarnessOptions": "harness",
    "HarnessSnapshot": "harness",
    "InProcessExecutor": "in_process",
    "InProcessRunner": "in_process",
    "InjectedFault": "faults",
    "MemoryFiles": "memory_files",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'harnesses')}"), name)
