"""The state of a search: which node owns which unit, the load of each node, and the effort that is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

NEXT_TO_NONE = 1e-200  # dividing by a total below this share of a capacity would overflow


class Effort:
    """A budget of search steps of about a microsecond each: unlike seconds, they make equal input give equal plans."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> bool:
        """Take steps from the budget and return whether there were any left."""
        had = self.left > 0
        self.left -= steps
        return had


class Placement:
    """Units on nodes, and the resulting loads.

    Parameters
    ----------
    weight, capacity
        Load of every unit and capacity of every node, per dimension.
    owner, free
        Owner of every unit, and which units may move.
    load
        Load of every node and dimension.
    allowed
        Unit row to the node rows it may run on; a unit without an entry may run anywhere.
    most
        Highest load of every node and dimension; infinite where there is no limit.
    """

    def __init__(
        self,
        weight: Floats,
        capacity: Floats,
        owner: Rows,
        free: NDArray[np.bool_],
        load: Floats,
        allowed: Mapping[int, Rows],
        most: Floats | None = None,
    ) -> None:
        self.weight = weight
        self.capacity = capacity
        self.home = owner
        self.owner = owner.copy()
        self.free = free
        self.start = load
        self.load = load.copy()
        self.allowed = allowed
        self.most = np.full_like(capacity, np.inf) if most is None else most
        total = weight.sum(axis=0)
        # Loads of several dimensions are compared as shares of their totals; a negligible total counts as none.
        self.scale = np.where(total > NEXT_TO_NONE * capacity.max(axis=0, initial=0.0), total, 1.0)
        movable = np.flatnonzero(free)
        self._order = movable[np.argsort(owner[movable], kind="stable")]
        self._start = np.searchsorted(owner[self._order], np.arange(len(capacity) + 1))
        self._members: dict[int, Rows] = {}

    def members(self, node: int) -> Rows:
        """Return the rows of the units on the node that may move."""
        rows = self._members.get(node)
        if rows is None:
            rows = self._members[node] = self._order[self._start[node] : self._start[node + 1]]
        return rows

    def units(self) -> Rows:
        """Return the rows of all units that may move."""
        return self._order

    def misplaced(self) -> set[int]:
        """Return the units that may move and are on a node where they may not run."""
        same: dict[int, list[int]] = {}
        for unit, nodes in self.allowed.items():
            same.setdefault(id(nodes), []).append(unit)  # many units share few sets of nodes
        misplaced: set[int] = set()
        for units in same.values():
            away = ~np.isin(self.owner[units], self.allowed[units[0]]) & self.free[units]
            misplaced.update(np.array(units)[away].tolist())
        return misplaced

    def utilisation(self) -> Floats:
        """Return load over capacity of every node, in its worst dimension."""
        ratio = self.load / self.capacity
        return ratio[:, 0] if ratio.shape[1] == 1 else ratio.max(axis=1)

    def peak(self) -> float:
        """Return the highest load over capacity."""
        return float(self.utilisation().max())

    def fixed_peak(self) -> float:
        """Return the highest load over capacity of the units that may not move: no search gets below it."""
        rows, load = self.units(), self.load.copy()
        for d in range(load.shape[1]):
            load[:, d] -= np.bincount(self.owner[rows], weights=self.weight[rows, d], minlength=len(load))
        return float((load / self.capacity).max(initial=0.0))

    def moved(self) -> float:
        """Return the moved load, as the largest share of a dimension's total."""
        away = self.owner != self.home
        return float((self.weight[away].sum(axis=0) / self.scale).max())

    def fresh(self) -> Placement:
        """Return a new placement with every unit at home."""
        return Placement(self.weight, self.capacity, self.home, self.free, self.start, self.allowed, self.most)

    def size(self, units: Rows) -> Floats:
        """Return the size of each unit: its largest share of a dimension's total."""
        largest: Floats = self.weight[units, 0] / self.scale[0]
        for d in range(1, len(self.scale)):
            largest = np.maximum(largest, self.weight[units, d] / self.scale[d])
        return largest

    def may_run(self, unit: int, node: int) -> bool:
        """Return whether the unit is allowed on the node."""
        nodes = self.allowed.get(unit)
        return nodes is None or bool((nodes == node).any())

    def shift(self, units: Iterable[int], taker: int) -> None:
        """Move units to a node."""
        for unit in units:
            giver = int(self.owner[unit])
            self._members[giver] = (rows := self.members(giver))[rows != unit]
            self._members[taker] = np.append(self.members(taker), unit)
            self.owner[unit] = taker
            self.load[giver] -= self.weight[unit]
            self.load[taker] += self.weight[unit]

    def shift_many(self, units: Rows, takers: Rows) -> None:
        """Move many units at once, each to its own taker."""
        for d in range(self.load.shape[1]):
            weight = self.weight[units, d]
            self.load[:, d] += np.bincount(takers, weights=weight, minlength=len(self.load))
            self.load[:, d] -= np.bincount(self.owner[units], weights=weight, minlength=len(self.load))
        self.owner[units] = takers
        self._order = self._order[np.argsort(self.owner[self._order], kind="stable")]
        self._start = np.searchsorted(self.owner[self._order], np.arange(len(self.capacity) + 1))
        self._members.clear()
