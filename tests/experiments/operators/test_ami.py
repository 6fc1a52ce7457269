"""The evaluation of section 4 in virtual time: published rules, published order of magnitude, nothing wrong."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from evenflow.errors import BadInput
from evenflow.experiments.operators.ami import AmiSettings, run
from evenflow.experiments.operators.chaos import ChaosSettings, run_mode
from evenflow.experiments.operators.chaos import run as run_chaos
from evenflow.experiments.operators.scale import ScaleSettings
from evenflow.experiments.operators.scale import run as run_scale
from evenflow.experiments.operators.scenario_file import parse_scenario
from evenflow.experiments.operators.workload import WorkloadSettings, scenario
from evenflow.operators.carrier import Carrier
from evenflow.operators.custody import Custody
from evenflow.sim import Simulation

FILE = Path(__file__).parent / "ami-scenario-1.json"
FIELDS = {
    "reduction_pct", "fewer_pct", "ties_pct", "more_pct", "above_ut_reduction_pct", "max_memory_off", "max_memory_on",
    "std_reduction_pct", "messages", "transfers", "duplicates", "infeasible", "pushed_over",
    "overload_episode_s_off", "overload_episode_s_on",
}  # fmt: skip


def rows(seeds: range, **settings: Any) -> list[dict[str, Any]]:
    return [dict(run(AmiSettings(**settings), seed, None)) for seed in seeds]


def mean(found: list[dict[str, Any]], name: str) -> float:
    return fmean(row[name] for row in found)


@pytest.fixture(scope="module")
def fixed() -> list[dict[str, Any]]:
    return rows(range(1, 9))


@pytest.fixture(scope="module")
def even() -> list[dict[str, Any]]:
    return rows(range(1, 9), mode="even")


def test_the_log_without_the_protocol_is_the_files(evenflow, tmp_path):
    ended = evenflow("experiment", "ami", "--scenario", FILE, "--json", "--report", tmp_path)
    row = json.loads(ended.out)["rows"][0]
    assert row["log_off"] == json.loads(FILE.read_text())["off"]
    assert len(row["log_on"]) == 481
    assert {len(line) for line in row["log_on"]} == {15}
    assert row.keys() >= FIELDS
    assert row["fewer_pct"] + row["ties_pct"] + row["more_pct"] == pytest.approx(100.0)
    page = next(tmp_path.glob("*.html")).read_text()
    assert "Figure 15" in page
    assert "Figure 16" in page


def test_without_a_unit_that_negotiates_nothing_changes():
    row = run(AmiSettings(scenario=str(FILE), lower=0.0, upper=10_000.0, target=50.0), 1, None)
    assert row["log_on"] == row["log_off"]
    assert row["transfers"] == 0


def test_the_corrected_protocol_does_nothing_wrong_and_helps(fixed):
    for row in fixed:
        assert (row["duplicates"], row["infeasible"], row["pushed_over"]) == (0, 0, 0)
    assert 12.0 < mean(fixed, "reduction_pct") < 36.0
    assert 60.0 < mean(fixed, "fewer_pct") < 97.0


def test_the_protocol_as_printed_and_as_told_does_wrong_what_the_corrections_correct(fixed):
    for mode in ("literal", "text"):
        found = rows(range(1, 6), mode=mode)
        assert mean(found, "duplicates") > 0
        assert mean(found, "infeasible") > 0
        assert mean(found, "pushed_over") > 0
        assert 5.0 < mean(found, "reduction_pct") < mean(fixed, "reduction_pct") + 5.0


def test_our_protocol_does_better_with_fewer_messages(fixed, even):
    for row in even:
        assert (row["duplicates"], row["infeasible"], row["pushed_over"]) == (0, 0, 0)
    assert mean(even, "reduction_pct") > mean(fixed, "reduction_pct") + 2.0
    assert mean(even, "messages") < 2.0 * mean(fixed, "messages")


def test_the_yardstick_pushes_nobody_over():
    for row in rows(range(1, 3), mode="central"):
        assert (row["duplicates"], row["infeasible"], row["pushed_over"], row["messages"]) == (0, 0, 0, 0)
        assert row["reduction_pct"] > 10.0


def test_accepting_to_the_target_moves_less(fixed):
    assert mean(rows(range(1, 4), accept="target"), "transfers") < mean(fixed[:3], "transfers")


def test_the_same_seed_gives_the_same_row(even):
    assert rows(range(1, 2), mode="even")[0] == even[0]


def test_worlds_have_the_shape_that_was_asked_for():
    world = scenario(WorkloadSettings(), Simulation(3).chance("world"))
    assert len(world.graph) == 360
    assert {list(world.where.values()).count(unit) for unit in world.tree.units} == {24}
    assert not world.graph.misplaced(world.where, world.tree)
    linked = [op for op in world.graph.operators.values() if op.down is not None]
    assert 120 < len(linked) < 200
    assert 0.35 < sum(world.where[op.id] == world.where[op.down] for op in linked) / len(linked) < 0.65
    grow = [change for at, _, change in world.schedule if at < 482]
    assert all(change >= 0 for change in grow)
    assert 1.7 < fmean(grow) < 2.3
    assert all(change <= 0 for at, _, change in world.schedule if at >= 482)


def test_a_world_that_starts_overloaded_is_refused(evenflow):
    for words in (["size_low=3", "size_high=3"], ["placement=random", "size_low=2", "size_high=3"]):
        ended = evenflow("experiment", "ami", *(w for word in words for w in ("--set", word)))
        assert (ended.code, ended.out) == (2, "")
        assert "at most 60 %" in ended.err


def test_thresholds_in_the_wrong_order_are_refused(evenflow):
    ended = evenflow("experiment", "ami", "--set", "lower=70")
    assert (ended.code, ended.out) == (2, "")
    assert "lower at most target" in ended.err


GOOD: dict[str, Any] = {
    "parent": [None, 0],
    "ops": [{"id": 1, "node": 1, "size": 2.0, "down": 2, "meter_leaves": [1]}, {"id": 2, "node": 0, "size": 1}],
    "schedule": [[2.0, 1, 3.0]],
}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"parent": [0, None, 7]}, "parent[2]"),
        ({"parent": [1, 0]}, "parent"),
        ({"ops": "x"}, "ops"),
        ({"ops": [{"id": 1, "node": 9, "size": 1}]}, "ops[0].node"),
        ({"ops": [{"id": 1, "node": 1, "size": -1}]}, "ops[0].size"),
        ({"ops": [{"id": 1, "node": 1, "size": 1, "meter_leaves": [0]}]}, "ops[0].meter_leaves"),
        ({"ops": [{"id": 1, "node": 1, "size": 1, "down": 5, "meter_leaves": [1]}]}, "ops"),
        ({"ops": [{"id": 1, "node": 1, "size": 1, "meter_leaves": [1]}] * 2}, "ops"),
        ({"schedule": [[1.0, 99, 1.0]]}, "schedule[0]"),
        ({"schedule": [[1.0, 1]]}, "schedule[0]"),
        ({"schedule": [[1.0, 1, "x"]]}, "schedule[0]"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_by_field(change, where):
    assert parse_scenario(GOOD, "w.json").where == {1: "unit-1", 2: "unit-0"}
    with pytest.raises(BadInput) as caught:
        parse_scenario(GOOD | change, "w.json")
    assert caught.value.where == f"w.json: {where}"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"parent": []}'])
def test_files_that_are_no_scenario(evenflow, tmp_path, text):
    path = tmp_path / "w.json"
    path.write_text(text)
    ended = evenflow("experiment", "ami", "--scenario", path)
    assert (ended.code, ended.out) == (2, "")


@pytest.fixture(scope="module")
def chaos() -> list[dict[str, Any]]:
    return [dict(run_chaos(ChaosSettings(), seed, None)) for seed in range(1, 13)]


def test_chaos_loses_doubles_and_misplaces_nothing(chaos):
    for row in chaos:
        assert (row["lost"], row["duplicated"], row["infeasible"], row["unfinished"]) == (0, 0, 0, 0)


def test_it_was_really_chaos(chaos):
    total = {name: sum(row[name] for row in chaos) for name in ("moved", "rolled_back", "crashes")}
    assert total["moved"] > 200
    assert total["rolled_back"] > 10
    assert total["crashes"] > 200
    assert len({message for row in chaos for counts in row["faults"].values() for message in counts}) >= 12


def test_an_operator_that_is_under_way_when_the_run_ends_is_not_lost(monkeypatch):
    """No shipment arrives here, and the giver keeps what it shipped until there is a receipt."""
    monkeypatch.setattr(Carrier, "_on_ship", lambda *_: None)
    found = [run_mode(ChaosSettings(seconds=10.0), "fixed", seed, None) for seed in range(1, 6)]
    assert sum(row["lost"] for row in found) == 0
    assert sum(row["unprocessed"] for row in found) > 5
    assert all(row["unfinished"] for row in found if row["unprocessed"])


def test_chaos_finds_a_unit_that_forgets_what_it_shipped(monkeypatch):
    keep = Custody.durable
    monkeypatch.setattr(Custody, "durable", lambda self: keep(self) | {"shipped": {}})
    found = [run_mode(ChaosSettings(), "fixed", seed, None) for seed in range(1, 16)]
    assert sum(row["lost"] for row in found) > 0


def test_chaos_finds_a_unit_that_forgets_what_it_expects(monkeypatch):
    keep = Custody.durable
    monkeypatch.setattr(Custody, "durable", lambda self: keep(self) | {"expected": {}})
    found = [run_mode(ChaosSettings(), "fixed", seed, None) for seed in range(1, 16)]
    assert sum(row["unfinished"] + row["lost"] for row in found) > 0


def test_a_larger_tree():
    row = run_scale(ScaleSettings(levels=6, operators=1500, surges=4, seconds=120.0), 1, None)
    assert row["units"] == 63
    assert (row["duplicates"], row["infeasible"], row["pushed_over"]) == (0, 0, 0)


@pytest.mark.long
def test_published_numbers_over_75_seeds():
    text, fixed = rows(range(1, 76), mode="text"), rows(range(1, 76))
    assert mean(text, "reduction_pct") == pytest.approx(20.0, abs=5.0)
    assert mean(text, "fewer_pct") == pytest.approx(76.0, abs=8.0)
    assert mean(fixed, "reduction_pct") == pytest.approx(24.0, abs=5.0)
    assert mean(fixed, "fewer_pct") == pytest.approx(83.0, abs=7.0)


@pytest.mark.long
def test_ours_against_the_yardstick_over_75_seeds():
    ours, fixed, central = (rows(range(1, 76), mode=mode) for mode in ("even", "fixed", "central"))
    assert mean(ours, "reduction_pct") >= 0.9 * mean(central, "reduction_pct")
    assert mean(ours, "reduction_pct") >= mean(fixed, "reduction_pct") + 4.0
    assert mean(ours, "above_ut_reduction_pct") >= 19.0
    assert mean(ours, "max_memory_on") <= mean(ours, "max_memory_off")
    assert mean(ours, "messages") <= 2.0 * mean(fixed, "messages")
    assert sum(row["pushed_over"] for row in ours) == 0


@pytest.mark.long
def test_chaos_over_a_thousand_seeds():
    for seed in range(1, 1001):
        row = run_chaos(ChaosSettings(), seed, None)
        assert (row["lost"], row["duplicated"], row["infeasible"], row["unfinished"]) == (0, 0, 0, 0), seed
