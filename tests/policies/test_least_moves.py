"""``least_moves``: close to the exact optimum, little moved load, no move without need."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.draft import Settings
from evenflow.model import Node, Snapshot, Unit
from evenflow.planner import plan
from evenflow.policies import LeastMoves

LOADS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 1.2, shape),
    "pareto": lambda rng, shape: rng.pareto(1.2, shape) + 0.1,
    "zipf": lambda rng, shape: 1.0 / (1 + rng.permuted(np.tile(np.arange(shape[0])[:, None], shape[1]), axis=0)) ** 1.1,
    "whole": lambda rng, shape: rng.integers(1, 20, shape).astype(float),
    "equal": lambda rng, shape: np.ones(shape),
}


def cluster(seed: int, nodes: int, units: int, loads: str, dims: int = 1, *, rules: bool = False) -> Snapshot:
    """A random cluster: capacities equal or 1:10, placed at random, skewed, on one node or with new nodes empty."""
    rng = np.random.default_rng(seed)
    load = LOADS[loads](rng, (units, dims))
    capacity = np.ones((nodes, dims)) if rng.random() < 0.5 else rng.uniform(1, 10, (nodes, dims))
    placed = rng.choice(["random", "skewed", "one", "joined"])
    owner = {
        "random": rng.integers(0, nodes, units),
        "skewed": (nodes * rng.random(units) ** 3).astype(int),
        "one": np.zeros(units, int),
        "joined": rng.integers(0, max(1, nodes * 9 // 10), units),
    }[str(placed)]
    pinned, allowed = np.zeros(units, bool), {}
    if rules:
        pinned = rng.random(units) < rng.choice([0.0, 0.1, 0.3])
        share = rng.choice([0.0, 0.3, 0.7])
        for unit in range(units):
            if rng.random() < share:
                some = {*rng.integers(0, nodes, int(rng.integers(1, nodes + 1))).tolist(), int(owner[unit])}
                allowed[unit] = np.array(sorted(some))
    return Snapshot(
        dimensions=tuple(f"d{d}" for d in range(dims)),
        node_ids=[f"n{n}" for n in range(nodes)],
        capacity=capacity,
        unit_ids=[f"u{u}" for u in range(units)],
        owner=owner.astype(np.int64),
        load=load,
        pinned=pinned,
        allowed=allowed,
    )


def optimum(snapshot: Snapshot, seconds: float) -> float:
    """The lowest possible peak, or the lowest that HiGHS finds in the time."""
    highspy = pytest.importorskip("highspy")
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 1e-3), ("time_limit", seconds)):
        solver.setOptionValue(option, value)
    units, nodes = len(snapshot.unit_ids), range(len(snapshot.node_ids))
    solver.addVar(0, highspy.kHighsInf)
    solver.changeColCost(0, 1.0)
    column: dict[tuple[int, int], int] = {}
    for u in range(units):
        may = [int(snapshot.owner[u])] if snapshot.pinned[u] else snapshot.allowed.get(u, nodes)
        for n in may:
            column[u, int(n)] = 1 + len(column)
            solver.addVar(0, 1)
            solver.changeColIntegrality(len(column), highspy.HighsVarType.kInteger)
        chosen = [column[u, int(n)] for n in may]
        solver.addRow(1, 1, len(chosen), np.array(chosen, np.int32), np.ones(len(chosen)))
    scale = snapshot.load.sum() / snapshot.capacity.sum()
    for n in nodes:
        for d in range(len(snapshot.dimensions)):
            there = [u for u in range(units) if (u, n) in column]
            index = np.array([0, *(column[u, n] for u in there)], np.int32)
            share = snapshot.load[there, d] / snapshot.capacity[n, d] / scale
            solver.addRow(-highspy.kHighsInf, 0, len(index), index, np.array([-1.0, *share]))
    solver.run()
    return float(solver.getInfo().objective_function_value * scale)


def above_one_percent(loads: str, seeds: range, seconds: float) -> tuple[int, list[tuple[int, int]]]:
    """Compare with the optimum wherever the lower bound alone does not prove it.

    Returns how often that was, and the dimensions and seeds of the plans that are more than 1 % above it.
    """
    compared, above = 0, []
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])
        nodes, units, dims = int(rng.integers(2, 9)), int(rng.integers(3, 41)), int(rng.choice([1, 1, 2, 3]))
        snapshot = cluster(seed, nodes, units, loads, dims, rules=bool(rng.random() < 0.5))
        result = plan(snapshot, LeastMoves())
        assert not result.refusals
        if result.gap > 0.01:
            compared += 1
            if result.peak[1] > 1.01 * optimum(snapshot, seconds):
                above.append((dims, seed))
    return compared, above


@pytest.mark.parametrize("loads", sorted(LOADS))
def test_small_instances_are_within_one_percent_of_the_optimum(loads):
    compared, above = above_one_percent(loads, range(29), seconds=0.4)  # 7 × 29 = 203 instances
    assert compared > 0
    assert above == []


@pytest.mark.long
@pytest.mark.parametrize("loads", sorted(LOADS))
def test_more_small_instances_against_a_patient_oracle(loads):
    compared, above = above_one_percent(loads, range(1000, 1060), seconds=20.0)
    assert compared > 0
    assert [seed for dims, seed in above if dims == 1] == []
    assert len(above) <= 2  # of 60: several dimensions on very unlike nodes are the hardest there is


@pytest.mark.parametrize("loads", ["uniform", "exponential", "lognormal"])
def test_fifty_thousand_units(loads):
    for seed in range(2):
        result = plan(cluster(seed, 200, 50_000, loads), LeastMoves())
        assert result.gap <= 0.01
        assert result.moved_load <= 1.2 * result.needed_load
        assert not result.refusals
        assert not result.missed


@pytest.mark.long
@pytest.mark.parametrize("loads", ["uniform", "exponential", "lognormal"])
@pytest.mark.parametrize("seed", range(3))
def test_a_million_units(loads, seed):
    result = plan(cluster(seed, 2_000, 1_000_000, loads), LeastMoves())
    assert result.gap <= 0.01
    assert result.moved_load <= 1.2 * result.needed_load


def test_no_move_within_the_ceiling():
    snapshot = Snapshot.of([Node("a"), Node("b")], [Unit(f"{n}{i}", n, 1.0) for n in "ab" for i in range(50)])
    assert plan(snapshot, LeastMoves()).moves == ()
    uneven = Snapshot.of(
        [Node("a"), Node("b")], [Unit(f"{n}{i}", n, 1.0) for n, k in (("a", 52), ("b", 48)) for i in range(k)]
    )
    assert plan(uneven, LeastMoves(ceiling=0.05)).moves == ()
    assert len(plan(uneven, LeastMoves()).moves) == 2


def test_hysteresis_leaves_nodes_below_the_ceiling_alone():
    counts = {"a": 130, "b": 108, "c": 62}
    units = [Unit(f"{n}{i}", n, 1.0) for n, k in counts.items() for i in range(k)]
    result = plan(Snapshot.of([Node(n) for n in counts], units), LeastMoves(ceiling=0.1, target=0.02))
    assert {(m.giver, m.taker) for m in result.moves} == {("a", "c")}
    assert len(result.moves) == 28  # down to 102


def test_one_hot_unit_is_the_floor_and_its_node_gives_up_the_rest():
    units = [Unit("hot", "a", 10.0), *[Unit(f"x{i}", "a", 1.0) for i in range(4)], Unit("y", "b", 1.0)]
    result = plan(Snapshot.of([Node("a"), Node("b")], units), LeastMoves())
    assert result.floor == "one hot unit is the floor: unit hot"
    assert result.gap == 0.0
    assert {m.unit for m in result.moves} == {"x0", "x1", "x2", "x3"}


def test_a_heavy_unit_drives_lighter_ones_out_of_the_only_node_that_can_bear_it():
    units = [Unit("heavy", "slow", 10.0), *[Unit(f"x{i}", "fast", 1.0) for i in range(10)]]
    result = plan(Snapshot.of([Node("slow"), Node("fast", 10.0), Node("idle", 10.0)], units), LeastMoves())
    assert result.gap <= 0.01 or result.peak[1] <= 1.1
    assert result.peak[1] < 1.2


def test_a_misplaced_unit_goes_where_it_may_run():
    units = [Unit("u", "a", 1.0, allowed=frozenset({"b"})), Unit("v", "b", 1.0), Unit("w", "c", 1.0)]
    result = plan(Snapshot.of([Node("a"), Node("b"), Node("c")], units), LeastMoves())
    assert ("u", "b") in {(m.unit, m.taker) for m in result.moves}


def test_the_churn_budget_goes_to_the_hottest_nodes():
    counts = {"a": 200, "b": 150, "c": 25, "d": 25}
    units = [Unit(f"{n}{i}", n, 1.0) for n, k in counts.items() for i in range(k)]
    result = plan(Snapshot.of([Node(n) for n in counts], units), LeastMoves(), Settings(churn=0.15))
    assert 0.14 <= result.moved_load <= 0.15
    assert result.peak[1] <= 146  # 60 units: a gives 55 and b gives 5
    assert {m.giver for m in result.moves} == {"a", "b"}


def test_a_plan_must_be_worth_its_gain():
    units = [Unit("u", "a", 3.0), Unit("v", "a", 2.9), Unit("w", "b", 2.9), Unit("x", "b", 2.8)]
    snapshot = Snapshot.of([Node("a"), Node("b")], units)
    assert plan(snapshot, LeastMoves()).moves != ()
    assert plan(snapshot, LeastMoves(gain=0.05)).moves == ()


def test_the_limit_is_kept():
    units = [Unit(f"u{i}", "a", 1.0) for i in range(30)] + [Unit(f"v{i}", "b", 1.0) for i in range(4)]
    snapshot = Snapshot.of([Node("a"), Node("b"), Node("c", 0.5)], units)
    result = plan(snapshot, LeastMoves(), Settings(limit=10.0))
    assert not result.failed
    taken = {n: sum(m.taker == n for m in result.moves) for n in "bc"}
    assert taken["b"] <= 6
    assert taken["c"] <= 5


def test_a_unit_in_flight_counts_at_its_taker_and_does_not_move():
    units = [Unit(f"u{i}", "b" if i < 5 else "a", 1.0) for i in range(10)]
    snapshot = Snapshot.of([Node("a"), Node("b")], units, leaving={f"u{i}": "a" for i in range(5)})
    assert plan(snapshot, LeastMoves()).moves == ()  # it is even once they have arrived


def test_a_node_that_cannot_be_helped_now_stops_no_search():
    units = [Unit(f"u{i}", "a", 1.0) for i in range(40)] + [Unit(f"v{i}", "b", 1.0) for i in range(10)]
    snapshot = Snapshot.of([Node("a"), Node("b")], units)
    resting = Settings(cooling=frozenset(f"u{i}" for i in range(35)))
    result = plan(snapshot, LeastMoves(), resting)
    assert result.peak == (40.0, 35.0)
    assert not result.refusals
    assert plan(snapshot, LeastMoves(), Settings(cooling=frozenset(f"u{i}" for i in range(40)))).moves == ()


@pytest.mark.parametrize(
    "snapshot", [Snapshot.of([], []), Snapshot.of([Node("a")], []), Snapshot.of([Node("a")], [Unit("u", "a", 0.0)])]
)
def test_nothing_to_balance(snapshot):
    assert plan(snapshot, LeastMoves()).moves == ()


def test_the_same_input_gives_the_same_plan():
    snapshot = cluster(3, 8, 60, "lognormal", 2, rules=True)
    assert plan(snapshot, LeastMoves()) == plan(snapshot, LeastMoves())


def test_noise_moves_nothing_once_it_is_even():
    rng = np.random.default_rng(5)
    true = rng.exponential(size=256)
    owner = rng.integers(0, 8, 256)
    moves = []
    for _ in range(60):
        measured = true * rng.normal(1.0, 0.02, 256)
        snapshot = Snapshot(
            ("load",), [f"n{n}" for n in range(8)], np.ones((8, 1)), [f"u{u}" for u in range(256)],
            owner.astype(np.int64), measured[:, None], np.zeros(256, bool),
        )  # fmt: skip
        result = plan(snapshot, LeastMoves(ceiling=0.03, target=0.005))
        moves.append(len(result.moves))
        for move in result.moves:
            owner[int(move.unit[1:])] = int(move.taker[1:])
    assert moves[0] > 0
    assert sum(moves[1:5]) < 0.2 * moves[0]  # nodes that were just below the ceiling
    assert sum(moves[5:]) == 0
