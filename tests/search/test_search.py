"""The stages of the search, each alone on a small placement."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.search.beam import pack, repack
from evenflow.search.exchange import descend, relieve
from evenflow.search.placement import Effort, Placement
from evenflow.search.rearrange import rearrange
from evenflow.search.shed import shed
from evenflow.search.swaps import Swaps


def placement(weights, owners, nodes=2, allowed=None, fixed=()) -> Placement:
    weight = np.array(weights, np.float64).reshape(len(weights), -1)
    owner = np.array(owners, np.int64)
    free = ~np.isin(np.arange(len(owner)), fixed)
    load = np.zeros((nodes, weight.shape[1]))
    np.add.at(load, owner, weight)
    only = {unit: np.array(rows, np.int64) for unit, rows in (allowed or {}).items()}
    return Placement(weight, np.ones((nodes, weight.shape[1])), owner, free, load, only)


def check(result: Placement) -> None:
    """The loads follow from the owners, and only units that may move have moved, to nodes where they may run."""
    load = np.zeros_like(result.load)
    np.add.at(load, result.owner, result.weight)
    assert np.allclose(load, result.load)
    away = np.flatnonzero(result.owner != result.home)
    assert result.free[away].all()
    assert all(result.may_run(unit, result.owner[unit]) for unit in away.tolist())


def test_effort_is_spent_and_may_be_exceeded_once():
    effort = Effort(5)
    assert [effort.spend(4), effort.spend(4), effort.spend(4)] == [True, True, False]


def test_shedding_moves_the_excess_to_the_node_with_most_room():
    result = placement([3, 2, 1, 1, 1], [0] * 5, nodes=3)
    shed(result, ceiling=3.0, goal=3.0)
    check(result)
    assert result.load[:, 0].tolist() == [3, 3, 2]


def test_a_node_between_goal_and_ceiling_keeps_its_load():
    result = placement([2, 1.4, 1], [0, 0, 1])
    shed(result, ceiling=3.5, goal=2.5)
    assert result.owner.tolist() == [0, 0, 1]


def test_a_misplaced_unit_leaves_and_a_fixed_unit_stays():
    result = placement([5, 1, 1], [0, 0, 1], allowed={1: [1]}, fixed=[0])
    assert result.misplaced() == {1}
    assert result.fixed_peak() == 5.0
    shed(result, ceiling=9.0, goal=9.0)
    check(result)
    assert result.owner.tolist() == [0, 1, 1]


def test_an_exchange_gives_a_heavy_unit_for_a_lighter_one():
    result = placement([5, 5, 3, 3], [0, 0, 1, 1])
    exchange = relieve(result, node=0, goal=8.0, effort=Effort(10_000))
    assert exchange is not None
    exchange.apply(result)
    check(result)
    assert result.load[:, 0].tolist() == [8, 8]
    exchange.undo(result)
    assert result.load[:, 0].tolist() == [10, 6]
    assert result.owner.tolist() == [0, 0, 1, 1]


def test_exchanges_stop_at_the_ceiling():
    result = placement([5, 5, 3, 3], [0, 0, 1, 1])
    descend(result, ceiling=8.0, goal=8.0, effort=Effort(10_000))
    check(result)
    assert result.peak() == 8.0


@pytest.mark.parametrize(("level", "peak"), [(9.0, 8.0), (8.0, None)])
def test_packing_stays_below_the_level_or_finds_nothing(level, peak):
    weight = np.array([[5.0], [5.0], [3.0], [3.0]])
    may, home = np.ones((4, 2), np.bool_), np.array([0, 0, 1, 1])
    packed = pack(weight, np.zeros((2, 1)), np.ones((2, 1)), may, home, level, width=50)
    assert (None if packed is None else packed[1]) == peak


def test_repacking_respects_where_units_may_run():
    result = placement([5, 5, 3, 3], [0, 0, 1, 1], allowed={0: [0], 1: [0, 1]})
    repack(result, ceiling=8.0, goal=8.0, effort=Effort(1_000_000))
    check(result)
    assert (result.peak(), result.owner[0]) == (8.0, 0)


def test_swaps_bring_every_dimension_below_the_level():
    weight = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    swaps = Swaps(weight, np.zeros((2, 2)), np.ones((2, 2)), np.ones((4, 2), np.bool_))
    nodes = swaps.below(4.0, np.array([0, 0, 1, 1]), Effort(100_000))
    assert nodes is not None
    load = np.zeros((2, 2))
    np.add.at(load, nodes, weight)
    assert load.max() == 4.0


def test_rearranging_moves_no_more_than_it_needs():
    result = rearrange(placement([1.0] * 8, [0] * 6 + [1] * 2), 4.0, 0.0, 0.0, Effort(100_000))
    check(result)
    assert (result.peak(), int((result.owner != result.home).sum())) == (4.0, 2)
