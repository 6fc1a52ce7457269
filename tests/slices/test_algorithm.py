"""When the planner is asked: at once for a clear imbalance, for a small one only while a plan settles."""

from __future__ import annotations

from collections import deque

import pytest

from evenflow.actor import Note
from evenflow.policies import named
from evenflow.slices.algorithm import Movement, Planned
from evenflow.slices.nodemap import NodeMap, NodeView

SLICES = 40


class Rounds:
    """Two nodes with twenty slices each; a round is told by how much the first node is above the mean."""

    def __init__(self, **settings) -> None:
        policy = named("least_moves", ceiling=0.01, target=0.0)
        self.algorithm = Planned(policy, every_s=5.0, samples=1, doubt=3.0, tolerance=0.04, **settings)
        self.now = 0.0

    def moves(self, excess: float) -> bool:
        self.now += 6.0
        nodes = NodeMap(SLICES)
        for name in ("A", "B"):
            nodes.nodes[name] = NodeView(name, 0.0, 100.0, deque(), heard=self.now)
        for s in range(SLICES):
            nodes.owner[s] = "A" if s < SLICES // 2 else "B"
            nodes.estimates[s].update(1.0 + excess if s < SLICES // 2 else 1.0 - excess, 0.2)
        decided = self.algorithm.analyze(nodes, self.now)
        assert any(isinstance(d, Note) for d in decided)
        return any(isinstance(d, Movement) for d in decided)


@pytest.mark.parametrize("settle", [0, 10])
def test_a_clear_imbalance_is_dealt_with_at_once_and_a_small_one_left(settle):
    rounds = Rounds(settle=settle)
    assert not any(rounds.moves(0.03) for _ in range(20))
    assert rounds.moves(0.05)


def test_what_a_plan_left_is_dealt_with_soon_after_it():
    rounds = Rounds(settle=10, patience=3)
    assert rounds.moves(0.5)
    assert [rounds.moves(0.03) for _ in range(3)] == [False, False, True]


def test_a_plan_without_settling_leaves_it():
    rounds = Rounds()
    assert rounds.moves(0.5)
    assert not any(rounds.moves(0.03) for _ in range(20))


def test_what_is_seen_now_and_then_is_noise():
    rounds = Rounds(settle=10, patience=3)
    assert rounds.moves(0.5)
    assert not any(rounds.moves(excess) for excess in (0.03, 0.03, 0.01) * 3)


def test_settling_ends():
    rounds = Rounds(settle=4, patience=3)
    assert rounds.moves(0.5)
    assert not any(rounds.moves(0.01) for _ in range(4))
    assert not any(rounds.moves(0.03) for _ in range(20))


def test_settling_does_not_prolong_itself():
    rounds = Rounds(settle=6, patience=3)
    assert rounds.moves(0.5)
    assert [rounds.moves(0.03) for _ in range(12)].count(True) == 2
