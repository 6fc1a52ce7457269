"""The model of load balancing: nodes own units, units carry load, and a move takes a unit from a giver to a taker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Load = float | Mapping[str, float]
"""A load or a capacity: one number, or one number per dimension (``{"cpu": 0.3, "memory": 12.0}``)."""

ONE_DIMENSION = ("load",)


@dataclass(frozen=True, slots=True)
class Node:
    """A place where units run. ``capacity`` is a weight, not a limit: twice the capacity means twice the fair share."""

    id: str
    capacity: Load = 1.0


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest thing that moves. ``allowed`` names the nodes it may run on; ``None`` means any."""

    id: str
    node: str
    load: Load
    pinned: bool = False
    allowed: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One unit goes from its giver to its taker; ``why`` is the reason, in words."""

    unit: str
    giver: str
    taker: str
    why: str = ""


Offer = tuple[Move, ...]
"""Moves that are accepted or refused together, such as the two halves of a swap."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to move, the effect on the load, and what was refused. A plan changes nothing; sessions carry it out.

    Parameters
    ----------
    moves
        In the order in which they were accepted; empty when a hard goal failed.
    max_over_mean, peak
        Before and after the plan: the highest load over capacity, relative to the mean and as it is.
    lower_bound, floor
        The lowest peak that any plan could reach, and what sets it ("one hot unit is the floor: unit 7").
    gap
        How far the peak after the plan is above the lower bound, as a fraction of it.
    moved_load, needed_load
        Shares of all load: what the plan moves, and what lies above the lower bound before it.
    refusals
        How often each guard refused an offer, by the guard's name.
    failed
        Hard goals that the accepted moves would break; such a plan moves nothing.
    missed
        Soft goals that the plan misses.
    """

    moves: tuple[Move, ...]
    max_over_mean: tuple[float, float]
    peak: tuple[float, float]
    lower_bound: float
    floor: str
    gap: float
    moved_load: float
    needed_load: float
    refusals: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All nodes and units at one moment, in columns.

    Parameters
    ----------
    dimensions
        Names of the load dimensions, the columns of ``capacity`` and ``load``.
    node_ids, capacity
        One row per node.
    unit_ids, owner, load, pinned
        One row per unit; ``owner`` is a row of ``node_ids``.
        A unit whose move is under way already belongs to its taker.
    allowed
        Unit row to the node rows it may run on; a unit without an entry may run anywhere.
    leaving
        Unit row to the node row that its move under way takes it from: its load counts there too until the move ends.
    """

    dimensions: tuple[str, ...]
    node_ids: Sequence[str]
    capacity: NDArray[np.float64]
    unit_ids: Sequence[str]
    owner: NDArray[np.int64]
    load: NDArray[np.float64]
    pinned: NDArray[np.bool_]
    allowed: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    leaving: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node], units: Iterable[Unit], leaving: Mapping[str, str] | None = None) -> Snapshot:
        """Make a snapshot from nodes and units.

        Examples
        --------
        >>> s = Snapshot.of([Node("a"), Node("b", 2.0)], [Unit("u", "a", 3.0)])
        >>> s.node_load()[:, 0].tolist()
        [3.0, 0.0]
        """
        nodes, units = list(nodes), list(units)
        dimensions = _dimensions([n.capacity for n in nodes], [u.load for u in units])
        rows = {n.id: i for i, n in enumerate(nodes)}
        unit_rows = {u.id: i for i, u in enumerate(units)}
        return cls(
            dimensions=dimensions,
            node_ids=[n.id for n in nodes],
            capacity=_columns([n.capacity for n in nodes], dimensions, missing=1.0),
            unit_ids=[u.id for u in units],
            owner=np.fromiter((rows[u.node] for u in units), np.int64, len(units)),
            load=_columns([u.load for u in units], dimensions, missing=0.0),
            pinned=np.fromiter((u.pinned for u in units), np.bool_, len(units)),
            allowed={
                i: np.array(sorted(rows[n] for n in u.allowed if n in rows), np.int64)
                for i, u in enumerate(units)
                if u.allowed is not None
            },
            leaving={unit_rows[u]: rows[n] for u, n in (leaving or {}).items()},
        )

    def node_load(self, *, both_sides: bool = False) -> NDArray[np.float64]:
        """Return load per node and dimension; with ``both_sides`` a moving unit also counts at the node it leaves."""
        total = np.zeros_like(self.capacity)
        for d in range(len(self.dimensions)):
            total[:, d] = np.bincount(self.owner, weights=self.load[:, d], minlength=len(self.node_ids))
        if both_sides:
            for unit, node in self.leaving.items():
                total[node] += self.load[unit]
        return total


def _dimensions(capacities: Sequence[Load], loads: Sequence[Load]) -> tuple[str, ...]:
    names = {name for value in (*capacities, *loads) if isinstance(value, Mapping) for name in value}
    return tuple(sorted(names)) or ONE_DIMENSION


def _columns(values: Sequence[Load], dimensions: tuple[str, ...], missing: float) -> NDArray[np.float64]:
    """Return one row per value; a plain number stands for every dimension."""
    rows = [
        [value.get(d, missing) for d in dimensions] if isinstance(value, Mapping) else [value] * len(dimensions)
        for value in values
    ]
    return np.array(rows, np.float64).reshape(len(values), len(dimensions))
