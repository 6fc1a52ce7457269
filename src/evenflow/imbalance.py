"""How uneven a placement is, and how even it could be.

Everything is load over capacity.
With several dimensions the worst one counts: the peak is the highest load over capacity of any node in any dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Snapshot

Floats = NDArray[np.float64]


def utilisation(load: Floats, capacity: Floats) -> Floats:
    """Return load over capacity of every node, in its worst dimension.

    Examples
    --------
    >>> utilisation(np.array([[3.0], [4.0]]), np.array([[1.0], [2.0]])).tolist()
    [3.0, 2.0]
    """
    if not len(load):
        return np.zeros(0)
    worst: Floats = (load / capacity).max(axis=1)
    return worst


def mean(load: Floats, capacity: Floats) -> float:
    """Return total load over total capacity, in the worst dimension."""
    if not len(load):
        return 0.0
    return float((load.sum(axis=0) / capacity.sum(axis=0)).max())


def peak(load: Floats, capacity: Floats) -> float:
    """Return the highest load over capacity."""
    return float(utilisation(load, capacity).max(initial=0.0))


def max_over_mean(load: Floats, capacity: Floats) -> float:
    """Return the peak as a multiple of the mean; 1 is perfectly even. Without load the result is 1.

    Examples
    --------
    >>> max_over_mean(np.array([[3.0], [1.0]]), np.ones((2, 1)))
    1.5
    """
    middle = mean(load, capacity)
    return peak(load, capacity) / middle if middle > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Bound:
    """The lowest peak that any plan could reach, and what determines it.

    ``kind`` is ``"mean"``, ``"unit"`` (one hot unit) or ``"pinned"`` (the pinned load of one node);
    ``row`` is the row of that unit or node, -1 for the mean.
    """

    value: float
    kind: str
    row: int
    dimension: int


def lower_bound(snapshot: Snapshot) -> Bound:
    """Return the highest of: the mean, each unit on the fastest node it may run on, the pinned load of each node.

    Examples
    --------
    >>> from evenflow.model import Node, Unit
    >>> nodes = [Node("a"), Node("b", 2.0)]
    >>> lower_bound(Snapshot.of(nodes, [Unit("u", "a", 6.0), Unit("v", "a", 1.0)]))
    Bound(value=3.0, kind='unit', row=0, dimension=0)
    """
    load, capacity = snapshot.load, snapshot.capacity
    best = Bound(0.0, "mean", -1, 0)
    if not len(capacity) or not len(load):
        return best
    for d in range(len(snapshot.dimensions)):
        mean_d = float(load[:, d].sum() / capacity[:, d].sum())
        if mean_d > best.value:
            best = Bound(mean_d, "mean", -1, d)
    pinned = np.flatnonzero(snapshot.pinned)
    if len(pinned):
        for d in range(len(snapshot.dimensions)):
            weight = np.bincount(snapshot.owner[pinned], weights=load[pinned, d], minlength=len(capacity))
            held = weight / capacity[:, d]
            row = int(held.argmax())
            if held[row] > best.value:
                best = Bound(float(held[row]), "pinned", row, d)
    return _unit_bound(snapshot, best)


def _unit_bound(snapshot: Snapshot, best: Bound) -> Bound:
    """Raise ``best`` to the load of the hottest unit on the fastest node that it may run on."""
    free = ~snapshot.pinned  # a pinned unit counts with the pinned load of its node
    at_best = snapshot.load / snapshot.capacity.max(axis=0)
    at_worst = np.where(free, (snapshot.load / snapshot.capacity.min(axis=0)).max(axis=1), 0.0)
    exact = np.full(len(free), len(snapshot.dimensions) == 1)
    exact[list(snapshot.allowed)] = False
    alone = np.where(free & exact, at_best.max(axis=1), 0.0)
    row = int(alone.argmax())
    if alone[row] > best.value:
        best = Bound(float(alone[row]), "unit", row, 0)
    # The rest are checked one by one against their nodes; few can exceed a bound that is already good.
    rest = np.flatnonzero(~exact & (at_worst > best.value))
    for unit in rest[np.argsort(-at_worst[rest], kind="stable")].tolist():
        if at_worst[unit] <= best.value:
            break
        capacity = snapshot.capacity[snapshot.allowed[unit]] if unit in snapshot.allowed else snapshot.capacity
        on_each = (snapshot.load[unit] / capacity).max(axis=1)
        if len(on_each) and on_each.min() > best.value:
            best = Bound(float(on_each.min()), "unit", unit, int(at_best[unit].argmax()))
    return best


def gap(highest: float, bound: float) -> float:
    """Return how far a peak is above the bound, as a fraction of the bound.

    Examples
    --------
    >>> gap(1.1, 1.0)
    0.10000000000000009
    """
    return max(0.0, highest / bound - 1.0) if bound > 0 else 0.0


def needed(load: Floats, capacity: Floats, bound: float) -> float:
    """Return the share of all load that must move for every node to come down to the bound, in the worst dimension."""
    total = load.sum(axis=0)
    over = np.maximum(0.0, load - bound * capacity).sum(axis=0)
    shares = over[total > 0] / total[total > 0]
    return float(shares.max(initial=0.0))
