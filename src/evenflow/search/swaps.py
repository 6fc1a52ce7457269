"""Tabu search: bring all nodes below a level by the best move or swap at each step, even if it makes things worse.

The objective is the load above the level, summed over nodes and dimensions; at zero every node is below it.
After a number of steps without improvement, some units are pushed elsewhere and the search continues from there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenflow.search.placement import Effort, Floats, Rows

REST = 7  # steps for which a unit that moved must stay
PATIENCE = 200  # steps without a better placement before a push
PUSHES = 6  # pushes before a search gives up
PUSHED = 0.25  # share of the units that a push moves
GOLDEN = 0.6180339887498949
CLOSE = 1e-12

Changes = list[tuple[int, int]]  # unit, its new node


class Swaps:
    """Search for a placement of units below a level.

    Parameters
    ----------
    weight, may
        Per unit: its weight, and the nodes it may run on.
    base, capacity
        Per node: the load that stays there, and its capacity.
    """

    def __init__(self, weight: Floats, base: Floats, capacity: Floats, may: NDArray[np.bool_]) -> None:
        self.weight = weight
        self.base = base
        self.capacity = capacity
        self.may = may

    def below(self, level: float, start: Rows, effort: Effort) -> Rows | None:
        """Return a node for every unit so that no node is above the level, or ``None`` if the search fails."""
        node, load = start.copy(), self.base.copy()
        np.add.at(load, node, self.weight)
        rest = np.zeros(len(node), np.int64)
        price = 60 + len(node) * (len(node) + len(load)) * self.weight.shape[1] // 40
        best, since, pushes, step = np.inf, 0, 0, 0
        while effort.spend(price):
            over = self._over(load, self.capacity, level)
            total = float(over.sum())
            if total <= CLOSE:
                return node
            best, since = (total, 0) if total < best - CLOSE else (best, since + 1)
            if since <= PATIENCE:
                changes = self._best(load, node, over, level, rest > step)
            elif pushes < PUSHES:
                best, since, pushes = np.inf, 0, pushes + 1
                changes = self._push(pushes)
            else:
                break
            if not changes:
                break
            step += 1
            for unit, taker in changes:
                load[node[unit]] -= self.weight[unit]
                load[taker] += self.weight[unit]
                node[unit] = taker
                rest[unit] = step + REST + unit % 5  # not the same for all, or the search could cycle
        return None

    def _best(self, load: Floats, node: Rows, over: Floats, level: float, tired: NDArray[np.bool_]) -> Changes:
        """Return the move or swap, of units that may move again, that removes most of the load above the level."""
        moves = self._moves(load, node, over, level)
        swaps = self._swaps(load, node, over, level)
        moves[tired] = swaps[tired] = np.inf
        swaps[:, tired] = np.inf
        move, swap = int(moves.argmin()), int(swaps.argmin())
        if not np.isfinite(min(moves.flat[move], swaps.flat[swap])):
            return []
        if moves.flat[move] <= swaps.flat[swap]:
            return [divmod(move, len(load))]
        one, other = divmod(swap, len(node))
        return [(one, int(node[other])), (other, int(node[one]))]

    def _moves(self, load: Floats, node: Rows, over: Floats, level: float) -> Floats:
        """Return how a move would change the objective, for every unit and node."""
        gone = self._over(load[node] - self.weight, self.capacity[node], level) - over[node]
        come = self._over(load[None] + self.weight[:, None], self.capacity, level) - over[None]
        both: Floats = gone[:, None] + come
        both[~self.may | (node[:, None] == np.arange(len(load)))] = np.inf
        return both

    def _swaps(self, load: Floats, node: Rows, over: Floats, level: float) -> Floats:
        """Return how a swap would change the objective, for every pair of units."""
        change = self.weight[None] - self.weight[:, None]  # what the node of the first unit gains
        here = self._over(load[node][:, None] + change, self.capacity[node][:, None], level) - over[node][:, None]
        both: Floats = here + here.T
        may = self.may[:, node]  # whether the first unit may run where the second is
        both[~(may & may.T) | (node[:, None] == node[None])] = np.inf
        return both

    def _push(self, turn: int) -> Changes:
        """Return some units, different ones at each push, with nodes where they may run."""
        units = np.arange(len(self.weight))
        chosen = units[(units * GOLDEN + turn * GOLDEN**2) % 1.0 < PUSHED].tolist()
        places = [np.flatnonzero(self.may[unit]) for unit in chosen]
        return [(u, int(nodes[(u + turn) % len(nodes)])) for u, nodes in zip(chosen, places, strict=True)]

    @staticmethod
    def _over(load: Floats, capacity: Floats, level: float) -> Floats:
        """Return the load over capacity above the level, summed over the dimensions (the last axis)."""
        over: Floats = np.maximum(load / capacity - level, 0.0).sum(axis=-1)
        return over
