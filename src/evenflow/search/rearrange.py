"""Find a better placement: shed in bulk, exchange at the peak, pack the few that are left, send home what can go."""

from __future__ import annotations

from evenflow.search.beam import resettle
from evenflow.search.effort import Effort
from evenflow.search.exchange import descend
from evenflow.search.placement import Placement
from evenflow.search.recall import recall
from evenflow.search.shed import shed

LEAST_SLACK, MOST_SLACK = 1e-3, 1e3  # how far above the bound shedding is tried: the double each time
ROUNDING = 1e-9  # a level that was reached once can be missed by rounding the next time


def rearrange(placement: Placement, bound: float, ceiling: float, target: float, effort: Effort) -> Placement:
    """Return a placement whose peak is at most ``ceiling`` above the bound, or as low as was found.

    Parameters
    ----------
    placement
        Where everything is now; it is changed on the way.
    bound
        The lowest peak that could be reached.
    ceiling, target
        Nodes this fraction above the bound are brought down to that fraction above it.
    effort
        How long to search when shedding alone does not do.
    """
    found = _search(placement.fresh(), bound, ceiling, target, effort)
    reached = found.peak()
    if reached <= bound * (1 + ceiling):
        recall(found, bound * (1 + target))  # not up to the ceiling: the distance between the two is hysteresis
        return found
    # The aim was too high: nodes below what was reached gave up load for nothing.
    slack = reached * (1 + ROUNDING) / bound - 1
    thrifty = _search(placement.fresh(), bound, slack, slack, effort)
    if thrifty.peak() <= reached * (1 + 2 * ROUNDING) and thrifty.moved() < found.moved():
        found = thrifty
    recall(found, reached)
    return found


def _search(placement: Placement, bound: float, ceiling: float, target: float, effort: Effort) -> Placement:
    top, low = bound * (1 + ceiling) * (1 + ROUNDING), bound * (1 + target)
    shed(placement, top, low)
    slack = max(target, LEAST_SLACK)
    while placement.peak() > max(top, bound * (1 + 1.5 * slack)) and slack < MOST_SLACK:
        slack *= 2
        shed(placement, bound * (1 + slack), bound * (1 + slack))
    descend(placement, top, low, effort)
    resettle(placement, top, low, effort)
    return placement
