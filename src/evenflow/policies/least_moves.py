"""As even as possible for as little moved load as possible: ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenflow.draft import Draft, RowMove


@dataclass(frozen=True, slots=True)
class LeastMoves:
    """Shed from the nodes above the ceiling, down to the target, into the nodes with most room.

    Parameters
    ----------
    ceiling
        Act only on nodes whose load over capacity is this fraction above the lower bound.
        The distance to ``target`` is hysteresis: without it two nodes trade one unit forever.
    target
        Plan such nodes down to this fraction above the lower bound.
    """

    ceiling: float = 0.005
    target: float = 0.0025

    def propose(self, draft: Draft) -> Iterator[RowMove]:
        """Offer the heaviest units that fit into what a node has too much."""
        snapshot = draft.snapshot
        goal = draft.bound.value * (1 + self.target)
        movable = draft.movable()
        level = draft.utilisation
        hot = np.flatnonzero(level > draft.bound.value * (1 + self.ceiling))
        for giver in hot[np.argsort(-level[hot], kind="stable")].tolist():
            units = draft.units_of(giver)
            units = units[movable[units]]
            weight = (snapshot.load[units] / snapshot.capacity[giver]).max(axis=1)
            for unit in units[np.argsort(-weight, kind="stable")].tolist():
                if draft.utilisation[giver] <= goal:
                    break
                becomes = ((draft.load + snapshot.load[unit]) / snapshot.capacity).max(axis=1)
                becomes[giver] = np.inf
                taker = int(becomes.argmin())
                if becomes[taker] <= max(goal, draft.utilisation[giver] * 0.999) and draft.may_run(unit, taker):
                    yield draft.move(unit, taker, "least moves")
