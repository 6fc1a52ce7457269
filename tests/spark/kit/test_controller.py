from __future__ import annotations

import numpy as np
import pytest

from evenflow.errors import BadInput
from evenflow.spark.kit.controller import Balancing, Control
from evenflow.spark.kit.routes import SETTING, Entry, Routes
from evenflow.spark.kit.samples import Cost, Sample

SLICES, LANES = 16, 4


def batch(number: int, loads, routes: Routes, period: float = 1.0, cpu: float = 1.0) -> list[Sample]:
    """What the lanes measure when slices take so many wall seconds, of which ``cpu`` is CPU."""
    found = []
    for lane in range(routes.lanes):
        here = {s: Cost(10, loads[s] * cpu, loads[s], 1000) for s in range(routes.slices) if routes.lane[s] == lane}
        total = sum(cost.wall_s for cost in here.values())
        found.append(Sample(number, lane, number * period, 10 * len(here), total, total, 0, 0, 0, here))
    return found


def run(control: Control, loads, routes: Routes, batches: int = 10, **options):
    """Return all moves and records of some batches; the moves are carried out at once."""
    moves, records = [], []
    for number in range(batches):
        control.observe(batch(number, loads, routes, **options))
        wanted, noted = control.decide(routes, float(number))
        for s, lane, _ in wanted:
            routes.lane[s] = lane
        moves += wanted
        records += noted
    return moves, records


SKEWED = np.array([0.2 if s % LANES == 0 else 0.02 for s in range(SLICES)])


def level(loads, routes):
    total = np.zeros(routes.lanes)
    np.add.at(total, routes.lane, loads)
    return total.max() / total.mean()


def test_a_skewed_stream_is_evened_out_once_and_then_left_alone():
    control, routes = Control(SLICES, Balancing()), Routes(SLICES, LANES, LANES)
    assert level(SKEWED, routes) > 3
    moves, records = run(control, SKEWED, routes, period=0.5)
    assert level(SKEWED, routes) < 1.06
    assert 3 <= len(moves) <= 6
    (made,) = [r for r in records if r["kind"] == "plan"]
    assert made["carried_out"]
    assert made["gain_s_per_batch"] == pytest.approx(0.8 - 0.26, abs=0.02)
    assert made["cost"]["bytes"] == 1000 * len(moves)
    assert made["gap"] < 0.06
    assert [r["why"] for r in records if r["kind"] == "refusal"] == ["even enough"]
    noise = np.random.default_rng(3)
    later, _ = run(control, SKEWED * noise.normal(1, 0.02, SLICES), routes, 20, period=0.5)
    assert later == []


def counted(number: int, rows, seconds, routes: Routes) -> list[Sample]:
    """What the lanes measure when slices get so many rows and take so many seconds."""
    lanes = [
        {s: Cost(int(rows[s]), seconds[s], seconds[s]) for s in range(routes.slices) if routes.lane[s] == lane}
        for lane in range(routes.lanes)
    ]
    return [
        Sample(number, lane, float(number), sum(c.rows for c in here.values()), 0.0, 0.0, 0, 0, 0, here)
        for lane, here in enumerate(lanes)
    ]


def test_loads_follow_rows_that_drift_and_do_not_follow_noise_of_the_clock():
    control, routes, chance = Control(2, Balancing()), Routes(2, 2, 2), np.random.default_rng(5)
    for number in range(30):
        rows = np.array([1000 + 50 * number, 1000])
        control.observe(counted(number, rows, 1e-3 * rows * chance.lognormal(0, 0.15, 2), routes))
    drifting, steady = control.loads.of("cpu")
    assert drifting == pytest.approx(1e-3 * (1000 + 50 * 30.5), rel=0.08)  # plain smoothing stays 75 rows behind
    assert steady == pytest.approx(1.0, rel=0.08)


