"""Shed in bulk: hot nodes give up their excess load to the nodes with most room.

Each unit is considered once, heaviest first, so that light units fill the gaps that heavy ones leave.
A unit that is too heavy for its node must leave even if no node has room for it:
it goes to a node whose lighter units, which are considered later, can still make room.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

from evenflow.search.placement import Floats, Placement

NOWHERE = -1
TRIES = 256  # nodes that are tried for one unit that fits nowhere
ROUNDING = 1e-12  # shares of all load below this count as no load


def shed(placement: Placement, ceiling: float, goal: float, *, close: bool = True) -> None:
    """Bring the nodes above ``ceiling`` down to ``goal`` (both load over capacity) as far as single moves can.

    The excess that remains at a node is lighter than any of its units; with ``close`` its lightest unit leaves too.
    """
    misplaced = placement.misplaced()
    most = np.minimum(goal * placement.capacity, placement.most)
    # A node between goal and ceiling keeps its load: this is the hysteresis.
    most = np.where(placement.load <= ceiling * placement.capacity, np.maximum(most, placement.load), most)
    one = placement.load.shape[1] == 1
    sweep: _Sweep | _WideSweep = _Sweep(placement, most) if one else _WideSweep(placement, most)
    units = placement.units()
    order = units[np.lexsort((units, -placement.size(units)))]
    sweep.run(order, misplaced, close=close)
    if sweep.moved:
        placement.shift_many(np.array(sweep.moved, np.int64), np.array(sweep.takers, np.int64))


class _Sweep:
    """One pass over all units, for one load dimension.

    ``room`` is the load that a node could still take, negative if it has too much.
    ``slack`` is the load that it could take if every unit not yet considered left it.
    """

    def __init__(self, placement: Placement, most: Floats) -> None:
        self.placement = placement
        rooms = ((most - placement.load) / placement.scale)[:, 0]
        self.room: list[float] = rooms.tolist()
        self.rooms = rooms  # the same as an array, for units that may run on some nodes only
        self.slack: list[float] = (rooms + _loose(placement)[:, 0]).tolist()
        self.heap = [(-r, n) for n, r in enumerate(self.room)]
        heapify(self.heap)
        self.moved: list[int] = []
        self.takers: list[int] = []

    def run(self, order: NDArray[np.int64], misplaced: set[int], *, close: bool) -> None:
        """Consider every unit once, then the lightest unit of every node that is still too hot."""
        room, slack = self.room, self.slack
        weights = (self.placement.weight[order, 0] / self.placement.scale[0]).tolist()
        lightest: dict[int, tuple[int, float]] = {}
        for unit, weight, giver in zip(order.tolist(), weights, self.placement.owner[order].tolist(), strict=True):
            excess = -room[giver]
            must = weight > slack[giver] or unit in misplaced
            if (must or 0.0 < weight <= excess) and self.give(unit, weight, giver, must=must):
                continue
            slack[giver] -= weight
            if excess > 0.0 and weight > 0.0:
                lightest[giver] = unit, weight
        for giver, (unit, weight) in sorted(lightest.items()) if close else ():
            if room[giver] < -ROUNDING:
                self.give(unit, weight, giver, must=False)

    def give(self, unit: int, weight: float, giver: int, *, must: bool) -> bool:
        """Move a unit to the node with most room; one that must leave may displace lighter units."""
        taker = self.roomiest(unit)
        if weight > self.room[taker] or taker == giver:
            taker = self.yielding(unit, weight, giver) if must else NOWHERE
            if taker == NOWHERE:
                return False
        self.slack[taker] -= weight
        self.room[taker] -= weight
        self.room[giver] += weight
        self.rooms[taker] = self.room[taker]
        self.rooms[giver] = self.room[giver]
        if self.room[giver] > 0.0:
            heappush(self.heap, (-self.room[giver], giver))
        self.moved.append(unit)
        self.takers.append(taker)
        return True

    def roomiest(self, unit: int) -> int:
        """Return the node with most room that the unit may run on."""
        room, heap = self.room, self.heap
        allowed = self.placement.allowed.get(unit)
        if allowed is not None:
            return int(allowed[self.rooms[allowed].argmax()])
        while -heap[0][0] != room[heap[0][1]]:  # the entry is outdated: the node has taken a unit since
            heapreplace(heap, (-room[heap[0][1]], heap[0][1]))
        return heap[0][1]

    def yielding(self, unit: int, weight: float, giver: int) -> int:
        """Return the node that has to give up least load to take the unit."""
        room, slack, heap = self.room, self.slack, self.heap
        allowed = self.placement.allowed.get(unit)
        if allowed is not None:
            fit = [n for n in allowed.tolist() if slack[n] >= weight and n != giver]
            return max(fit, key=room.__getitem__, default=NOWHERE)
        seen: list[tuple[float, int]] = []
        taker = NOWHERE
        while heap and taker == NOWHERE and len(seen) < TRIES:
            known, node = heappop(heap)
            if -known != room[node]:
                heappush(heap, (-room[node], node))
                continue
            seen.append((known, node))
            if slack[node] >= weight and node != giver:
                taker = node
        for entry in seen:
            heappush(heap, entry)
        return taker


class _WideSweep:
    """One pass over all units, for several load dimensions; rooms have one row per dimension."""

    def __init__(self, placement: Placement, most: Floats) -> None:
        self.placement = placement
        room = (most - placement.load) / placement.scale
        self.room = np.ascontiguousarray(room.T)
        self.slack = np.ascontiguousarray((room + _loose(placement)).T)
        self.moved: list[int] = []
        self.takers: list[int] = []

    def run(self, order: NDArray[np.int64], misplaced: set[int], *, close: bool) -> None:
        """Consider every unit once, then the lightest unit of every node that is still too hot."""
        weights = (self.placement.weight[order] / self.placement.scale).tolist()
        dims = range(len(self.room))
        room = [
            row.tolist() for row in self.room
        ]  # reading a single number from a list is much faster than from an array
        slack = [row.tolist() for row in self.slack]
        lightest: dict[int, tuple[int, list[float]]] = {}

        def give(unit: int, weight: list[float], giver: int, *, must: bool) -> bool:
            taker = self.best(unit, weight, giver, must=must)
            if taker == NOWHERE:
                return False
            for d in dims:
                room[d][taker] -= weight[d]
                slack[d][taker] -= weight[d]
                room[d][giver] += weight[d]
                self.room[d, taker] = room[d][taker]
                self.slack[d, taker] = slack[d][taker]
                self.room[d, giver] = room[d][giver]
            self.moved.append(unit)
            self.takers.append(taker)
            return True

        for unit, weight, giver in zip(order.tolist(), weights, self.placement.owner[order].tolist(), strict=True):
            must = unit in misplaced or any(weight[d] > slack[d][giver] for d in dims)
            hottest = min(dims, key=lambda d: room[d][giver])
            excess = -room[hottest][giver]
            if (must or 0.0 < weight[hottest] <= excess) and give(unit, weight, giver, must=must):
                continue
            for d in dims:
                slack[d][giver] -= weight[d]
                self.slack[d, giver] = slack[d][giver]
            if excess > 0.0 and weight[hottest] > 0.0:
                lightest[giver] = unit, weight
        for giver, (unit, weight) in sorted(lightest.items()) if close else ():
            if min(row[giver] for row in room) < -ROUNDING:
                give(unit, weight, giver, must=False)

    def best(self, unit: int, weight: list[float], giver: int, *, must: bool) -> int:
        """Return the node with most room left after taking the unit; one that must leave may displace lighter units."""
        left = _left(self.room, weight)
        left[giver] = -np.inf
        allowed = self.placement.allowed.get(unit)
        if allowed is not None:
            only = np.full_like(left, -np.inf)
            only[allowed] = left[allowed]
            left = only
        taker = int(left.argmax())
        if left[taker] >= 0:
            return taker
        if must:
            left[_left(self.slack, weight) < 0] = -np.inf
            taker = int(left.argmax())
            if left[taker] > -np.inf:
                return taker
        return NOWHERE


def _left(room: Floats, weight: list[float]) -> Floats:
    """Return the room that every node would have left after taking a unit, in its scarcest dimension."""
    left: Floats = room[0] - weight[0]
    for d in range(1, len(weight)):
        np.minimum(left, room[d] - weight[d], out=left)
    return left


def _loose(placement: Placement) -> Floats:
    """Return the load per node and dimension that may move, as shares of all load."""
    units = placement.units()
    owner = placement.owner[units]
    columns = [
        np.bincount(owner, weights=placement.weight[units, d] / placement.scale[d], minlength=len(placement.load))
        for d in range(placement.load.shape[1])
    ]
    return np.stack(columns, axis=1)
