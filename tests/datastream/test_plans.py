"""What a program becomes: names, distribution, chains, Flink's plan JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.common import Types, WatermarkStrategy
from millrace.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    SlotSharingGroup,
)
from millrace.datastream.state import MapStateDescriptor
from millrace.graph.job_graph import plan_job
from millrace.graph.partitioning import KeyGroups
from millrace.runtime.operators.keyed_functions import KeyedMapOperator
from millrace.runtime.operators.stateless import MapOperator
from tests.datastream.fakes import environment

HERE = Path(__file__).parent


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Co(CoMapFunction, CoFlatMapFunction):
    map1 = map2 = flat_map1 = flat_map2 = lambda self, value: value


class CoPlain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class CoKeyed(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class Rules(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    process_broadcast_element = process_element


class KeyedRules(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    process_broadcast_element = process_element


class Longer(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=len)


def first(value: Any) -> Any:
    return value[0]


def names(stream: DataStream) -> list[str]:
    graph = stream.get_execution_environment().get_stream_graph("job", clear=False)
    return [node.name for node in graph.nodes.values()]


def last(stream: DataStream) -> Any:
    """The operator that a stream comes from."""
    graph = stream.get_execution_environment().get_stream_graph("job", clear=False)
    return graph.nodes[max(graph.nodes)]


def strategies(stream: DataStream) -> list[str]:
    """The ship strategies into the last operator."""
    plan = json.loads(stream.get_execution_environment().get_execution_plan())
    return [entry["ship_strategy"] for entry in plan["nodes"][-1]["predecessors"]]


def words() -> DataStream:
    return environment().from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))


RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (lambda s: s.map(first), "Map"),
        (lambda s: s.flat_map(first), "Flat Map"),
        (lambda s: s.filter(first), "Filter"),
        (lambda s: s.project(1, 0), "Projection"),
        (lambda s: s.process(Plain()), "Process"),
        (lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()), "Timestamps/Watermarks"),
        (lambda s: s.key_by(0).process(Keyed()), "KeyedProcess"),
        (lambda s: s.key_by(0).reduce(Longer()), "Keyed Reduce"),
        (lambda s: s.key_by(0).sum(1), "Keyed Aggregation"),
        (lambda s: s.connect(s).map(Co()), "Co-Map"),
        (lambda s: s.connect(s).flat_map(Co()), "Co-Flat Map"),
        (lambda s: s.connect(s).process(CoPlain()), "Co-Process"),
        (lambda s: s.connect(s).key_by(0, 0).process(CoKeyed()), "Co-Keyed-Process"),
        (lambda s: s.connect(s.broadcast(RULES)).process(Rules()), "Co-Process-Broadcast"),
        (lambda s: s.key_by(0).connect(s.broadcast(RULES)).process(KeyedRules()), "Co-Process-Broadcast-Keyed"),
    ],
)
def test_operators_are_named_as_flink_names_them(transform: Any, name: str) -> None:
    assert names(transform(words()))[-1] == name


def test_sources_and_sinks_are_named_with_what_they_are() -> None:
    env = environment()
    env.from_sequence(1, 3).print()
    env.read_text_file("/data/*.txt").add_sink(print)
    env.from_collection([1]).name("Numbers").write_as_text("/tmp/out").name("Lines")
    assert [node.name for node in env.get_stream_graph().nodes.values()] == [
        "Source: Sequence Source",
        "Sink: Print to Std. Out",
        "Source: Text File Source",
        "Sink: Unnamed",
        "Source: Numbers",
        "Sink: Lines",
    ]


def test_the_name_that_was_given_is_the_one_that_get_name_tells() -> None:
    stream = words()
    assert stream.get_name() == "Collection Source"
    assert stream.name("Words").get_name() == "Words"
    assert stream.print().name("Out").get_name() == "Out"


@pytest.mark.parametrize(
    ("distribute", "strategy"),
    [
        (lambda s: s.shuffle(), "SHUFFLE"),
        (lambda s: s.rebalance(), "REBALANCE"),
        (lambda s: s.rescale(), "RESCALE"),
        (lambda s: s.broadcast(), "BROADCAST"),
        (lambda s: s.forward(), "FORWARD"),
        (lambda s: s.global_(), "GLOBAL"),
        (lambda s: getattr(s, "global")(), "GLOBAL"),
        (lambda s: s.partition_custom(lambda key, count: key % count, 0), "CUSTOM"),
        (lambda s: s.key_by(0), "HASH"),
        (lambda s: s.rebalance().key_by(0), "HASH"),
        (lambda s: s, "FORWARD"),
    ],
)
def test_a_distribution_is_the_ship_strategy_into_the_next_operator(distribute: Any, strategy: str) -> None:
    stream = environment().from_sequence(1, 3).map(lambda n: (n, n))
    assert strategies(distribute(stream).map(first)) == [strategy]


def test_between_different_parallelisms_records_are_rebalanced() -> None:
    assert strategies(words().map(first)) == ["REBALANCE"]  # A collection is read by one subtask.


def test_forward_operators_chain_and_a_key_ends_the_chain() -> None:
    env = environment()
    pairs = env.from_sequence(1, 9).map(lambda n: (n, 1))
    pairs.key_by(0).sum(1).filter(first).print()
    assert [vertex.name for vertex in plan_job(env.get_stream_graph()).vertices] == [
        "Source: Sequence Source -> Map",
        "Keyed Aggregation -> Filter -> Sink: Print to Std. Out",
    ]


def test_chaining_can_be_cut_before_an_operator_around_it_or_everywhere() -> None:
    def vertices(cut: Any) -> list[str]:
        env = environment()
        middle = env.from_sequence(1, 9).map(first).name("A").map(first).name("B")
        cut(env, middle)
        middle.map(first).name("C")
        plan = plan_job(env.get_stream_graph())
        return [vertex.name.removeprefix("Source: Sequence Source") for vertex in plan.vertices]

    assert vertices(lambda env, stream: stream.start_new_chain()) == [" -> A", "B -> C"]
    assert vertices(lambda env, stream: stream.disable_chaining()) == [" -> A", "B", "C"]
    assert vertices(lambda env, stream: env.disable_operator_chaining()) == ["", "A", "B", "C"]


def test_a_slot_sharing_group_is_inherited_by_what_follows() -> None:
    env = environment()
    env.from_sequence(1, 9).map(first).slot_sharing_group(SlotSharingGroup.builder("gpu").build()).map(first).print()
    groups = [node.slot_sharing_group for node in env.get_stream_graph().nodes.values()]
    assert groups == ["default", "gpu", "gpu", "gpu"]


def test_a_union_is_several_edges_into_the_same_input() -> None:
    env = environment()
    one, two = env.from_sequence(1, 2), env.from_sequence(3, 4)
    one.union(two, one).map(first)
    graph = env.get_stream_graph()
    assert [(edge.source, edge.target, edge.input) for edge in graph.edges] == [(1, 3, 0), (2, 3, 0), (1, 3, 0)]


def test_a_union_of_a_keyed_stream_has_no_key() -> None:
    env = environment()
    numbers = env.from_sequence(1, 2)
    assert strategies(numbers.key_by(lambda n: n).union(numbers).map(first)) == ["FORWARD", "FORWARD"]


def test_connected_streams_are_two_inputs() -> None:
    stream = words()
    node = last(stream.connect(stream.key_by(0)).process(CoPlain()))
    edges = stream.get_execution_environment().get_stream_graph().inputs(node.id)
    assert [(edge.input, isinstance(edge.partitioning, KeyGroups)) for edge in edges] == [(0, False), (1, True)]


def test_a_side_output_is_an_edge_with_its_tag() -> None:
    tag = OutputTag("late", Types.LONG())
    side = words().process(Plain()).get_side_output(tag)
    assert side.get_type() == Types.LONG()
    side.map(first)
    graph = side.get_execution_environment().get_stream_graph()
    assert [edge.tag for edge in graph.edges] == [None, "late"]


def test_a_function_object_on_a_keyed_stream_may_have_state_and_a_lambda_may_not() -> None:
    class Mapper(MapFunction):
        def map(self, value: Any) -> Any:
            return value

    assert type(last(words().key_by(0).map(Mapper())).operator) is KeyedMapOperator
    assert type(last(words().key_by(0).map(first)).operator) is MapOperator


def test_types_follow_the_records_as_far_as_they_are_known() -> None:
    stream = words()
    both = stream.get_type()
    assert stream.filter(first).get_type() == both
    assert stream.key_by(0).sum(1).get_type() == both
    assert stream.project(1).get_type() == Types.TUPLE([Types.LONG()])
    assert stream.union(stream).get_type() == both
    assert stream.map(first).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert stream.map(first, Types.STRING()).get_type() == Types.STRING()


def test_the_key_type_reaches_the_keyed_operator() -> None:
    assert last(words().key_by(0, Types.STRING()).process(Keyed())).key_type == Types.STRING()


def test_a_node_knows_the_line_of_the_program_that_made_it() -> None:
    assert last(words().map(first)).site.startswith(f"{__file__}:")


def test_the_tail_of_an_iteration_has_the_parallelism_of_its_head() -> None:
    env = environment(parallelism=3)
    loop = env.from_sequence(1, 3).iterate()
    loop.close_with(loop.map(first))
    loop.set_parallelism(2)
    assert [node.parallelism for node in env.get_stream_graph().nodes.values()] == [3, 2, 3, 2]


def test_an_iteration_comes_with_its_feedback_in_a_later_job_too() -> None:
    env = environment()
    loop = env.from_sequence(1, 3).iterate()
    loop.close_with(loop.map(first))
    env.get_stream_graph()
    loop.print()
    assert [node.name for node in env.get_stream_graph().nodes.values()] == [
        "Source: Sequence Source", "IterationSource-2", "Map", "IterationSink-2", "Sink: Print to Std. Out",
    ]  # fmt: skip


def sensors() -> Any:
    """The program of the golden plans."""
    env = environment()
    late = OutputTag("late")
    readings = env.from_collection([("a", 1)]).name("Readings").set_parallelism(1)
    checked = readings.rebalance().process(Plain()).set_description("drops what is late")
    checked.key_by(0).process(Keyed()).print()
    checked.get_side_output(late).print("late")
    return env


def test_the_plan_json_is_flinks() -> None:
    assert json.loads(sensors().get_execution_plan()) == json.loads((HERE / "plan.json").read_text())


def test_the_plan_is_drawn_level_by_level() -> None:
    assert sensors().draw_execution_plan() == (
        "level 0\n"
        "  [1] Source: Readings  x1\n"
        "level 1\n"
        "  [2] Process -> Sink: Print to Std. Out  x2\n"
        "        <- [1] REBALANCE\n"
        "level 2\n"
        "  [3] KeyedProcess -> Sink: Print to Std. Out  x2\n"
        "        <- [2] HASH\n"
    )


def test_the_drawing_tells_inputs_and_side_outputs() -> None:
    stream = words()
    side = stream.process(Plain()).get_side_output(OutputTag("late"))
    stream.connect(side).process(CoPlain())
    assert stream.get_execution_environment().draw_execution_plan() == (
        "level 0\n"
        "  [1] Source: Collection Source  x1\n"
        "level 1\n"
        "  [2] Process  x2\n"
        "        <- [1] REBALANCE\n"
        "level 2\n"
        "  [3] Co-Process  x2\n"
        "        <- [1] REBALANCE (input 1)\n"
        "        <- [2] FORWARD side output 'late' (input 2)\n"
    )
