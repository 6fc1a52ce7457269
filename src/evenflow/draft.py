"""The draft of a plan: the snapshot with every accepted move already counted, which policies read and guards ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow import guards, imbalance
from evenflow.model import Load, Move, Snapshot


@dataclass(frozen=True, slots=True)
class Settings:
    """What a plan may cost and what it must keep.

    Parameters
    ----------
    limit
        Highest load over capacity that a taker may reach, one number or one per dimension; ``None`` is no limit.
    churn
        Largest share of all load that one plan may move; ``None`` is no budget.
    cooling
        Ids of the units that moved recently and should rest.
    gap
        Soft goal: the gap to the lower bound that a plan should reach.
    """

    limit: Load | None = None
    churn: float | None = None
    cooling: Collection[str] = field(default_factory=frozenset)
    gap: float = 0.01


ROUNDING = 1e-12  # sums of loads differ by this fraction with the order of their terms


class RowMove(NamedTuple):
    """A move by rows of the snapshot's columns, for policies that offer very many."""

    unit: int
    giver: int
    taker: int
    why: str = ""


class Draft:
    """What a policy reads while it offers moves; it is also the planner's global view for the guards.

    Attributes
    ----------
    snapshot, settings
        What the plan started from.
    owner, load
        Owner of every unit and load of every node and dimension, with every accepted move already made.
        A move still under way from an earlier plan counts at its taker, where its load will be.
    held
        Load of every node and dimension with every move, accepted or under way, counted on both of its sides:
        what a node must bear in the worst moment. Limits are checked against it.
    bound
        The lowest peak that any plan could reach, and what sets it.
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
        self._cooling = {self.unit_row(u) for u in settings.cooling if self.has_unit(u)}

    # What a policy asks.

    @property
    def load(self) -> NDArray[np.float64]:
        """Load of every node and dimension, with every accepted move already made."""
        if self._load is None:
            self._load = np.array([column.load for column in self._columns]).T
        return self._load

    @property
    def held(self) -> NDArray[np.float64]:
        """Load of every node and dimension, with every move counted on both of its sides."""
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
        """Return load over capacity of one node, in its worst dimension, as it is or with one more unit."""
        return max((c.load[node] + (0.0 if plus is None else c.units[plus])) / c.capacity[node] for c in self._columns)

    def units_of(self, node: int) -> NDArray[np.int64]:
        """Return the rows of the units that the node owns."""
        return np.flatnonzero(self.owner == node)

    def units_by_node(self) -> list[NDArray[np.int64]]:
        """Return the rows of the units of every node."""
        order = np.argsort(self.owner, kind="stable")
        return np.split(order, np.searchsorted(self.owner[order], np.arange(1, len(self.snapshot.node_ids))))

    def movable(self, *, resting: bool = False) -> NDArray[np.bool_]:
        """Return which units may still move: not pinned, not moving and, unless ``resting``, not cooling."""
        free = ~self.snapshot.pinned
        free[list(self._moved)] = False
        if not resting:
            free[list(self._cooling)] = False
        return free

    def move(self, unit: int, taker: int, why: str = "") -> RowMove:
        """Return the move of a unit from its present owner, by rows."""
        return RowMove(unit, int(self.owner[unit]), taker, why)

    # What the planner asks.

    def node_row(self, node: str) -> int:
        """Return the row of a node; -1 when it is unknown."""
        if self._node_rows is None:
            self._node_rows = {n: i for i, n in enumerate(self.snapshot.node_ids)}
        return self._node_rows.get(node, -1)

    def has_unit(self, unit: str) -> bool:
        """Return whether the snapshot has the unit."""
        return self.unit_row(unit) >= 0

    def unit_row(self, unit: str) -> int:
        """Return the row of a unit; -1 when it is unknown."""
        if self._unit_rows is None:
            self._unit_rows = {u: i for i, u in enumerate(self.snapshot.unit_ids)}
        return self._unit_rows.get(unit, -1)

    def rows(self, move: Move) -> RowMove:
        """Return a move by rows."""
        return RowMove(self.unit_row(move.unit), self.node_row(move.giver), self.node_row(move.taker), move.why)

    def accept(self, offer: Sequence[RowMove]) -> None:
        """Count the moves of an offer."""
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

    # What the guards ask (see guards.View).

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
        """Return whether the unit moves already."""
        return unit in self._moved

    def cooling(self, unit: int) -> bool:
        """Return whether the unit should rest."""
        return unit in self._cooling

    def over_budget(self, offer: Sequence[guards.Step]) -> bool:
        """Return whether the churn budget would be passed."""
        if self.budget is None:
            return False
        return any(
            column.moved + sum(column.units[step.unit] for step in offer) > most * (1 + ROUNDING)
            for column, most in zip(self._columns, self.budget.tolist(), strict=True)
        )

    def over_limit(self, offer: Sequence[guards.Step]) -> bool:
        """Return whether a taker would pass its limit."""
        if self.limit is None:
            return False
        for d, column in enumerate(self._columns):
            more: dict[int, float] = {}
            for step in offer:
                more[step.taker] = more.get(step.taker, column.held[step.taker]) + column.units[step.unit]
            if any(load > self.limit[node, d] * (1 + ROUNDING) for node, load in more.items()):
                return True
        return False

    def peaks(self, offer: Sequence[guards.Step]) -> tuple[float, float]:
        """Return the peak of the nodes an offer touches, before and after it."""
        if len(offer) == 1:
            return self._peaks_of_one(offer[0])
        before = after = 0.0
        for column in self._columns:
            load, capacity = column.load, column.capacity
            change: dict[int, float] = {}
            for step in offer:
                weight = column.units[step.unit]
                change[step.giver] = change.get(step.giver, load[step.giver]) - weight
                change[step.taker] = change.get(step.taker, load[step.taker]) + weight
            for node, becomes in change.items():
                before = max(before, load[node] / capacity[node])
                after = max(after, becomes / capacity[node])
        return before, after

    def _peaks_of_one(self, step: guards.Step) -> tuple[float, float]:
        """Do what ``peaks`` does without a table: plans of hundreds of thousands of moves consist of single ones."""
        unit, giver, taker = step.unit, step.giver, step.taker
        before = after = 0.0
        for column in self._columns:
            weight, capacity = column.units[unit], column.capacity[taker]
            gives, takes = column.load[giver] / column.capacity[giver], column.load[taker] / capacity
            before = max(before, gives, takes)
            after = max(after, gives - weight / column.capacity[giver], takes + weight / capacity)
        return before, after


@dataclass(slots=True)
class _Column:
    """One load dimension in lists: reading one number of a list is much faster than of a numpy column."""

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
    with np.errstate(over="ignore"):  # a limit beyond every number is none
        most: NDArray[np.float64] = snapshot.capacity * np.array(factors, np.float64)
    return most
