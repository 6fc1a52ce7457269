"""The planner keeps refusals, goals and the numbers of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from evenflow import guards
from evenflow.draft import Draft, RowMove, Settings
from evenflow.model import Move, Node, Snapshot, Unit
from evenflow.planner import plan


@dataclass
class Says:
    """Offers what it is told to."""

    offers: list
    seen: list = field(default_factory=list)

    def propose(self, draft: Draft):
        for offer in self.offers:
            yield offer
            self.seen.append(draft.load[:, 0].tolist())


SNAPSHOT = Snapshot.of(
    [Node("a"), Node("b")],
    [Unit("u", "a", 3.0), Unit("v", "a", 1.0), Unit("w", "b", 1.0), Unit("p", "b", 1.0, pinned=True)],
)


def test_every_refusal_is_kept_with_its_count():
    offers = [Move("p", "b", "a"), Move("w", "b", "a"), Move("w", "b", "a"), Move("v", "a", "b"), Move("v", "b", "a")]
    result = plan(SNAPSHOT, Says(offers))
    assert result.moves == (Move("v", "a", "b"),)
    assert result.refusals == {"lowers the peak": 2, "moves once": 1, "pinned": 1}


def test_a_policy_reads_what_was_accepted():
    policy = Says([Move("p", "b", "a"), Move("v", "a", "b"), (Move("u", "a", "b"), Move("w", "b", "a"))])
    plan(SNAPSHOT, policy)
    assert policy.seen == [[4.0, 2.0], [3.0, 3.0], [3.0, 3.0]]


def test_a_swap_stands_or_falls_together():
    swap = (Move("u", "a", "b"), Move("w", "b", "a"))
    assert plan(SNAPSHOT, Says([swap])).refusals == {"lowers the peak": 1}
    wide = Snapshot.of([Node("a"), Node("b", 4.0)], [Unit("u", "a", 3.0), Unit("w", "b", 1.0)])
    result = plan(wide, Says([swap]))
    assert result.moves == swap
    assert result.peak == (3.0, 1.0)


def test_rows_and_ids_are_the_same_offer():
    by_row = plan(SNAPSHOT, Says([RowMove(1, 0, 1, "why")]))
    assert by_row == plan(SNAPSHOT, Says([Move("v", "a", "b", "why")]))
    assert by_row == plan(SNAPSHOT, Says([(RowMove(1, 0, 1, "why"),)]))


def test_the_numbers_of_a_plan():
    result = plan(SNAPSHOT, Says([Move("v", "a", "b")]))
    assert result.max_over_mean == (pytest.approx(4 / 3), pytest.approx(1.0))
    assert result.peak == (4.0, 3.0)
    assert result.lower_bound == 3.0
    assert result.gap == 0.0
    assert result.moved_load == pytest.approx(1 / 6)
    assert result.needed_load == pytest.approx(1 / 6)
    assert not result.failed
    assert not result.missed


def test_published_policies_run_with_the_hard_guards_alone():
    class Published(Says):
        guards = guards.HARD

    offers = [Move("w", "b", "a"), Move("p", "b", "a")]
    result = plan(SNAPSHOT, Published(offers), Settings(churn=0.0, cooling={"w"}))
    assert result.moves == (offers[0],)
    assert result.refusals == {"pinned": 1}


def test_no_policy_can_leave_the_hard_guards_out():
    class Reckless(Says):
        guards = ()

    assert plan(SNAPSHOT, Reckless([Move("p", "b", "a")])).refusals == {"pinned": 1}


def test_a_hard_goal_fails_the_plan():
    class Published(Says):
        guards = guards.HARD

    result = plan(SNAPSHOT, Published([Move("w", "b", "a")]), Settings(limit=4.5))
    assert result.failed == ("limit: node a is pushed over it",)
    assert result.moves == ()
    assert result.moved_load == 0.0
    assert result.peak == (4.0, 4.0)


def test_a_soft_goal_is_reported():
    result = plan(SNAPSHOT, Says([]), Settings(limit=3.5, gap=0.1))
    assert result.missed == (
        "gap: 33.33% above the lower bound, the goal is 10.00%",
        "limit: node a is over it",
    )
    assert not result.failed


def test_the_floor_has_a_name():
    nodes = [Node("a"), Node("b")]
    hot = Snapshot.of(nodes, [Unit("hot", "a", 9.0), Unit("x", "b", 1.0)])
    assert plan(hot, Says([])).floor == "one hot unit is the floor: unit hot"
    held = Snapshot.of(nodes, [Unit("u", "a", 5.0, pinned=True), Unit("v", "a", 4.0, pinned=True), Unit("x", "b", 1.0)])
    assert plan(held, Says([])).floor == "the pinned load of one node is the floor: node a"
    assert plan(SNAPSHOT, Says([])).floor == "the mean is the floor"


def test_nothing_to_balance():
    for snapshot in (
        Snapshot.of([], []),
        Snapshot.of([Node("a")], []),
        Snapshot.of([Node("a")], [Unit("u", "a", 0.0)]),
    ):
        result = plan(snapshot, Says([]))
        assert (result.gap, result.max_over_mean, result.moved_load) == (0.0, (1.0, 1.0), 0.0)


def test_the_draft_answers_a_policy():
    draft = Draft(SNAPSHOT, Settings(cooling={"w"}))
    assert draft.units_of(0).tolist() == [0, 1]
    assert [rows.tolist() for rows in draft.units_by_node()] == [[0, 1], [2, 3]]
    assert draft.movable().tolist() == [True, True, False, False]
    assert draft.movable(resting=True).tolist() == [True, True, True, False]
    assert draft.level(0) == 4.0
    assert draft.level(1, plus=0) == 5.0
    assert draft.utilisation.tolist() == [4.0, 2.0]
    assert (draft.mean, draft.peak, draft.gap) == (3.0, 4.0, pytest.approx(1 / 3))
    assert draft.move(0, 1, "x") == RowMove(0, 0, 1, "x")
    assert np.array_equal(draft.held, draft.load)
