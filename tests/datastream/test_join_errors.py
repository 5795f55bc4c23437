"""Mistakes in joins that show while the program is built."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from millrace.common import Types
from millrace.common.errors import MillraceError
from millrace.datastream import KeyedProcessFunction, KeyedStream, OutputTag, ProcessJoinFunction
from millrace.datastream._joins import IntervalJoined
from tests.datastream.fakes import environment


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left, right


class Wrong(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Column:
    name = "id"

    class dataType:  # noqa: N801 (Spark's spelling)
        @staticmethod
        def simpleString() -> str:
            return "bigint"


class Schema:
    fields = (Column,)


class Table:
    """As much of a DataFrame as is looked at."""

    schema = Schema
    isStreaming = False  # noqa: N815


class StreamingTable(Table):
    isStreaming = True  # noqa: N815


def keyed(*key_types: Any) -> tuple[KeyedStream, ...]:
    env = environment()
    return tuple(env.from_collection([(1, 2)]).key_by(0, key_type) for key_type in key_types or (None, None))


def interval(lower: Any = 0, upper: Any = 1, how: Any = "inner") -> IntervalJoined:
    left, right = keyed()
    return left.interval_join(right, how).between(lower, upper)


def lookup(**settings: Any) -> Any:
    settings = {"table": Table(), "on": "id", **settings}
    return environment().from_collection([(1, 2)]).lookup_join(**settings)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: interval(2, 1), "The lower bound of interval_join, 2 ms, is above the upper one, 1 ms"),
        (lambda: interval(timedelta(seconds=1), 5), "The lower bound of interval_join, 1000 ms, is above"),
        (lambda: interval(0, 1.5), "The upper bound of interval_join: expected a span of time, got float 1.5"),
        (lambda: interval("0"), "The lower bound of interval_join: expected a span of time, got str '0'"),
        (lambda: interval(True), "The lower bound of interval_join: expected a span of time, got bool"),
        (lambda: interval(0, 0).lower_bound_exclusive().process(Pair()), "No timestamp lies between the bounds"),
        (lambda: interval(how="full"), "how of interval_join is one of 'inner', 'left', 'right', 'outer', not 'full'"),
        (lambda: interval().process(Pair), "was given the class Pair instead of an instance"),
        (lambda: interval().process(Wrong()), "process of interval_join cannot run the KeyedProcessFunction Wrong"),
        (lambda: interval().process(lambda left, right: 1), "process of interval_join takes a ProcessJoinFunction"),
        (lambda: interval().process(Pair(), Types.LONG), "output_type of 'Interval Join'"),
        (lambda: interval().side_output_left_late_data("late"), "interval_join goes to an OutputTag, not 'late'"),
        (lambda: keyed()[0].interval_join(keyed()[0]._stream), "interval_join takes a stream by key, not"),
        (lambda: keyed()[0]._stream.interval_join(None), "interval_join joins streams by key, and this one has none"),
        (lambda: keyed()[0]._stream.temporal_join(None), "temporal_join joins streams by key, and this one has none"),
        (lambda: keyed()[0].interval_join(keyed()[0]), "belong to different environments"),
        (
            lambda: KeyedStream.interval_join(*keyed(Types.LONG(), Types.STRING())),
            "interval_join needs keys of one type, not of LONG and STRING",
        ),
        (lambda: KeyedStream.interval_join(*keyed()).in_processing_time(), "joins in event time only"),
        (lambda: keyed()[0].temporal_join(None), "temporal_join takes a stream by key, not None"),
        (lambda: KeyedStream.temporal_join(*keyed(), "right"), "how of temporal_join is one of 'inner', 'left', not"),
        (lambda: KeyedStream.temporal_join(*keyed()).process(3), "temporal_join takes a ProcessJoinFunction"),
        (lambda: lookup(table=[1]), "from_data_frame takes a Spark DataFrame, not"),
        (lambda: lookup(table=StreamingTable()), "takes a table that is at rest, and this DataFrame is a stream"),
        (lambda: lookup(how="right"), "how of lookup_join is one of 'inner', 'left', not 'right'"),
        (lambda: lookup(on=0), "lookup_join cannot tell where 0 stands in the table"),
        (lambda: lookup(on=0, table_on="name"), "There is no field 'name'"),
        (lambda: lookup(function=Pair()), "lookup_join takes a callable of a record and a row"),
    ],
)
def test_a_mistake_is_told_with_its_operator_and_its_line(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(MillraceError, match=message) as caught:
        build()
    assert re.search(r"test_join_errors\.py:\d+|Spark DataFrame", str(caught.value))


def test_settings_of_an_interval_join_can_be_called_in_a_row() -> None:
    joined = (
        interval(-1, 1)
        .lower_bound_exclusive()
        .upper_bound_exclusive()
        .side_output_left_late_data(OutputTag("left"))
        .side_output_right_late_data(OutputTag("right"))
        .process(Pair(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        .name("near")
        .uid("near")
    )
    assert joined.get_name() == "near"


def test_a_lookup_join_knows_its_type_when_both_sides_do() -> None:
    stream = environment().from_collection([1], Types.LONG())
    joined = stream.lookup_join(Table(), lambda number: number, "id")
    assert joined.get_type() == Types.TUPLE([Types.LONG(), Types.ROW_NAMED(["id"], [Types.LONG()])])


def test_the_table_of_a_lookup_join_is_another_source_that_is_broadcast() -> None:
    joined = lookup()
    graph = joined._env.get_stream_graph("lookup", clear=False)
    node = next(node for node in graph.nodes.values() if node.name == "Lookup Join")
    assert [edge.partitioning.name if edge.partitioning else None for edge in graph.inputs(node.id)] == [
        None, "BROADCAST",
    ]  # fmt: skip
    assert "Source: Lookup Table" in {node.name for node in graph.nodes.values()}
