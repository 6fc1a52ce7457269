"""Triggers on Spark: the ranks of a power iteration, groups that move, and links that are added later."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.experiments.triggers.graph import power_law, read_graph, skewed_homes
from evenflow.experiments.triggers.live import LiveSettings, measure

pytestmark = pytest.mark.long  # a round is a job of about a second, and a run has hundreds of them


@pytest.fixture(scope="module")
def row(spark):
    settings = LiveSettings(graph=None, pages=150, lanes=2, skew=1.5, tolerance=1e-4, budget_s=0.01, trigroup_s=0.0005)
    graph = power_law(150, np.random.default_rng(1), mean=5.0)
    homes = skewed_homes(graph.pages, 2, settings.skew, np.random.default_rng(2))
    return measure(spark, settings, graph, homes, seed=1)


def test_ranks_are_those_of_a_power_iteration(row):
    assert row["l1_error"] < 1e-3
    assert row["l1_error_none"] < 1e-3
    assert row["residual"] <= 1e-4


def test_groups_move_only_when_a_policy_says_so(row):
    assert row["groups_moved_none"] == 0
    assert row["groups_moved"] > 5
    assert row["instructions"] > 5
    assert row["triggers_moved"] > row["groups_moved"]


def test_added_links_cost_less_than_a_full_run(row):
    assert row["added_links"] > 0
    assert row["added_work_pct"] < 90
    assert row["l1_error_added"] < 1e-3


def test_wiki_vote(spark):
    settings = LiveSettings()
    graph = read_graph("wiki-Vote")
    homes = skewed_homes(graph.pages, settings.lanes, settings.skew, np.random.default_rng([1, 2]))
    row = measure(spark, settings, graph, homes, seed=1)
    assert row["l1_error"] < 1e-6
    assert row["busy_ratio"] <= 0.5
    assert row["groups_moved"] >= 20
    assert row["added_work_pct"] <= 40
    assert row["added_work_pct_coarse"] <= 10
