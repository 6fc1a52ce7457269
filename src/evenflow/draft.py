"""The draft of a plan: the snapshot plus every move accepted so far, as policies and guards see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow import imbalance
from evenflow.model import Load, Move, Snapshot


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and goals of a plan.

    Parameters
    ----------
    limit
        Highest load over capacity that a taker may reach, one number or one per dimension; ``None`` is no limit.
    churn
        Largest share of all load that one plan may move; ``None`` is no budget.
    cooling
        Ids of the units that moved recently and must not move again yet.
    gap
        Soft goal: the gap to the lower bound that a plan should reach.
    """

    limit: Load | None = None
    churn: float | None = None
    cooling: Collection[str] = field(default_factory=frozenset)
    gap: float = 0.01


ROUNDING = 1e-12  # the order of summation changes sums of loads by about this fraction


class RowMove(NamedTuple):
    """A move that names its unit and nodes by their rows in the snapshot."""

    unit: int
    giver: int
    taker: int
    why: str = ""


class Draft:
    """The plan in the making: policies read it between offers, and guards check offers against it.

    Attributes
    ----------
    snapshot, settings
        What the plan started from.
    owner, load
        Owner of every unit and load of every node and dimension, as if every accepted move were done.
        A move still under way from an earlier plan counts at its taker.
    held
        Load of every node and dimension with every move, accepted or under way, counted at both its giver and taker:
        the most a node carries at any moment. Limits are checked against it.
    bound
        The lowest peak that any plan could reach, and what determines it.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings | None = None) -> None:
        self.snapshot = snapshot
        self.settings = settings = settings or Settings()
        self.owner: NDArray[np.int64] = snapshot.owner.copy()
        self.bound = imbalance.lower_bound(snapshot)
        self._load: NDArray[np.float64] | None = snapshot.node_load()
        self._columns = _columns(snapshot, self._load)
        self.limit = _limit(settings.limit, snapshot)
        self.budget = None if settings.churn is None else settings.churn * snapshot.load.sum(axis=0)
        self._moved = set(snapshot.leaving)
        self._node_rows: dict[str, int] | None = None
        self._unit_rows: dict[str, int] | None = None
        self._cooling = {self.unit_row(u) for u in settings.cooling} - {-1}

    # What a policy asks.

    @property
    def load(self) -> NDArray[np.float64]:
        """Load of every node and dimension, as if every accepted move were done."""
        if self._load is None:
            self._load = np.array([column.load for column in self._columns]).T
        return self._load

    @property
    def held(self) -> NDArray[np.float64]:
        """Load of every node and dimension, with every move counted at both its giver and taker."""
        return np.array([column.held for column in self._columns]).T

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """Load over capacity of every node, in its worst dimension."""
        return imbalance.utilisation(self.load, self.snapshot.capacity)

    @property
    def peak(self) -> float:
        """The highest load over capacity."""
        return imbalance.peak(self.load, self.snapshot.capacity)

    @property
    def moved_load(self) -> NDArray[np.float64]:
        """Load per dimension that the accepted moves move."""
        return np.array([column.moved for column in self._columns])

    @property
    def mean(self) -> float:
        """Total load over total capacity."""
        return imbalance.mean(self.load, self.snapshot.capacity)

    @property
    def gap(self) -> float:
        """How far the peak is above the lower bound, as a fraction of it."""
        return imbalance.gap(self.peak, self.bound.value)

    def level(self, node: int, plus: int | None = None) -> float:
        """Return load over capacity of one node in its worst dimension, optionally with one more unit."""
        return max((c.load[node] + (0.0 if plus is None else c.units[plus])) / c.capacity[node] for c in self._columns)

    def units_of(self, node: int) -> NDArray[np.int64]:
        """Return the rows of the units that the node owns."""
        return np.flatnonzero(self.owner == node)

    def units_by_node(self) -> list[NDArray[np.int64]]:
        """Return the rows of the units of every node."""
        order = np.argsort(self.owner, kind="stable")
        return np.split(order, np.searchsorted(self.owner[order], np.arange(1, len(self.snapshot.node_ids))))

    def movable(self, *, resting: bool = False) -> NDArray[np.bool_]:
        """Return which units may move: not pinned, not moving already and, unless ``resting``, not in their cooldown."""
        free = ~self.snapshot.pinned
        free[list(self._moved)] = False
        if not resting:
            free[list(self._cooling)] = False
        return free

    def move(self, unit: int, taker: int, why: str = "") -> RowMove:
        """Return the move of a unit from its current owner."""
        return RowMove(unit, int(self.owner[unit]), taker, why)

    # What the planner asks.

    def node_row(self, node: str) -> int:
        """Return the row of a node, -1 if it is unknown."""
        if self._node_rows is None:
            self._node_rows = {n: i for i, n in enumerate(self.snapshot.node_ids)}
        return self._node_rows.get(node, -1)

    def unit_row(self, unit: str) -> int:
        """Return the row of a unit, -1 if it is unknown."""
        if self._unit_rows is None:
            self._unit_rows = {u: i for i, u in enumerate(self.snapshot.unit_ids)}
        return self._unit_rows.get(unit, -1)

    def rows(self, move: Move) -> RowMove:
        """Return a move with rows in place of ids."""
        return RowMove(self.unit_row(move.unit), self.node_row(move.giver), self.node_row(move.taker), move.why)

    def accept(self, offer: Sequence[RowMove]) -> None:
        """Add the moves of an offer to the draft."""
        self._load = None
        for unit, giver, taker, _ in offer:
            for column in self._columns:
                weight = column.units[unit]
                column.load[giver] -= weight
                column.load[taker] += weight
                column.held[taker] += weight
                column.moved += weight
            self.owner[unit] = taker
            self._moved.add(unit)

    # What the guards ask.

    def owner_of(self, unit: int) -> int | None:
        """Return the owner's row."""
        return int(self.owner[unit]) if 0 <= unit < len(self.owner) else None

    def pinned(self, unit: int) -> bool:
        """Return whether the unit must stay."""
        return bool(self.snapshot.pinned[unit])

    def may_run(self, unit: int, node: int) -> bool:
        """Return whether the unit is allowed on the node."""
        nodes = self.snapshot.allowed.get(unit)
        return node >= 0 if nodes is None else bool((nodes == node).any())

    def moved(self, unit: int) -> bool:
        """Return whether the unit moves in this plan, or is still under way from an earlier one."""
        return unit in self._moved

    def cooling(self, unit: int) -> bool:
        """Return whether the unit moved recently."""
        return unit in self._cooling

    def over_budget(self, offer: Sequence[RowMove]) -> bool:
        """Return whether the offer would exceed the churn budget."""
        if self.budget is None:
            return False
        return any(
            column.moved + sum(column.units[move.unit] for move in offer) > most * (1 + ROUNDING)
            for column, most in zip(self._columns, self.budget.tolist(), strict=True)
        )

    def over_limit(self, offer: Sequence[RowMove]) -> bool:
        """Return whether the offer would push a taker over its limit."""
        if self.limit is None:
            return False
        for d, column in enumerate(self._columns):
            more: dict[int, float] = {}
            for move in offer:
                more[move.taker] = more.get(move.taker, column.held[move.taker]) + column.units[move.unit]
            if any(load > self.limit[node, d] * (1 + ROUNDING) for node, load in more.items()):
                return True
        return False

    def peaks(self, offer: Sequence[RowMove]) -> tuple[float, float]:
        """Return the highest load over capacity of the nodes in an offer, before and after it."""
        if len(offer) == 1:
            return self._peaks_of_one(offer[0])
        before = after = 0.0
        for column in self._columns:
            load, capacity = column.load, column.capacity
            change: dict[int, float] = {}
            for move in offer:
                weight = column.units[move.unit]
                change[move.giver] = change.get(move.giver, load[move.giver]) - weight
                change[move.taker] = change.get(move.taker, load[move.taker]) + weight
            for node, becomes in change.items():
                before = max(before, load[node] / capacity[node])
                after = max(after, becomes / capacity[node])
        return before, after

    def _peaks_of_one(self, move: RowMove) -> tuple[float, float]:
        """Do what ``peaks`` does, faster: plans with hundreds of thousands of moves consist of single ones."""
        unit, giver, taker, _ = move
        before = after = 0.0
        for column in self._columns:
            weight, capacity = column.units[unit], column.capacity[taker]
            gives, takes = column.load[giver] / column.capacity[giver], column.load[taker] / capacity
            before = max(before, gives, takes)
            after = max(after, gives - weight / column.capacity[giver], takes + weight / capacity)
        return before, after


@dataclass(slots=True)
class _Column:
    """One load dimension in lists: reading a single number from a list is much faster than from an array."""

    units: list[float]
    capacity: list[float]
    load: list[float]
    held: list[float]
    moved: float = 0.0


def _columns(snapshot: Snapshot, load: NDArray[np.float64]) -> list[_Column]:
    held = snapshot.node_load(both_sides=True)
    return [
        _Column(
            snapshot.load[:, d].tolist(), snapshot.capacity[:, d].tolist(), load[:, d].tolist(), held[:, d].tolist()
        )
        for d in range(len(snapshot.dimensions))
    ]


def _limit(limit: Load | None, snapshot: Snapshot) -> NDArray[np.float64] | None:
    """Return the highest load per node and dimension."""
    if limit is None:
        return None
    factors = [limit.get(d, np.inf) if isinstance(limit, Mapping) else limit for d in snapshot.dimensions]
    with np.errstate(over="ignore"):  # a limit beyond every float is no limit
        most: NDArray[np.float64] = snapshot.capacity * np.array(factors, np.float64)
    return most
