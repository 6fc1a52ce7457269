"""The transfer protocol under every order of delivery: what a chain is, it stays."""

from __future__ import annotations

import random

import pytest
from operators_search import Position, explore, settle, walk

from evenflow.operators.custody import Custody
from evenflow.operators.even import EvenUnit
from evenflow.operators.graph import Graph
from evenflow.operators.negotiation import State
from evenflow.operators.settings import UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.tree import Tree
from evenflow.operators.unit import MeteringUnit

LINE = Tree({"top": None, "mid": "top", "leaf": "mid"})
# A chain of three along the line, and one operator of ballast on every unit.
GRAPH = Graph.of({1: 2, 2: 3, 3: None, 4: None, 5: None, 6: None}, {op: ["leaf"] for op in (1, 4, 5, 6)})
HELD = {"top": [3, 4], "mid": [2, 5], "leaf": [1, 6]}
# Units above and below their margins beside each other: offers and demands cross on both links.
CROSSING = [
    {1: 12.0, 2: 12.0, 3: 12.0, 4: 15.0, 5: 50.0, 6: 15.0},
    {1: 12.0, 2: 12.0, 3: 12.0, 4: 50.0, 5: 15.0, 6: 50.0},
    {1: 8.0, 2: 8.0, 3: 8.0, 4: 54.0, 5: 20.0, 6: 40.0},
]


def position(kind, sizes: dict[int, float]) -> Position:
    measured = Sizes(sizes)
    settings = UnitSettings(crowd=100.0)
    return Position(GRAPH, LINE, measured, lambda unit: kind(unit, GRAPH, LINE, measured, HELD[unit], settings)).start()


@pytest.mark.parametrize("kind", [MeteringUnit, EvenUnit])
@pytest.mark.parametrize("sizes", CROSSING, ids=["mid over", "ends over", "leaf at target"])
def test_every_order_of_delivery(kind, sizes):
    assert explore(position(kind, sizes), 400, looks=3, faults=0) > 20


@pytest.mark.parametrize("kind", [MeteringUnit, EvenUnit])
def test_random_orders_with_faults_and_restarts(kind):
    moved = 0
    for seed in range(120):
        chance = random.Random(seed)
        at = position(kind, chance.choice(CROSSING))
        walk(at, chance, 60, looks=10, faults=6)
        moved += {unit: sorted(u.custody.owned) for unit, u in at.units.items()} != {
            unit: sorted(ops) for unit, ops in HELD.items()
        }
        for op in GRAPH.operators:
            at.sizes[op] = 5.0 + 20.0 * (op > 3)  # calm: nobody is above the margins
        settle(at)
        for unit in at.units.values():
            assert (unit.custody.giving, unit.custody.taking) == ({}, {}), "a transfer has no end"
            assert unit.state in (State.RESTING, State.DEMANDING)
    assert moved > 20


def search(seeds: int, steps: int, faults: int) -> None:
    for seed in range(seeds):
        chance = random.Random(seed)
        walk(position(MeteringUnit, chance.choice(CROSSING)), chance, steps, looks=30, faults=faults)


def test_the_search_finds_a_unit_that_does_not_remember_what_it_shipped(monkeypatch):
    keep = Custody.durable
    monkeypatch.setattr(Custody, "durable", lambda self: keep(self) | {"shipped": {}})
    with pytest.raises(AssertionError, match="lost"):
        search(seeds=600, steps=120, faults=6)


def test_and_nothing_in_the_protocol_as_it_is():
    search(seeds=60, steps=120, faults=6)
