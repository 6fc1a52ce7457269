"""What the balancer knows: its nodes with their last notifications, and which node each slice belongs to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenflow.model import ONE_DIMENSION, Snapshot
from evenflow.slices.messages import Notification


@dataclass(slots=True)
class NodeView:
    """One node as the balancer sees it (thesis, section 4.2)."""

    name: str
    joined: float
    capacity: float
    notifications: deque[Notification]
    heard: float = 0.0
    idle_since: float | None = None
    draining: bool = False


@dataclass(slots=True)
class NodeMap:
    """The nodes and the slices.

    Parameters
    ----------
    slices
        How many there are.
    alpha
        How much a new sample of a slice's load weighs (Cheung 2006, Eq. 3.4).
    """

    slices: int
    alpha: float = 0.3
    nodes: dict[str, NodeView] = field(default_factory=dict)
    owner: list[str | None] = field(init=False)  # a slice that is moving belongs to its taker already
    moving: dict[int, str] = field(default_factory=dict)  # slice → the node it leaves
    pinned: set[int] = field(default_factory=set)
    samples: NDArray[np.int64] = field(init=False)  # how many samples each slice's load rests on
    loads: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.owner = [None] * self.slices
        self.samples = np.zeros(self.slices, np.int64)
        self.loads = np.zeros(self.slices)

    def measured(self, loads: Iterable[tuple[int, float]]) -> None:
        """Smooth new samples into the loads of slices; the first sample is taken as it is."""
        alpha, smoothed, samples = self.alpha, self.loads, self.samples
        for s, load in loads:
            # the weight falls from 1 to alpha, so that the first few samples count alike and none of them dominates
            weight = max(alpha, 1.0 / (samples[s] + 1))
            smoothed[s] += weight * (load - smoothed[s])
            samples[s] += 1

    def held(self, node: str) -> list[int]:
        """Return the slices that belong to a node, lowest first."""
        return [s for s, n in enumerate(self.owner) if n == node]

    def snapshot(self, usable: Iterable[str]) -> Snapshot:
        """Return what policies read: the usable nodes and the slices on them."""
        names = list(usable)
        rows = {name: i for i, name in enumerate(names)}
        owner = np.fromiter((rows.get(n, -1) if n is not None else -1 for n in self.owner), np.int64, self.slices)
        here = np.flatnonzero(owner >= 0)
        unit_rows = {int(s): i for i, s in enumerate(here)}
        pinned = np.zeros(len(here), np.bool_)
        pinned[[unit_rows[s] for s in self.pinned if s in unit_rows]] = True
        return Snapshot(
            dimensions=ONE_DIMENSION,
            node_ids=names,
            capacity=np.array([[self.nodes[n].capacity] for n in names], np.float64).reshape(len(names), 1),
            unit_ids=[str(s) for s in here.tolist()],
            owner=owner[here],
            load=self.loads[here].reshape(len(here), 1),
            pinned=pinned,
            leaving={unit_rows[s]: rows.get(g, -1) for s, g in self.moving.items() if s in unit_rows and g in rows},
        )