def drifted(trend: float, seed: int, slices: int = 64) -> float:
    """Return the mean level while hot slices hand their rows over to others, within 30 batches."""
    control, routes = Control(slices, Balancing(trend=trend, keep_up=0.0)), Routes(slices, LANES, LANES)
    weight = 20_000 / np.arange(1, slices + 1)
    first, second = (np.random.default_rng([seed, n]).permutation(weight) for n in (0, 1))
    levels, lanes = [], routes.lane
    for number in range(30):
        rows = np.round(first + (second - first) * number / 29)
        levels.append(level(rows, routes))
        control.observe(counted(number, rows, 1e-5 * rows, routes))
        routes.lane = lanes  # what was decided before this batch holds from the next one on
        wanted, _ = control.decide(routes, float(number))
        lanes = list(lanes)
        for s, lane, _ in wanted:
            lanes[s] = lane
    return float(np.mean(levels[8:]))


def test_a_drift_is_met_earlier_with_a_trend():
    with_trend, without = ([drifted(trend, seed) for seed in range(5)] for trend in (0.2, 0.0))
    assert np.mean(with_trend) < 1.1
    assert np.mean(with_trend) < np.mean(without) - 0.02


@pytest.mark.parametrize(
    ("balancing", "options", "why"),
    [
        (Balancing(), {"period": 10.0}, "every lane keeps up"),
        (Balancing(when="max_over_mean > 9"), {}, "condition 'max_over_mean > 9' does not hold"),
        (Balancing(horizon=0), {}, "the gain does not pay for the cost"),
        (Balancing(tolerance=5.0), {}, "even enough"),
    ],
)
def test_nothing_moves_without_a_reason(balancing, options, why):
    routes = Routes(SLICES, LANES, LANES)
    moves, records = run(Control(SLICES, balancing), SKEWED, routes, **options)
    assert moves == []
    assert [r["why"] for r in records if r["kind"] == "refusal"] == [why]


def test_a_dry_run_plans_and_moves_nothing():
    routes = Routes(SLICES, LANES, LANES)
    moves, records = run(Control(SLICES, Balancing(dry_run=True)), SKEWED, routes)
    assert moves == []
    assert next(len(r["moves"]) > 0 and not r["carried_out"] for r in records if r["kind"] == "plan")


def test_operators_are_obeyed_first():
    control, routes = Control(SLICES, Balancing()), Routes(SLICES, LANES, LANES)
    run(control, SKEWED, routes)
    routes.apply([Entry(SETTING, 0, name="pin", value=[0, 3]), Entry(SETTING, 0, name="rest", value=[2])])
    leaving = routes.lane.count(2)
    moves, _ = run(control, SKEWED, routes, 1)
    assert {why for _, _, why in moves} == {"pinned", "lane 2 is drained"}
    assert leaving > 0
    assert (routes.lane[0], routes.lane.count(2)) == (3, 0)
    assert level(SKEWED, routes) * 3 / 4 < 1.4  # over the three lanes that are left
    routes.apply([Entry(SETTING, 0, name="paused", value=True), Entry(SETTING, 0, name="use", value=[2])])
    assert run(control, SKEWED, routes, 5)[0] == []
    routes.apply([Entry(SETTING, 0, name="paused", value=False)])
    moves, _ = run(control, SKEWED, routes, 5)
    assert routes.lane.count(2) > 0
    assert 0 not in {s for s, _, _ in moves}


def test_slices_that_wait_are_balanced_by_wall_time():
    routes = Routes(SLICES, LANES, LANES)
    control = Control(SLICES, Balancing())
    moves, _ = run(control, SKEWED, routes, cpu=0.01)
    assert moves
    assert level(SKEWED, routes) < 1.06


def test_the_first_batch_of_fresh_workers_does_not_count():
    routes = Routes(SLICES, LANES, LANES)
    control = Control(SLICES, Balancing())
    control.observe(batch(0, np.full(SLICES, 9.0), routes))
    assert control.loads.batches == 0
    control.observe(batch(1, SKEWED, routes))
    assert control.loads.of("cpu").tolist() == SKEWED.tolist()


def test_bad_settings_are_refused_before_anything_runs():
    with pytest.raises(BadInput, match="least_moves"):
        Balancing(policy="least_movs")
    with pytest.raises(BadInput):
        Balancing(when="busy >")
