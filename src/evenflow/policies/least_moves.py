"""The policy ``least_moves``: as even as possible with as little moved load as possible."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from evenflow.draft import Draft, RowMove
from evenflow.errors import BadInput
from evenflow.guards import LEAST_GAIN
from evenflow.search.placement import Effort, Placement
from evenflow.search.rearrange import rearrange
from evenflow.search.shed import shed


@dataclass(frozen=True, slots=True)
class LeastMoves:
    """Bring the nodes above the ceiling down to the target, and move as little load as possible.

    Parameters
    ----------
    ceiling
        Act only on nodes whose load over capacity is more than this fraction above the lower bound.
        The distance to ``target`` is hysteresis: without it, two nodes would trade one unit forever.
    target
        Plan such nodes down to this fraction above the lower bound, and fill no other node above it.
    gain
        Offer nothing unless the whole plan lowers the peak by this fraction.
        Where the bound cannot be reached, noise would otherwise make a slightly better placement appear every time.
    effort
        Steps of search if shedding is not enough; one step takes about a microsecond, and 0 means shedding only.
    """

    ceiling: float = 0.0075
    target: float = 0.005
    gain: float = 0.0
    effort: int = 2_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.target <= self.ceiling:
            raise BadInput(f"target {self.target} and ceiling {self.ceiling}", "0 <= target <= ceiling", "least_moves")
        if not 0 <= self.gain < 1:
            raise BadInput(f"gain {self.gain}", "a fraction from 0 to 1", "least_moves")
        if not self.effort >= 0:
            raise BadInput(f"effort {self.effort}", "a number of steps, 0 or more", "least_moves")

    def propose(self, draft: Draft) -> Iterator[RowMove | tuple[RowMove, ...]]:
        """Offer the moves to the best placement found, hottest givers first."""
        placement = placement_of(draft)
        before, misplaced = draft.peak, placement.misplaced()
        bound = max(draft.bound.value, placement.fixed_peak())  # units in cooldown or under way cannot move now
        if before <= bound * (1 + self.ceiling) and not misplaced:
            return
        lowest = bound * (1 + self.target)
        level = _within_budget(draft, lowest)
        if level > lowest:
            # The budget allows no more than shedding, and no unit that is heavier than needed.
            better = placement.fresh()
            shed(better, level, level, close=False)
        else:
            better = rearrange(placement, bound, self.ceiling, self.target, Effort(self.effort))
        if better.peak() > before * (1 - self.gain) and not misplaced:
            return
        yield from offers(draft, better, misplaced)


def _within_budget(draft: Draft, lowest: float) -> float:
    """Return the level to plan down to: ``lowest``, or the lowest that the churn budget allows."""
    capacity = draft.snapshot.capacity
    if draft.budget is None:
        return lowest
    low, high = lowest, max(lowest, draft.peak)
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        over = np.maximum(0.0, draft.load - middle * capacity).sum(axis=0)
        low, high = (low, middle) if (draft.moved_load + over <= draft.budget).all() else (middle, high)
    return lowest if low == lowest else high


def placement_of(draft: Draft) -> Placement:
    """Return the draft's placement, where the search starts."""
    snapshot = draft.snapshot
    return Placement(
        snapshot.load, snapshot.capacity, draft.owner.copy(), draft.movable(), draft.load, snapshot.allowed, draft.limit
    )


def offers(draft: Draft, better: Placement, misplaced: Collection[int]) -> Iterator[RowMove | tuple[RowMove, ...]]:
    """Offer the moves to a better placement, each as soon as it lowers the peak of its two nodes.

    Misplaced units always leave.
    Moves that never lower it alone, such as the two halves of a swap, are offered together with all that share their nodes.
    """
    units = np.flatnonzero(better.owner != better.home)
    level = draft.utilisation
    givers, takers = better.home[units], better.owner[units]
    order = np.lexsort((units, -better.size(units), -level[givers]))
    rows = zip(units[order].tolist(), givers[order].tolist(), takers[order].tolist(), strict=True)
    why = {g: f"least moves: {draft.snapshot.node_ids[g]} is at {level[g]:.4g}" for g in set(givers.tolist())}
    waiting = [RowMove(u, g, t, why[g]) for u, g, t in rows]
    while waiting:
        later = []
        for move in waiting:
            before, after = draft.peaks((move,))
            if after < before * (1 - LEAST_GAIN) or move.unit in misplaced:
                yield move
            else:
                later.append(move)
        if len(later) == len(waiting):
            break
        waiting = later
    for group in _together(waiting):
        before, after = draft.peaks(group)
        if after < before * (1 - LEAST_GAIN):  # the others served the search but do not lower the peak
            yield group


def _together(moves: list[RowMove]) -> list[tuple[RowMove, ...]]:
    """Group moves that share nodes."""
    leader: dict[int, int] = {}

    def find(node: int) -> int:
        while leader.setdefault(node, node) != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for move in moves:
        leader[find(move.taker)] = find(move.giver)
    groups: dict[int, list[RowMove]] = {}
    for move in moves:
        groups.setdefault(find(move.giver), []).append(move)
    return [tuple(group) for group in groups.values()]
