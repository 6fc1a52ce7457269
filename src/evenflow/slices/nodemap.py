"""What the balancer knows: its nodes with their last notifications, and which node each slice belongs to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from evenflow.model import ONE_DIMENSION, Snapshot
from evenflow.slices.messages import Notification

WARM = 4  # samples before a jump can be told from noise
FAR = 3.0  # standard deviations


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
class Estimate:
    """The load of one slice, learned from noisy samples.

    The weight of a sample falls from 1 to ``alpha`` (Cheung 2006, Eq. 3.4), so that the first few count alike.
    It rises again when the errors lean to one side, because then the load drifts or has jumped
    (Trigg and Leach's tracking signal): a change that is smoothed away is found too late.
    """

    mean: float = 0.0
    variance: float = 0.0
    samples: int = 0
    lean: float = 0.0  # smoothed error
    spread: float = 0.0  # smoothed size of errors

    def relearn(self, sample: float) -> None:
        """Start again from this sample; how noisy samples are is still known."""
        self.mean, self.samples, self.lean = sample, 1, 0.0

    def update(self, sample: float, alpha: float) -> None:
        """Take in one sample."""
        error = sample - self.mean
        self.lean += alpha * (error - self.lean)
        self.spread += alpha * (abs(error) - self.spread)
        drift = (self.lean / self.spread) ** 2 if self.spread > 0 and self.samples >= WARM else 0.0
        weight = max(alpha, 1.0 / (self.samples + 1), drift)
        self.mean += weight * error
        self.variance += max(alpha, 1.0 / (self.samples + 1)) * (error * error * (1.0 - weight) - self.variance)
        self.samples += 1


@dataclass(slots=True)
class NodeMap:
    """The nodes and the slices.

    Parameters
    ----------
    slices
        How many there are.
    silent_s
        A node that was not heard of for so long takes part in no new plan.
    alpha
        How much a new sample of a slice's load weighs in the long run.
    """

    slices: int
    silent_s: float = 8.0
    alpha: float = 0.2
    nodes: dict[str, NodeView] = field(default_factory=dict)
    owner: list[str | None] = field(init=False)  # a slice that is moving belongs to its taker already
    moving: dict[int, str] = field(default_factory=dict)  # slice → the node it leaves
    pinned: set[int] = field(default_factory=set)
    untold: set[str] = field(default_factory=set)  # nodes that have not confirmed how an old session ended
    estimates: list[Estimate] = field(init=False)
    _off: dict[str, float] = field(default_factory=dict)  # node → how far its last sample lay off, if it was far

    def __post_init__(self) -> None:
        self.owner = [None] * self.slices
        self.estimates = [Estimate() for _ in range(self.slices)]

    def reachable(self, name: str, now: float) -> bool:
        """Say whether a node can take part in a session: heard of lately, and all its old sessions are settled."""
        node = self.nodes.get(name)
        return node is not None and node.heard >= now - self.silent_s and name not in self.untold

    def usable(self, now: float) -> list[str]:
        """Return the nodes that may give and take: reachable, not being drained."""
        return [n.name for n in self.nodes.values() if not n.draining and self.reachable(n.name, now)]

    def measured(self, node: str, loads: Mapping[int, float]) -> None:
        """Take in new samples of slices' loads, all from one node.

        A jump may hide in many slices, each within its noise; it shows in their sum.
        """
        estimates, alpha = self.estimates, self.alpha
        distance = variance = 0.0
        for s, load in loads.items():
            estimate = estimates[s]
            if estimate.samples >= WARM:
                distance += load - estimate.mean
                variance += estimate.variance
        far = distance * distance > FAR * FAR * variance + 1e-12
        jumped = far and self._off.get(node, 0.0) * distance > 0
        self._off[node] = distance if far and not jumped else 0.0
        for s, load in loads.items():
            if jumped:
                estimates[s].relearn(load)
            else:
                estimates[s].update(load, alpha)

    def doubt(self, names: Iterable[str]) -> float:
        """Return the standard error of a node's estimated load, as a fraction of it, for the least certain node."""
        means, variances = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for s, owner in enumerate(self.owner):
            if owner in means:
                estimate = self.estimates[s]
                weight = max(self.alpha / (2.0 - self.alpha), 1.0 / max(1, estimate.samples))
                means[owner] += estimate.mean
                variances[owner] += weight * estimate.variance
        return max((v**0.5 / m for m, v in zip(means.values(), variances.values(), strict=True) if m > 0), default=0.0)

    def load(self, slice_id: int) -> float:
        """Return the estimated load of a slice, in cost units per second."""
        return self.estimates[slice_id].mean

    def known(self, samples: int) -> bool:
        """Say whether every slice's load rests on so many samples."""
        return all(e.samples >= samples for e in self.estimates)

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
            load=np.array([self.estimates[s].mean for s in here.tolist()]).reshape(len(here), 1),
            pinned=pinned,
            leaving={unit_rows[s]: rows.get(g, -1) for s, g in self.moving.items() if s in unit_rows and g in rows},
        )
