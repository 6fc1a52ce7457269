"""Send units home again that need not have moved."""

from __future__ import annotations

import numpy as np

from evenflow.search.placement import Placement


def recall(placement: Placement, level: float) -> None:
    """Give moved units back to their home, the heaviest first, wherever it stays at or below the level."""
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
