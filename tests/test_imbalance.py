"""Measures of imbalance, and the lower bound."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow import imbalance
from evenflow.imbalance import Bound
from evenflow.model import Node, Snapshot, Unit


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def test_capacity_is_a_weight():
    load, capacity = column(2, 4, 10), column(1, 2, 5)
    assert imbalance.utilisation(load, capacity).tolist() == [2, 2, 2]
    assert imbalance.max_over_mean(load, capacity) == pytest.approx(1.0)


def test_the_worst_dimension_counts():
    load, capacity = np.array([[1.0, 9.0], [1.0, 1.0]]), np.ones((2, 2))
    assert imbalance.peak(load, capacity) == 9
    assert imbalance.mean(load, capacity) == 5
    assert imbalance.max_over_mean(load, capacity) == pytest.approx(1.8)


def test_no_load_is_even():
    load, capacity = column(0, 0), column(1, 1)
    assert imbalance.max_over_mean(load, capacity) == 1.0
    assert imbalance.gap(0.0, 0.0) == 0.0
    assert imbalance.needed(load, capacity, 0.0) == 0.0


def test_the_bound_is_the_mean():
    snapshot = Snapshot.of([Node("a"), Node("b", 3.0)], [Unit(str(i), "a", 1.0) for i in range(8)])
    assert imbalance.lower_bound(snapshot) == Bound(2.0, "mean", -1, 0)


def test_the_bound_is_one_hot_unit_on_the_fastest_node_it_may_run_on():
    nodes = [Node("a"), Node("b", 2.0), Node("c", 4.0)]
    anywhere = Unit("hot", "a", 8.0)
    assert imbalance.lower_bound(Snapshot.of(nodes, [anywhere])) == Bound(2.0, "unit", 0, 0)
    kept_off = Unit("hot", "a", 8.0, allowed=frozenset({"a", "b"}))
    assert imbalance.lower_bound(Snapshot.of(nodes, [kept_off])) == Bound(4.0, "unit", 0, 0)


def test_one_node_must_carry_a_unit_in_all_dimensions():
    nodes = [Node("a", {"cpu": 4.0, "memory": 1.0}), Node("b", {"cpu": 1.0, "memory": 4.0})]
    hot = Unit("hot", "a", {"cpu": 4.0, "memory": 4.0})
    assert imbalance.lower_bound(Snapshot.of(nodes, [hot])).value == 4.0


def test_the_bound_is_the_pinned_load_of_a_node():
    nodes = [Node("a"), Node("b")]
    units = [Unit(str(i), "a", 2.0, pinned=True) for i in range(3)] + [Unit("x", "b", 1.0)]
    assert imbalance.lower_bound(Snapshot.of(nodes, units)) == Bound(6.0, "pinned", 0, 0)


def test_no_units_have_no_bound():
    assert imbalance.lower_bound(Snapshot.of([Node("a")], [])).value == 0.0


def test_needed_is_what_lies_above_the_bound():
    assert imbalance.needed(column(6, 2), column(1, 1), 4.0) == pytest.approx(0.25)
