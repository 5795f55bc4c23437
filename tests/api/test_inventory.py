"""Every public name of PyFlink 2.3 is in Millrace, callable in the same way, or listed as a difference."""

import importlib
import inspect
from functools import cache
from typing import Any

import pytest

from millrace.compat.jvm_names import JVM_NAMES
from tests.api.differences import Difference, read_differences
from tests.api.pyflink_inventory import Item, read_inventory
from tests.api.signatures import incompatibility

TOPS = ("common", "datastream", "metrics")
INVENTORY = [item for top in TOPS for item in read_inventory(top)]
MODULES = sorted({item.module for item in INVENTORY})
DIFFERENCES = read_differences()


@cache
def problem(item: Item) -> str | None:
    """What is wrong with Millrace's counterpart of a PyFlink name; None where it is as it should be."""
    try:
        holder: Any = importlib.import_module(f"millrace.{item.module}")
    except ModuleNotFoundError as error:
        if not f"millrace.{item.module}".startswith(error.name or "?"):
            raise  # The module is there, and what it imports is not.
        return "there is no such module"
    for name in item.path[:-1]:
        holder = getattr(holder, name, None)
    if not item.path:
        return None
    if not hasattr(holder, item.path[-1]):
        return f"there is no such {item.kind}"
    return _problem_of_member(item, holder)


def _problem_of_member(item: Item, holder: Any) -> str | None:
    found = getattr(holder, item.path[-1])
    if item.kind == "class" and not inspect.isclass(found):
        return "is not a class"
    if item.kind != "callable":
        return None
    if not callable(found):
        return "is not callable"
    return incompatibility(found, item.params, bound=_is_bound(holder, item.path[-1]))


def _is_bound(holder: Any, name: str) -> bool:
    """Whether the callable, taken from its class, still shows its self."""
    if not inspect.isclass(holder):
        return False
    return not isinstance(inspect.getattr_static(holder, name), staticmethod | classmethod)


def documented(item: Item) -> bool:
    return any(difference.covers(item.name) for difference in DIFFERENCES) or (
        item.kind == "export" and any(documented(definition) for definition in _definitions(item))
    )


def _definitions(export: Item) -> list[Item]:
    """Where the package defines what it exports."""
    return [
        item
        for item in INVENTORY
        if item.kind == "class" and item.path == export.path and item.name.startswith(f"{export.module}.")
    ]


def _undocumented_problems(module: str) -> list[str]:
    """Leaves out what lies in something that is itself reported."""
    reported: set[str] = set()
    for item in INVENTORY:
        if item.module == module and not documented(item) and (item.parent in reported or problem(item)):
            reported.add(item.name)
    return [
        f"{item.name}: {problem(item)}"
        for item in INVENTORY
        if item.name in reported and item.parent not in reported
    ]


@pytest.mark.parametrize("module", MODULES)
def test_a_pyflink_module_is_mirrored_or_its_differences_are_documented(module: str) -> None:
    problems = _undocumented_problems(module)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_a_documented_difference_still_is_one(difference: Difference) -> None:
    named = [item for item in INVENTORY if difference.names(item.name)]
    assert named, f"line {difference.line}: PyFlink 2.3 has no {difference.name}"
    stale = [item.name for item in named if problem(item) is None]
    assert not stale, f"line {difference.line}: Millrace has {', '.join(stale)}; remove the row"


def test_no_difference_is_documented_twice() -> None:
    names = [difference.name for difference in DIFFERENCES]
    assert sorted(names) == sorted(set(names))


def test_the_names_that_the_bridge_refuses_for_want_of_a_jvm_are_documented() -> None:
    known = {item.name: item for item in INVENTORY}
    assert [name for name in JVM_NAMES if name in known and not documented(known[name])] == []


def test_the_names_that_the_bridge_refuses_are_not_in_millrace() -> None:
    assert [item.name for item in INVENTORY if item.name in JVM_NAMES and problem(item) is None] == []
