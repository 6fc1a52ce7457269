"""The operator selection algorithm: the scenarios of section 2.2.2, as drawn in Figures 7 to 10."""

from __future__ import annotations

import random

import pytest

from evenflow.operators.graph import Graph
from evenflow.operators.transfers import Selection
from evenflow.operators.tree import Tree, balanced

LINE = Tree({"top": None, "mid": "top", "leaf": "mid"})
FORK = Tree({"top": None, "mid": "top", "left": "mid", "right": "mid"})


def selected(
    graph: Graph, tree: Tree, unit: str, ops: list[int], walk: str = "meant"
) -> set[tuple[frozenset[int], str]]:
    selection = Selection(graph, tree, unit, walk)
    selection.add(ops)
    return {(frozenset(t.ops), t.to) for t in selection}


def sets(*pairs: tuple[set[int], str]) -> set[tuple[frozenset[int], str]]:
    return {(frozenset(ops), to) for ops, to in pairs}


def test_a_single_operator_goes_up_or_to_the_child_that_feeds_it():
    graph = Graph.of({1: None}, {1: ["leaf"]})
    assert selected(graph, LINE, "mid", [1]) == sets(({1}, "top"), ({1}, "leaf"))


def test_two_dependent_operators_have_four_transfers():
    graph = Graph.of({1: 2, 2: None}, {1: ["leaf"]})  # A feeds B, Figures 8 and 9
    assert selected(graph, LINE, "mid", [1, 2]) == sets(({1}, "leaf"), ({2}, "top"), ({1, 2}, "leaf"), ({1, 2}, "top"))


def test_an_operator_fed_by_two_children_can_only_go_up():
    graph = Graph.of({1: None, 2: 1, 3: 1}, {2: ["left"], 3: ["right"]})  # Figures 7 and 10
    assert selected(graph, FORK, "mid", [1]) == sets(({1}, "top"))


def test_several_inputs_under_one_child_may_go_there():
    graph = Graph.of({1: None, 2: 1, 3: 1}, {2: ["left"], 3: ["left"]})
    assert selected(graph, FORK, "mid", [1]) == sets(({1}, "top"), ({1}, "left"))
    assert selected(graph, FORK, "mid", [1, 2]) == sets(({1}, "top"), ({1, 2}, "left"), ({1, 2}, "top"), ({2}, "left"))


def test_the_root_has_no_way_up_and_a_leaf_no_way_down():
    graph = Graph.of({1: None}, {1: ["leaf"]})
    assert selected(graph, LINE, "top", [1]) == sets(({1}, "mid"))
    assert selected(graph, LINE, "leaf", [1]) == sets(({1}, "mid"))


def test_the_printed_walk_leaves_out_the_next_operator():
    graph = Graph.of({1: 2, 2: 3, 3: None}, {1: ["leaf"]})
    found = selected(graph, LINE, "mid", [1, 2, 3], walk="printed")
    assert (frozenset({1, 3}), "top") in found  # without 2, which would then be below the operator that feeds it
    assert (frozenset({1}), "leaf") not in found  # upOPs of a first operator is undefined


@pytest.mark.parametrize("seed", range(5))
def test_coming_and_going_leaves_what_a_fresh_look_would_find(seed):
    chance = random.Random(seed)
    tree = balanced(3)
    leaves = sorted(tree.leaves["unit-0"])
    downs = {op: chance.choice([None, *range(op + 1, 30)]) if op < 29 else None for op in range(30)}
    fed = {d for d in downs.values() if d is not None}
    graph = Graph.of(downs, {op: [chance.choice(leaves)] for op in range(30) if op not in fed or chance.random() < 0.2})
    selection, here = Selection(graph, tree, "unit-1"), set()
    for _ in range(200):
        op = chance.randrange(30)
        (selection.remove if op in here else selection.add)([op])
        here ^= {op}
        assert {(frozenset(t.ops), t.to) for t in selection} == selected(graph, tree, "unit-1", sorted(here))


def test_only_connected_operators_are_looked_at_again():
    graph = Graph.of(dict.fromkeys(range(100)) | {100: 0}, {op: ["leaf"] for op in range(1, 101)})
    selection = Selection(graph, LINE, "mid")
    selection.add(range(100))
    before = selection.computed
    selection.add([100])
    assert selection.computed - before == 2  # itself and the one that it feeds


def test_placements_are_judged():
    graph = Graph.of({1: 2, 2: None}, {1: ["left"]})
    assert graph.misplaced({1: "left", 2: "mid"}, FORK) == {}
    assert set(graph.misplaced({1: "right", 2: "mid"}, FORK)) == {1}
    assert set(graph.misplaced({1: "mid", 2: "left"}, FORK)) == {1}
    assert set(graph.misplaced({1: "left", 2: "right"}, FORK)) == {1, 2}


@pytest.mark.parametrize(
    ("downs", "meters", "why"),
    [
        ({1: 2}, {1: ["left"]}, "does not exist"),
        ({1: 2, 2: 1}, {1: ["left"]}, "circle"),
        ({1: None}, {}, "no meter"),
    ],
)
def test_graphs_that_cannot_be(downs, meters, why):
    with pytest.raises(ValueError, match=why):
        Graph.of(downs, meters)


@pytest.mark.parametrize("parents", [{"a": "b", "b": "a"}, {"a": None, "b": None}, {"a": None, "b": "c"}])
def test_trees_that_cannot_be(parents):
    with pytest.raises(ValueError, match=r"root|unit"):
        Tree(parents)
