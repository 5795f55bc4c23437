"""How operators travel to the workers, and what is said of those that cannot."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.common.errors import ShippingError
from millrace.datastream import MapFunction
from millrace.graph.job_graph import plan_job
from millrace.graph.partitioning import Custom
from millrace.runtime.operators.stateless import MapOperator
from millrace.runtime.shipping import load_vertex, ship
from tests.graph.graphs import edge, node, stream_graph


class HoldsALock(MapFunction):
    def __init__(self, inner: Any) -> None:
        self.fine = 1
        self.inner = inner

    def map(self, value: Any) -> Any:
        return value


class Connection:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def plan_of(function: Any, name: str = "Enrich") -> Any:
    one = node(1, operator=MapOperator(function), site="job.py:12")
    one.name = name
    return plan_job(stream_graph([one]))


def test_an_attribute_that_cannot_be_pickled_is_named_with_its_path() -> None:
    with pytest.raises(ShippingError) as failure:
        ship(plan_of(HoldsALock(Connection())))
    text = str(failure.value)
    assert "'Enrich'" in text
    assert "HoldsALock.inner.lock is a lock" in text
    assert "job.py:12" in text
    assert "open()" in text


def test_a_captured_variable_that_cannot_be_pickled_is_named() -> None:
    connection = Connection()
    with pytest.raises(ShippingError, match=r"variable 'connection'\.lock is a lock"):
        ship(plan_of(lambda value: connection and value))


def test_a_function_with_a_variable_that_is_not_set_yet_does_not_hide_the_culprit() -> None:
    lock = threading.Lock()

    def function(value: Any) -> Any:
        return later if value else lock  # noqa: F821 (set below, and deleted)

    later = 1
    del later
    with pytest.raises(ShippingError, match="variable 'lock' is a lock"):
        ship(plan_of(function))


def test_a_partitioner_that_cannot_be_pickled_names_the_operator() -> None:
    lock = threading.Lock()
    partitioning = Custom(lambda key, targets: hash(lock) % targets, lambda value: value)
    with pytest.raises(ShippingError, match="op1"):
        ship(plan_job(stream_graph([node(1), node(2)], [edge(1, 2, partitioning)])))


def test_every_subtask_has_its_own_copy() -> None:
    shipped = ship(plan_of(HoldsALock([])))
    first, second = (load_vertex(shipped.vertices[1]).nodes[0].operator.function for _ in range(2))
    first.inner.append(1)
    assert second.inner == []


def test_a_vertex_is_placed_in_the_slots_of_its_level() -> None:
    plan = plan_job(stream_graph([node(1, 2), node(2, 3)], [edge(1, 2)]))
    assert ship(plan).placement == ((((1, 0),), ((1, 1),)), (((2, 0),), ((2, 1),), ((2, 2),)))
