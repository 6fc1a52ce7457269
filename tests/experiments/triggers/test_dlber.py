"""PageRank by triggers in virtual time: what balancing brings, that ranks are right, and that faults cost nothing."""

from __future__ import annotations

import gzip
import json
from typing import Any

import networkx as nx
import numpy as np
import pytest

from evenflow.experiments.triggers import chaos as dlber_chaos
from evenflow.experiments.triggers import dlber
from evenflow.experiments.triggers.chaos import ChaosSettings
from evenflow.experiments.triggers.dlber import Settings, play
from evenflow.experiments.triggers.graph import power_law, read_graph, skewed_homes
from evenflow.experiments.triggers.live import l1, normalised
from evenflow.experiments.triggers.world import Cluster
from evenflow.trace import MemoryTrace, line

SMALL: dict[str, Any] = {"pages": 250, "workers": 4, "tolerance": 0.1}
FIELDS = [
    "makespan_s",
    "makespan_none_s",
    "makespan_ideal_s",
    "better_pct",
    "total_work_s",
    "bound_s",
    "over_pct",
    "messages",
    "groups_moved",
    "idle_s",
    "decision_s",
    "residual",
]


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    names = ("dlber", "fill_to_mean", "ask_when_idle", "none", "shared_queue")
    return {name: dict(dlber.run(Settings(policy=name, skew=1.5, **SMALL), 1, None)) for name in names}


@pytest.mark.parametrize("policy", ["dlber", "fill_to_mean", "ask_when_idle"])
def test_balancing_helps_on_a_skewed_placement(rows, policy):
    row = rows[policy]
    assert row["better_pct"] > 20
    assert row["groups_moved"] > 5
    assert row["messages"] >= row["groups_moved"] * 0.1
    assert 0 <= row["over_pct"] < rows["none"]["over_pct"]


def test_every_policy_meets_the_same_world(rows):
    assert len({row["makespan_none_s"] for row in rows.values()}) == 1
    assert len({row["makespan_ideal_s"] for row in rows.values()}) == 1
    assert rows["none"]["better_pct"] == rows["none"]["messages"] == 0
    assert rows["shared_queue"]["makespan_s"] == rows["shared_queue"]["makespan_ideal_s"]


def test_the_numbers_fit_together(rows):
    for row in rows.values():
        assert set(FIELDS) <= set(row)
        assert row["residual"] <= SMALL["tolerance"]
        assert row["bound_s"] == pytest.approx(row["total_work_s"] / 4)
        assert row["makespan_s"] >= row["bound_s"]
        if row is not rows["shared_queue"]:
            assert row["idle_s"] == pytest.approx(4 * row["makespan_s"] - row["total_work_s"])


def test_without_coalescing_hubs_concentrate_the_work():
    rows = {c: dlber.run(Settings(skew=0.0, coalesce=c, pages=200, tolerance=0.1), 1, None) for c in (True, False)}
    assert rows[False]["over_none_pct"] > 1.5 * rows[True]["over_none_pct"]
    assert rows[False]["better_pct"] > rows[True]["better_pct"] + 10
    assert rows[False]["residual"] <= 0.1
    assert rows[False]["makespan_ideal_s"] is None


def test_workers_of_different_speed():
    row = dlber.run(Settings(policy="fill_to_mean", skew=0.0, spread=4.0, **SMALL), 1, None)
    assert row["better_pct"] > 10
    assert row["bound_s"] < row["makespan_s"]


def test_tight_ranks_are_those_of_networkx():
    settings = Settings(**{**SMALL, "tolerance": 1e-7}, policy="ask_when_idle")
    graph = power_law(250, np.random.default_rng(3))
    given = nx.DiGraph((a, b) for a, targets in graph.links.items() for b in targets)
    given.add_nodes_from(graph.pages)
    done = play(settings, 1, "ask_when_idle", graph)
    assert l1(normalised(done.cluster.rows()), nx.pagerank(given, tol=1e-12, max_iter=1000)) < 1e-6
    assert done.cluster.total("lent") > 0


def test_the_same_seed_gives_the_same_trace():
    def written(seed: int) -> str:
        trace = MemoryTrace()
        dlber.run(Settings(pages=100, workers=3, tolerance=0.2), seed, trace)
        return "\n".join(line(record) for record in trace.records)

    assert written(1) == written(1) != written(2)


def test_the_bundled_graph():
    graph = read_graph("wiki-Vote")
    assert (len(graph.pages), graph.edges) == (7115, 103689)


