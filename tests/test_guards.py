"""Every guard refuses by its name, and only what it must."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow import guards
from evenflow.draft import Draft, Settings
from evenflow.model import Move, Node, Snapshot, Unit

NODES = [Node("a"), Node("b"), Node("c")]
UNITS = [
    Unit("big", "a", 6.0),
    Unit("small", "a", 2.0),
    Unit("fixed", "a", 1.0, pinned=True),
    Unit("choosy", "a", 1.0, allowed=frozenset({"a", "b"})),
    Unit("other", "b", 3.0),
]


def draft(leaving: dict[str, str] | None = None, **settings) -> Draft:
    return Draft(Snapshot.of(NODES, UNITS, leaving), Settings(**settings))


def refused(view: Draft, *moves: tuple[str, str, str]) -> str | None:
    return guards.refuse([view.rows(Move(*move)) for move in moves], view)


@pytest.mark.parametrize(
    ("moves", "name"),
    [
        ([("small", "a", "b")], None),
        ([("small", "b", "c")], "one owner"),
        ([("small", "a", "a")], "one owner"),
        ([("nobody", "a", "b")], "one owner"),
        ([("small", "a", "nowhere")], "allowed"),
        ([("fixed", "a", "b")], "pinned"),
        ([("choosy", "a", "c")], "allowed"),
        ([("choosy", "a", "b")], None),
        ([("other", "b", "a")], "lowers the peak"),
        ([("small", "a", "b"), ("small", "a", "c")], "moves once"),
        ([("big", "a", "b"), ("other", "b", "a")], None),  # a swap: 10, 3 becomes 7, 6
        ([("small", "a", "b"), ("other", "b", "a")], "lowers the peak"),
    ],
)
def test_each_guard_refuses_by_name(moves, name):
    assert refused(draft(), *moves) == name


def test_a_unit_moves_once_per_plan():
    view = draft()
    view.accept([view.rows(Move("small", "a", "b"))])
    assert refused(view, ("small", "b", "c")) == "moves once"


def test_a_unit_on_its_way_does_not_move_again():
    assert refused(draft(leaving={"small": "b"}), ("small", "a", "c")) == "moves once"


def test_a_unit_that_moved_recently_rests():
    assert refused(draft(cooling={"small"}), ("small", "a", "b")) == "cooldown"
    assert refused(draft(cooling={"big", "gone"}), ("small", "a", "b")) is None


def test_the_churn_budget_counts_what_was_accepted():
    view = draft(churn=0.2)  # 13 in total: 2.6 may move
    assert refused(view, ("small", "a", "b")) is None
    view.accept([view.rows(Move("small", "a", "b"))])
    assert refused(view, ("choosy", "a", "b")) == "churn budget"


def test_the_limit_counts_moves_on_both_sides():
    assert refused(draft(limit=5.0), ("small", "a", "b")) is None
    assert refused(draft(limit=4.9), ("small", "a", "b")) == "limit"
    # The other unit is on its way from c to b and still weighs on c: there is no room for the big one there.
    assert refused(draft(limit=8.9, leaving={"other": "c"}), ("big", "a", "c")) == "limit"
    assert refused(draft(limit=9.0, leaving={"other": "c"}), ("big", "a", "c")) is None
    # What a node gives in this plan weighs on it until it is gone.
    view = draft(limit=8.0)
    view.accept([view.rows(Move("other", "b", "c"))])
    assert refused(view, ("big", "a", "b")) == "limit"


def test_the_limit_may_differ_by_dimension():
    nodes = [Node("a"), Node("b")]
    units = [Unit("u", "a", {"cpu": 1.0, "memory": 5.0}), Unit("v", "a", {"cpu": 1.0, "memory": 5.0})]
    snapshot = Snapshot.of(nodes, units)
    for limit, name in (({"cpu": 1.0}, None), ({"memory": 4.0}, "limit"), ({"cpu": 1.0, "memory": 5.0}, None)):
        view = Draft(snapshot, Settings(limit=limit))
        assert guards.refuse([view.rows(Move("u", "a", "b"))], view) == name


def test_a_misplaced_unit_may_leave_though_no_peak_falls():
    view = Draft(Snapshot.of(NODES, [Unit("u", "a", 1.0, allowed=frozenset({"b"})), Unit("v", "b", 5.0)]))
    assert guards.refuse([view.rows(Move("u", "a", "b"))], view) is None


def test_rounding_is_no_progress():
    snapshot = Snapshot.of([Node("a"), Node("b")], [Unit("u", "a", 1.0), Unit("v", "b", 1e-12)])
    view = Draft(snapshot)
    assert guards.refuse([view.rows(Move("v", "b", "a"))], view) == "lowers the peak"
    assert guards.refuse([view.rows(Move("u", "a", "b"))], view) == "lowers the peak"


def test_single_moves_and_groups_agree_on_the_peaks():
    view = draft()
    move = view.rows(Move("small", "a", "b"))
    nothing = view.rows(Move("fixed", "a", "a"))
    assert view.peaks([move]) == pytest.approx(view.peaks([move, nothing]))
    assert np.allclose(view.peaks([move]), (10.0, 8.0))
