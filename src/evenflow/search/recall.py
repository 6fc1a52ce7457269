"""Send units home again that need not have moved."""

from __future__ import annotations

import numpy as np

from evenflow.search.placement import Placement


def recall(placement: Placement, level: float) -> None:
    """Give moved units back to their home, the heaviest first, wherever it stays at or below the level."""
    most = np.minimum(level * placement.capacity, placement.most)
    away = np.flatnonzero(placement.owner != placement.home)
    homes = placement.home[away]
    away = away[(placement.load[homes] + placement.weight[away] <= most[homes]).all(axis=1)]
    for unit in away[np.lexsort((away, -placement.size(away)))].tolist():
        home = int(placement.home[unit])
        if placement.may_run(unit, home) and (placement.load[home] + placement.weight[unit] <= most[home]).all():
            placement.shift((unit,), home)
