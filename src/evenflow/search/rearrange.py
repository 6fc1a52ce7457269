"""Find a better placement: shed in bulk, exchange at the peak, repack small clusters, send back home what can go."""

from __future__ import annotations

import numpy as np

from evenflow.search.beam import repack
from evenflow.search.exchange import descend
from evenflow.search.placement import Effort, Placement
from evenflow.search.shed import shed

LEAST_SLACK, MOST_SLACK = 1e-3, 1e3  # how far above the bound shedding may aim; it doubles each time
ROUNDING = 1e-9  # rounding can make a second search miss a level that the first one reached


def rearrange(placement: Placement, bound: float, ceiling: float, target: float, effort: Effort) -> Placement:
    """Return a placement whose peak is at most ``ceiling`` above the bound, or the lowest that was found.

    Parameters
    ----------
    placement
        The current placement.
    bound
        The lowest peak that could be reached.
    ceiling, target
        Nodes this fraction above the bound are brought down to that fraction above it.
    effort
        How long to search if shedding is not enough.
    """
    best = _search(placement.fresh(), bound, ceiling, target, effort)
    reached = best.peak()
    if reached <= bound * (1 + ceiling):
        _send_home(best, bound * (1 + target))  # not up to the ceiling: the distance between the two is hysteresis
        return best
    # The goal was out of reach: nodes below the peak that was reached gave up load for nothing.
    slack = reached * (1 + ROUNDING) / bound - 1
    thrifty = _search(placement.fresh(), bound, slack, slack, effort)
    if thrifty.peak() <= reached * (1 + 2 * ROUNDING) and thrifty.moved() < best.moved():
        best = thrifty
    _send_home(best, reached)
    return best


def _search(placement: Placement, bound: float, ceiling: float, target: float, effort: Effort) -> Placement:
    top, low = bound * (1 + ceiling) * (1 + ROUNDING), bound * (1 + target)
    shed(placement, top, low)
    slack = max(target, LEAST_SLACK)
    while placement.peak() > max(top, bound * (1 + 1.5 * slack)) and slack < MOST_SLACK:
        slack *= 2
        shed(placement, bound * (1 + slack), bound * (1 + slack))
    descend(placement, top, low, effort)
    repack(placement, top, low, effort)
    return placement


def _send_home(placement: Placement, level: float) -> None:
    """Move units back home, heaviest first, where the home stays at or below the level."""
    most = np.minimum(level * placement.capacity, placement.most)
    away = np.flatnonzero(placement.owner != placement.home)
    room = most - placement.load
    away = away[(placement.weight[away] <= room[placement.home[away]]).all(axis=1)]
    away = away[np.lexsort((away, -placement.size(away)))]
    rooms: list[list[float]] = room.tolist()
    back = []
    for unit, weight in zip(away.tolist(), placement.weight[away].tolist(), strict=True):
        home, there = int(placement.home[unit]), int(placement.owner[unit])
        if all(w <= r for w, r in zip(weight, rooms[home], strict=True)) and placement.may_run(unit, home):
            rooms[home] = [r - w for w, r in zip(weight, rooms[home], strict=True)]
            rooms[there] = [r + w for w, r in zip(weight, rooms[there], strict=True)]
            back.append(unit)
    if back:
        placement.shift_many(np.array(back), placement.home[back])
