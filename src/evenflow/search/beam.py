"""Pack a small number of units by beam search: heaviest first, keeping the most promising partial placements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenflow.search.placement import Effort, Floats, Placement, Rows
from evenflow.search.swaps import Swaps

MOST_UNITS = 100
WIDTH = 1000
LEAST_WIDTH = 30  # a narrower search finds hardly more than exchanges
TIGHTER = 2e-3  # after each success, the search is repeated for a peak lower by this fraction


def repack(placement: Placement, ceiling: float, goal: float, effort: Effort) -> None:
    """Place up to ``MOST_UNITS`` units again, with lower and lower peaks until the goal or the limit of the search."""
    peak = placement.peak()
    units = np.sort(placement.units())
    if peak <= ceiling or not 0 < len(units) <= MOST_UNITS:
        return
    nodes, dims = placement.capacity.shape
    price = len(units) * nodes * nodes * dims // 20 + 1  # steps for each partial placement that is kept
    width = min(WIDTH, effort.left // (3 * price))
    if width < LEAST_WIDTH:
        return
    base = placement.load.copy()
    np.subtract.at(base, placement.owner[units], placement.weight[units])
    may = np.ones((len(units), nodes), np.bool_)
    for i, unit in enumerate(units.tolist()):
        if unit in placement.allowed:
            may[i] = False
            may[i, placement.allowed[unit]] = True
    weight, home = placement.weight[units], placement.home[units]
    share = weight / placement.scale
    best: tuple[Rows, Rows] | None = None
    level = peak * (1 - TIGHTER)
    for size in (share.max(axis=1), share.sum(axis=1)):  # two orders: by the largest share, then by all shares
        order = np.argsort(-size, kind="stable")
        while effort.spend(price * width):
            packed = pack(weight[order], base, placement.capacity, may[order], home[order], level, width)
            if packed is None:
                break
            nodes_of_units, peak = packed
            best = units[order], nodes_of_units
            level = max(peak * (1 - TIGHTER), goal)
            if peak <= ceiling:
                break
        if effort.left <= 0 or peak <= ceiling:
            break
    if best is not None:
        placement.shift_many(*best)
    if dims > 1:  # with one dimension, packing leaves almost nothing to improve
        _step_down(placement, Swaps(weight, base, placement.capacity, may), ceiling, goal, effort)


def _step_down(placement: Placement, swaps: Swaps, ceiling: float, goal: float, effort: Effort) -> None:
    """Lower the peak by small steps for as long as the search succeeds."""
    units = np.sort(placement.units())
    peak = placement.peak()
    while peak > ceiling:
        nodes = swaps.below(max(peak * (1 - TIGHTER), goal), placement.owner[units], effort)
        if nodes is None:
            return
        placement.shift_many(units, nodes)
        peak = placement.peak()


def pack(
    weight: Floats, base: Floats, capacity: Floats, may: NDArray[np.bool_], home: Rows, level: float, width: int
) -> tuple[Rows, float] | None:
    """Place units, given heaviest first, so that every node stays below ``level``.

    Return the node of every unit and the peak, the lowest that was found; ``None`` if there is no such placement.

    Parameters
    ----------
    weight, may, home
        Per unit: its weight, the nodes it may run on, and its current node.
    base, capacity
        Per node: the load that stays there, and its capacity.
    level
        Partial placements that reach this load over capacity are dropped.
    width
        How many partial placements are kept.
    """
    units = len(weight)
    load = base[None].copy()
    peak = np.array([float((base / capacity).max())])
    moved = np.zeros(1)
    size = (weight / np.maximum(weight.sum(axis=0), 1e-300)).max(axis=1)
    history: list[tuple[Rows, Rows]] = []
    for i in range(units):
        at = ((load + weight[i]) / capacity).max(axis=2)
        after = np.maximum(peak[:, None], at)
        state, node = np.nonzero(may[i] & (after < level))
        if not len(state):
            return None
        peak = after[state, node]
        moved = moved[state] + np.where(node == home[i], 0.0, size[i])
        load = load[state]
        load[np.arange(len(state)), node] += weight[i]
        if len(state) > width:
            keep = _promising(load, capacity, moved, width)
            state, node, peak, moved, load = state[keep], node[keep], peak[keep], moved[keep], load[keep]
        history.append((state, node))
    best = int(np.lexsort((moved, np.round(peak / level, 4)))[0])
    chosen = np.zeros(units, np.int64)
    at_state = best
    for i in range(units - 1, -1, -1):
        state, node = history[i]
        chosen[i] = node[at_state]
        at_state = int(state[at_state])
    return chosen, float(peak[best])


def _promising(load: Floats, capacity: Floats, moved: Floats, width: int) -> Rows:
    """Return the most even, the most tightly filled and the least moved partial placements, without duplicates."""
    level = (load / capacity).max(axis=2)
    squares = (level * level).sum(axis=1)
    key = level @ np.sqrt(2.0 + np.arange(level.shape[1]))  # equal loads have equal keys, others almost never do
    _, first = np.unique(np.round(key, 12), return_index=True)
    part = max(1, width // 4)
    even = first[np.argsort(squares[first], kind="stable")[: 2 * part]]
    tight = first[np.argsort(-squares[first], kind="stable")[:part]]
    near = np.argsort(moved, kind="stable")[:part]
    return np.unique(np.concatenate([even, tight, near]))
