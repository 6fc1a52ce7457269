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
        self.load: NDArray[np.float64] = snapshot.node_load()
        self.held: NDArray[np.float64] = snapshot.node_load(both_sides=True)
        self.bound = imbalance.lower_bound(snapshot)
        self.moved_load: NDArray[np.float64] = np.zeros(len(snapshot.dimensions))
        self.limit = _limit(settings.limit, snapshot)
        self.budget = None if settings.churn is None else settings.churn * snapshot.load.sum(axis=0)
        self._moved = set(snapshot.leaving)
        self._node_rows: dict[str, int] | None = None
        self._unit_rows: dict[str, int] | None = None
        self._cooling = {self.unit_row(u) for u in settings.cooling if self.has_unit(u)}
        self._allowed = {unit: frozenset(nodes.tolist()) for unit, nodes in snapshot.allowed.items()}

    # What a policy asks.

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """Load over capacity of every node, in its worst dimension."""
        return imbalance.utilisation(self.load, self.snapshot.capacity)

    @property
    def peak(self) -> float:
        """The highest load over capacity."""
        return imbalance.peak(self.load, self.snapshot.capacity)

    @property
    def mean(self) -> float:
        """Total load over total capacity."""
        return imbalance.mean(self.load, self.snapshot.capacity)

    @property
    def gap(self) -> float:
        """How far the peak is above the lower bound, as a fraction of it."""
        return imbalance.gap(self.peak, self.bound.value)

    def units_of(self, node: int) -> NDArray[np.int64]:
        """Return the rows of the units that the node owns."""
        return np.flatnonzero(self.owner == node)

    def movable(self) -> NDArray[np.bool_]:
        """Return which units may still move: not pinned, not moving, not cooling."""
        free = ~self.snapshot.pinned
        free[list(self._moved)] = False
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
        for unit, giver, taker, _ in offer:
            load = self.snapshot.load[unit]
            self.owner[unit] = taker
            self.load[giver] -= load
            self.load[taker] += load
            self.held[taker] += load
            self.moved_load += load
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
        nodes = self._allowed.get(unit)
        return node >= 0 if nodes is None else node in nodes

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
        more = self.snapshot.load[[step.unit for step in offer]].sum(axis=0)
        return bool((self.moved_load + more > self.budget * (1 + 1e-12)).any())

    def over_limit(self, offer: Sequence[guards.Step]) -> bool:
        """Return whether a taker would pass its limit."""
        if self.limit is None:
            return False
        more: dict[int, NDArray[np.float64]] = {}
        for step in offer:
            more[step.taker] = more.get(step.taker, 0.0) + self.snapshot.load[step.unit]
        return any((self.held[node] + load > self.limit[node] * (1 + 1e-12)).any() for node, load in more.items())

    def peaks(self, offer: Sequence[guards.Step]) -> tuple[float, float]:
        """Return the peak of the nodes an offer touches, before and after it."""
        change: dict[int, NDArray[np.float64]] = {}
        for step in offer:
            load = self.snapshot.load[step.unit]
            change[step.giver] = change.get(step.giver, 0.0) - load
            change[step.taker] = change.get(step.taker, 0.0) + load
        nodes = list(change)
        capacity = self.snapshot.capacity[nodes]
        before = self.load[nodes]
        after = before + np.array([change[n] for n in nodes])
        return float((before / capacity).max()), float((after / capacity).max())


def _limit(limit: Load | None, snapshot: Snapshot) -> NDArray[np.float64] | None:
    """Return the highest load per node and dimension."""
    if limit is None:
        return None
    factors = [limit.get(d, np.inf) if isinstance(limit, Mapping) else limit for d in snapshot.dimensions]
    most: NDArray[np.float64] = snapshot.capacity * np.array(factors, np.float64)
    return most
