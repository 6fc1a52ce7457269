"""Triggers on Spark: the ranks of a power iteration, balanced lanes, and links that are added later."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.experiments.dlber_graph import power_law, skewed_homes
from evenflow.experiments.dlber_live import LiveSettings, measure


@pytest.fixture(scope="module")
def row(spark):
    settings = LiveSettings(
        graph=None, pages=200, lanes=3, skew=1.5, tolerance=1e-6, coarse=None, budget_s=0.03, trigroup_s=0.001
    )
    graph = power_law(200, np.random.default_rng(1), mean=5.0)
    homes = skewed_homes(graph.pages, 3, settings.skew, np.random.default_rng(2))
    return measure(spark, settings, graph, homes, seed=1)


def test_ranks_are_those_of_a_power_iteration(row):
    assert row["l1_error"] < 1e-5
    assert row["l1_error_none"] < 1e-5
    assert row["residual"] <= 1e-6


def test_groups_move_only_when_a_policy_says_so(row):
    assert row["groups_moved_none"] == 0
    assert row["groups_moved"] >= row["instructions"] * 0.5 > 5
    assert row["triggers_moved"] > row["groups_moved"]


def test_the_slowest_lane_has_less_to_do(row):
    assert row["busy_ratio"] < 0.9  # CPU seconds of a busy machine; dlber-live measures more carefully


def test_added_links_cost_less_than_a_full_run(row):
    assert row["added_links"] > 0
    assert row["added_work_pct"] < 90
    assert row["l1_error_added"] < 1e-5
