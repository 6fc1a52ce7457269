"""Place few units on few nodes almost exactly: heaviest first, keeping the most promising partial placements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.search.effort import Effort
from evenflow.search.placement import Floats, Placement, Rows
from evenflow.search.swaps import Swaps

MOST_UNITS = 100
WIDTH = 1000
LEAST_WIDTH = 30  # a narrower search finds hardly more than exchanges do
ORDERS = 2  # in which units are placed, one after the other where the one before found nothing
GOLDEN = 0.6180339887498949
TIGHTER = 2e-3  # every success is asked for again with a peak lower by this fraction


def resettle(placement: Placement, ceiling: float, goal: float, effort: Effort) -> None:
    """Place all units anew if they are few, with an ever lower peak until it is at the goal or none is found."""
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
    best: tuple[Rows, Packing] | None = None
    level = peak * (1 - TIGHTER)
    for turn in range(ORDERS):
        order = _order(weight / placement.scale, turn)
        while effort.spend(price * width):
            found = pack(weight[order], base, placement.capacity, may[order], home[order], level, width)
            if found is None:
                break
            best = units[order], found
            level = max(found.peak * (1 - TIGHTER), goal)
            if found.peak <= ceiling:
                break
        if effort.left <= 0 or (best is not None and best[1].peak <= ceiling):
            break
    if best is not None:
        placement.shift_many(best[0], best[1].nodes)
    if dims > 1:  # on one dimension the packing leaves next to nothing to find
        _step_down(placement, Swaps(weight, base, placement.capacity, may), ceiling, goal, effort)


def _step_down(placement: Placement, swaps: Swaps, ceiling: float, goal: float, effort: Effort) -> None:
    """Lower the peak by small steps for as long as they find a lower one."""
    units = np.sort(placement.units())
    peak = placement.peak()
    while peak > ceiling:
        found = swaps.below(max(peak * (1 - TIGHTER), goal), placement.owner[units], effort)
        if found is None:
            return
        placement.shift_many(units, found)
        peak = placement.peak()


def _order(share: Floats, turn: int) -> Rows:
    """Return the units heaviest first: by their largest share, by all their shares, then ever less exactly."""
    size = share.sum(axis=1) if turn % 2 else share.max(axis=1)
    doubt = (np.arange(len(share)) + 1) * GOLDEN * turn % 1.0  # spread evenly, and the same every time
    order: Rows = np.argsort(-size * (1 + 0.1 * (turn // 2) * doubt), kind="stable")
    return order


@dataclass(frozen=True, slots=True)
class Packing:
    """A node for every unit, and the peak that follows."""

    nodes: Rows
    peak: float
    moved: float


def pack(
    weight: Floats, base: Floats, capacity: Floats, may: NDArray[np.bool_], home: Rows, level: float, width: int
) -> Packing | None:
    """Place units, given heaviest first, so that no node passes ``level``; return the lowest peak found.

    Parameters
    ----------
    weight, may, home
        Per unit: its weight, the nodes it may run on, and its node now.
    base, capacity
        Per node: what it carries besides the units, and its capacity.
    level
        Partial placements that reach this load over capacity are given up.
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
    return Packing(chosen, float(peak[best]), float(moved[best]))


def _promising(load: Floats, capacity: Floats, moved: Floats, width: int) -> Rows:
    """Keep the most even, the most tightly filled and the least moved partial placements, each once."""
    level = (load / capacity).max(axis=2)
    squares = (level * level).sum(axis=1)
    key = level @ np.sqrt(2.0 + np.arange(level.shape[1]))  # equal loads give equal keys, others hardly ever do
    _, first = np.unique(np.round(key, 12), return_index=True)
    part = max(1, width // 4)
    even = first[np.argsort(squares[first], kind="stable")[: 2 * part]]
    tight = first[np.argsort(-squares[first], kind="stable")[:part]]
    near = np.argsort(moved, kind="stable")[:part]
    return np.unique(np.concatenate([even, tight, near]))
