"""Every plan of every policy on random clusters keeps the invariants."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import imbalance
from evenflow.draft import Settings
from evenflow.model import Node, Plan, Snapshot, Unit
from evenflow.planner import plan
from evenflow.policies import NAMES, named

NUMBERS = st.floats(0, 1e6, allow_nan=False) | st.sampled_from([0.0, 1.0, 1e-9, 1e9, 1e-300, 5e-324])
CAPACITIES = st.floats(0.1, 100) | st.just(1.0)


@st.composite
def clusters(draw, *, misplaced: bool = True) -> Snapshot:
    names = [f"n{i}" for i in range(draw(st.integers(1, 6)))]
    dims = draw(st.sampled_from([0, 0, 2]))
    one_load = st.fixed_dictionaries({"cpu": NUMBERS, "memory": NUMBERS}) if dims else NUMBERS
    nodes = [Node(name, draw(CAPACITIES)) for name in names]
    units, leaving = [], {}
    for i in range(draw(st.integers(0, 25))):
        home = draw(st.sampled_from(names))
        allowed = draw(st.none() | st.none() | st.frozensets(st.sampled_from(names), min_size=1))
        if allowed is not None and not misplaced:
            allowed |= {home}
        units.append(
            Unit(f"u{i}", home, draw(one_load), pinned=draw(st.booleans()) and draw(st.booleans()), allowed=allowed)
        )
        if draw(st.integers(0, 9)) == 0:
            leaving[f"u{i}"] = draw(st.sampled_from(names))
    return Snapshot.of(nodes, units, leaving)


SETTINGS = st.builds(
    Settings,
    limit=st.none() | st.floats(0.1, 1e6),
    churn=st.none() | st.floats(0, 1),
    cooling=st.frozensets(st.sampled_from([f"u{i}" for i in range(25)]), max_size=5),
)


def check(snapshot: Snapshot, asked: Settings, result: Plan, *, published: bool) -> None:
    """What no plan may break, found again from the moves alone."""
    unit_row = {u: i for i, u in enumerate(snapshot.unit_ids)}
    node_row = {n: i for i, n in enumerate(snapshot.node_ids)}
    moved = [m.unit for m in result.moves]
    assert len(set(moved)) == len(moved), "a unit moves once"
    load = snapshot.node_load()
    held = snapshot.node_load(both_sides=True)
    for m in result.moves:
        u, giver, taker = unit_row[m.unit], node_row[m.giver], node_row[m.taker]
        assert snapshot.owner[u] == giver != taker, "the giver owns the unit"
        assert not snapshot.pinned[u], "pinned units never move"
        assert u not in snapshot.leaving, "a unit on its way does not move again"
        assert taker in snapshot.allowed.get(u, [taker]), "a taker is allowed"
        load[giver] -= snapshot.load[u]
        load[taker] += snapshot.load[u]
        held[taker] += snapshot.load[u]
        if not published:
            assert m.unit not in asked.cooling, "a unit that moved recently rests"
            if asked.limit is not None:
                assert (held[taker] <= asked.limit * snapshot.capacity[taker] * (1 + 1e-9)).all(), "limits are kept"
    total = snapshot.load.sum(axis=0)
    if asked.churn is not None and not published:
        assert result.moved_load <= asked.churn * (1 + 1e-9) + 1e-12
    after = imbalance.peak(load, snapshot.capacity)
    assert np.isclose(after, result.peak[1], rtol=1e-6, atol=1e-9 * max(1.0, total.max(initial=0.0)))
    misplaced = any(snapshot.owner[u] not in nodes for u, nodes in snapshot.allowed.items())
    if not misplaced:
        assert result.lower_bound <= after * (1 + 1e-6) + 1e-6, "no plan goes below the bound"
    if not published and not misplaced:
        assert result.peak[1] <= result.peak[0] * (1 + 1e-9), "the peak never rises"


@given(clusters(), SETTINGS, st.sampled_from(sorted(NAMES)))
@settings(max_examples=300, deadline=None)
def test_every_plan_keeps_the_invariants(snapshot, asked, policy):
    result = plan(snapshot, named(policy), asked)
    check(snapshot, asked, result, published=policy != "least_moves")


@given(clusters(misplaced=False))
@settings(max_examples=200, deadline=None)
def test_least_moves_offers_nothing_that_is_refused(snapshot):
    result = plan(snapshot, named("least_moves"))
    check(snapshot, Settings(), result, published=False)
    assert not result.refusals


@given(clusters(misplaced=False))
@settings(max_examples=100, deadline=None)
def test_a_second_plan_has_little_left_to_do(snapshot):
    if snapshot.leaving:
        return
    first = plan(snapshot, named("least_moves"))
    rows = {u: i for i, u in enumerate(snapshot.unit_ids)}
    nodes = {n: i for i, n in enumerate(snapshot.node_ids)}
    owner = snapshot.owner.copy()
    for m in first.moves:
        owner[rows[m.unit]] = nodes[m.taker]
    again = Snapshot(
        snapshot.dimensions, snapshot.node_ids, snapshot.capacity, snapshot.unit_ids, owner,
        snapshot.load, snapshot.pinned, snapshot.allowed,
    )  # fmt: skip
    second = plan(again, named("least_moves", gain=0.02))
    assert second.peak[1] >= first.peak[1] * 0.98 - 1e-9


def counted(before: list[int], pinned: list[int]) -> tuple[list[int], int]:
    """Return the counts after a plan of ``even_counts``, and how many moves it has."""
    nodes = [Node(f"n{i}") for i in range(len(before))]
    homes = [(i, k) for i, count in enumerate(before) for k in range(count)]
    units = [Unit(f"u{i}.{k}", f"n{i}", 1.0, pinned=k < pinned[i]) for i, k in homes]
    moves = plan(Snapshot.of(nodes, units), named("even_counts")).moves
    after = list(before)
    for move in moves:
        after[int(move.giver[1:])] -= 1
        after[int(move.taker[1:])] += 1
    return after, len(moves)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_even_counts_are_even_and_nothing_moves_in_vain(before):
    after, moves = counted(before, [0] * len(before))
    assert max(after) - min(after) <= 1
    assert moves == sum(max(0, b - a) for b, a in zip(before, after, strict=True)), "nobody gives and takes"
    # The fewest moves leave what is over with givers; the rounding of the thesis gives one of it to each taker at most.
    least, over = divmod(sum(before), len(before))
    givers = [b - least for b in before if b > least]
    fewest = sum(givers) - min(over, len(givers))
    takers = sum(b < least for b in before) if 2 * over < len(before) else 0
    assert fewest <= moves <= fewest + min(over, takers)


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_even_counts_never_pass_the_average(nodes):
    before, pinned = [count for count, _ in nodes], [stays for _, stays in nodes]
    after, _ = counted(before, pinned)
    least, over = divmod(sum(before), len(before))
    for was, becomes in zip(before, after, strict=True):
        assert was == becomes or was > becomes >= least or was < becomes <= least + (over > 0)