def test_generated_graphs_are_as_described():
    graph = power_law(2000, np.random.default_rng(5))
    degrees = [len(targets) for targets in graph.links.values()]
    assert np.mean(degrees) == pytest.approx(8.0, rel=0.05)
    assert max(degrees) > 100
    homes = skewed_homes(graph.pages, 8, 1.0, np.random.default_rng(1))
    counts = np.bincount(list(homes.values()))
    assert counts.tolist() == pytest.approx((2000 / np.arange(1, 9) / (1 / np.arange(1, 9)).sum()).tolist(), abs=1)


@pytest.mark.parametrize(
    ("content", "words"),
    [("1 2\n3 x\n", "line 2"), ("# nothing\n", "at least one edge"), ("1 2 3\n", "two whole numbers")],
)
def test_a_bad_edge_list_is_told_with_its_line(evenflow, tmp_path, content, words):
    (tmp_path / "edges.txt.gz").write_bytes(gzip.compress(content.encode()))
    ended = evenflow("experiment", "dlber", "--set", f"graph={tmp_path / 'edges.txt.gz'}")
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


@pytest.mark.parametrize("words", ["graph=nosuch.txt", "policy=dlbr", "tunder_s=5", "heartbeat_s=6", "skew=-1"])
def test_bad_settings_are_one_sentence(evenflow, words):
    ended = evenflow("experiment", "dlber", "--set", words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


def test_the_command(evenflow, tmp_path):
    words = [w for k, v in {**SMALL, "pages": 100}.items() for w in ("--set", f"{k}={v}")]
    ended = evenflow("experiment", "dlber", *words, "--json", "--report", tmp_path)
    found = json.loads(ended.out)
    assert ended.code == 0
    assert set(FIELDS) <= set(found["mean"])
    assert (tmp_path / "index.html").exists() or list(tmp_path.glob("*.html"))


# -- chaos -------------------------------------------------------------------------------------------


def chaos(seeds: range, **settings: Any) -> list[dict[str, Any]]:
    return [dict(dlber_chaos.run(ChaosSettings(**{"pages": 40, "seconds": 8.0, **settings}), s, None)) for s in seeds]


def test_no_trigger_is_lost_and_none_has_its_effect_twice():
    rows = chaos(range(1, 7))
    for row in rows:
        assert (row["lost"], row["doubled"], row["unfinished"]) == (0, 0, 0), row
    total = {name: sum(row[name] for row in rows) for name in ("crashes", "lent", "taken_back", "late_results")}
    assert total["crashes"] > 10
    assert total["lent"] > 300
    assert total["taken_back"] > 0
    assert total["late_results"] > 0
    kinds = {kind for row in rows for kind in row["faults"]}
    assert {"loss of group", "duplication of group", "loss of result", "duplication of result"} <= kinds


def test_a_run_that_is_cut_off_has_lost_nothing(monkeypatch):
    """Triggers wait, run, are lent, and events are on their way: what they would do is not there yet, and not lost."""
    monkeypatch.setattr(Cluster, "run", lambda self, **_: self.sim.run(until=self.sim.now + 0.05))
    rows = chaos(range(1, 7), seconds=2.0)
    assert [row["lost"] for row in rows] == [0] * 6
    assert sum(row["unprocessed"] > 0 for row in rows) > 3
    assert all(row["unfinished"] for row in rows if row["unprocessed"])


@pytest.mark.parametrize("ablate", ["channel", "durable"])
def test_what_is_taken_away_was_needed(ablate):
    rows = chaos(range(1, 4), ablate=ablate)
    assert sum(row["lost"] + row["doubled"] + row["unfinished"] for row in rows) > 0


@pytest.mark.long
def test_chaos_campaign():
    for row in chaos(range(100, 400), pages=60, seconds=12.0):
        assert (row["lost"], row["doubled"], row["unfinished"]) == (0, 0, 0), row


@pytest.mark.long
@pytest.mark.parametrize(("skew", "low", "high"), [(0.6, 15, 35), (1.0, 45, 75), (1.2, 75, 120), (1.5, 100, 165)])
def test_the_published_gain(skew, low, high):
    rows = [dlber.run(Settings(skew=skew), seed, None) for seed in range(1, 6)]
    assert low <= np.mean([row["better_pct"] for row in rows]) <= high
    assert np.mean([row["over_pct"] for row in rows]) <= 14
