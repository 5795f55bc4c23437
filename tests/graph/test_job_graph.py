"""From operators to chains, levels and slots."""

from __future__ import annotations

from itertools import pairwise

import pytest

from millrace.graph.job_graph import JobPlan, plan_job
from millrace.graph.partitioning import Broadcast, Forward, KeyGroups, Rebalance
from millrace.graph.stream_graph import ChainingStrategy, StreamGraph, StreamNode
from millrace.runtime.shipping import placement
from tests.graph.graphs import edge, node, same, stream_graph


def chains(plan: JobPlan) -> list[list[int]]:
    return [[chained.id for chained in vertex.nodes] for vertex in plan.vertices]


def line(*nodes: StreamNode, chaining: bool = True) -> StreamGraph:
    edges = [edge(one.id, other.id) for one, other in pairwise(nodes)]
    return stream_graph(list(nodes), edges, chaining)


# --- chaining ---------------------------------------------------------------------------------------------------


def test_operators_of_one_parallelism_form_a_chain() -> None:
    plan = plan_job(line(node(1, 2), node(2, 2), node(3, 2)))
    assert chains(plan) == [[1, 2, 3]]
    assert [(link.source, link.target) for link in plan.vertices[0].links] == [(1, 2), (2, 3)]
    assert plan.vertices[0].name == "op1 -> op2 -> op3"


def test_another_parallelism_ends_a_chain_and_rebalances() -> None:
    plan = plan_job(line(node(1, 1), node(2, 2)))
    assert chains(plan) == [[1], [2]]
    assert plan.vertices[1].inputs[0].partitioning == Rebalance()


def test_a_partitioning_ends_a_chain() -> None:
    graph = stream_graph([node(1), node(2)], [edge(1, 2, KeyGroups(same))])
    assert chains(plan_job(graph)) == [[1], [2]]


def test_forward_is_written_out_where_nothing_was_said() -> None:
    plan = plan_job(line(node(1), node(2), chaining=False))
    assert chains(plan) == [[1], [2]]
    assert plan.vertices[1].inputs[0].partitioning == Forward()


def test_an_operator_with_two_inputs_begins_a_chain() -> None:
    graph = stream_graph([node(1), node(2), node(3), node(4)], [edge(1, 3), edge(2, 3, input=1), edge(3, 4)])
    assert chains(plan_job(graph)) == [[1], [2], [3, 4]]


def test_both_branches_of_a_fork_are_chained_to_it() -> None:
    graph = stream_graph([node(1), node(2), node(3)], [edge(1, 2), edge(1, 3, tag="side")])
    plan = plan_job(graph)
    assert chains(plan) == [[1, 2, 3]]
    assert {(link.target, link.tag) for link in plan.vertices[0].links} == {(2, None), (3, "side")}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ChainingStrategy.ALWAYS, [[1, 2, 3]]),
        (ChainingStrategy.HEAD, [[1], [2, 3]]),
        (ChainingStrategy.NEVER, [[1], [2], [3]]),
    ],
)
def test_the_chaining_strategy_decides(strategy: ChainingStrategy, expected: list[list[int]]) -> None:
    assert chains(plan_job(line(node(1), node(2, chaining=strategy), node(3)))) == expected


def test_another_slot_sharing_group_ends_a_chain() -> None:
    plan = plan_job(line(node(1), node(2, slot_sharing_group="other"), node(3, slot_sharing_group="other")))
    assert chains(plan) == [[1], [2, 3]]


# --- levels -----------------------------------------------------------------------------------------------------


def test_a_vertex_is_one_level_above_its_highest_input() -> None:
    nodes = [node(number) for number in range(1, 6)]
    edges = [edge(1, 2, Rebalance()), edge(2, 3, Rebalance()), edge(1, 4, Rebalance()), edge(3, 5), edge(4, 5)]
    plan = plan_job(stream_graph(nodes, edges))
    assert {vertex.id: vertex.level for vertex in plan.vertices} == {1: 0, 2: 1, 3: 2, 4: 1, 5: 3}


def test_an_edge_may_skip_levels() -> None:
    nodes = [node(1), node(2), node(3)]
    plan = plan_job(stream_graph(nodes, [edge(1, 2, Rebalance()), edge(2, 3, Rebalance()), edge(1, 3, Rebalance())]))
    to_last = [out for out in plan.vertex(1).outputs if out.target_vertex == 3]
    assert [out.target_level for out in to_last] == [2]


# --- slots ------------------------------------------------------------------------------------------------------


def test_vertices_of_one_level_and_group_share_slots() -> None:
    nodes = [node(1, 2), node(2, 3), node(3, 3)]
    plan = plan_job(stream_graph(nodes, [edge(1, 3), edge(2, 3, Rebalance(), input=1)]))
    assert plan.slots == (3, 3)
    assert placement(plan)[0] == (((1, 0), (2, 0)), ((1, 1), (2, 1)), ((2, 2),))


def test_another_slot_sharing_group_has_slots_of_its_own() -> None:
    nodes = [node(1, 2), node(2, 3, slot_sharing_group="other"), node(3, 4, slot_sharing_group="other")]
    plan = plan_job(stream_graph(nodes))
    assert plan.slots == (6,)
    assert {vertex.id: vertex.slot for vertex in plan.vertices} == {1: 0, 2: 2, 3: 2}


def test_the_target_of_an_edge_is_told_by_its_first_slot() -> None:
    nodes = [node(1, 1), node(2, 2), node(3, 2, slot_sharing_group="other")]
    plan = plan_job(stream_graph(nodes, [edge(1, 2, Rebalance()), edge(1, 3, Rebalance())]))
    for out in plan.vertex(1).outputs:
        assert out.target_slot == plan.vertex(out.target_vertex).slot


# --- channels ---------------------------------------------------------------------------------------------------


def test_channels_of_all_inputs_are_numbered_one_after_the_other() -> None:
    nodes = [node(1, 2), node(2, 3), node(3, 4)]
    plan = plan_job(stream_graph(nodes, [edge(1, 3, Rebalance()), edge(2, 3, Broadcast(), input=1)]))
    vertex = plan.vertex(3)
    assert [(entry.channel, entry.parallelism, entry.input) for entry in vertex.inputs] == [(0, 2, 0), (2, 3, 1)]
    assert vertex.channels == 5
    assert [plan.vertex(number).outputs[0].channel for number in (1, 2)] == [0, 2]


def test_a_stream_joined_with_itself_has_two_edges() -> None:
    plan = plan_job(stream_graph([node(1), node(2)], [edge(1, 2), edge(1, 2, input=1)]))
    assert chains(plan) == [[1], [2]]
    assert [entry.channel for entry in plan.vertex(2).inputs] == [0, 1]


def test_the_max_parallelism_is_flinks_default_unless_set() -> None:
    plan = plan_job(stream_graph([node(1, 4), node(2, 200), node(3, 4, max_parallelism=7)]))
    assert [vertex.max_parallelism for vertex in plan.vertices] == [128, 512, 7]


def test_planning_leaves_the_graph_as_it_is() -> None:
    graph = line(node(1), node(2, 2))
    plan_job(graph)
    assert [made.partitioning for made in graph.edges] == [None]
