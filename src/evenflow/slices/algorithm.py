"""Load-balancing algorithms as the thesis plugs them in (section 4.2, Figure 17), and the one that asks the planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evenflow.model import Plan, Snapshot
from evenflow.planner import Policy, Settings, plan
from evenflow.slices.nodemap import NodeMap, NodeView


@dataclass(frozen=True, slots=True)
class Movement:
    """So many slices go from giver to taker; which ones is the balancer's choice unless they are named."""

    giver: str
    taker: str
    count: int
    slices: tuple[int, ...] = ()
    why: str = ""


class Algorithm(Protocol):
    """Decides when the load is uneven and what should move."""

    def on_new_node(self, node: NodeView) -> None:
        """Hear of a new node."""
        ...

    def analyze(self, nodes: NodeMap, usable: Sequence[str], now: float) -> list[Movement]:
        """Look at the whole map, after every notification, and say what should move."""
        ...


@dataclass(slots=True)
class Planned:
    """An algorithm made of a policy: the policy offers, the planner decides.

    Parameters
    ----------
    policy
        Any policy of :mod:`evenflow.policies`, or a user's.
    settings
        The planner's.
    every_s
        Plan at most this often; 0 plans on every notification, as the thesis does.
    samples
        Plan only once every slice has been measured so often; counts need no measuring.
    rest_s
        A slice that moved rests for so long.
    on_plan
        Told about every plan that moves something.
    """

    policy: Policy
    settings: Settings = field(default_factory=Settings)
    every_s: float = 0.0
    samples: int = 0
    rest_s: float = 0.0
    on_plan: Callable[[Plan, Snapshot, float], Any] | None = None
    _due: float = 0.0
    _moved_at: dict[str, float] = field(default_factory=dict)

    def on_new_node(self, node: NodeView) -> None:
        """Plan with the next notification: a new node is worth a look at once."""
        self._due = 0.0

    def analyze(self, nodes: NodeMap, usable: Sequence[str], now: float) -> list[Movement]:
        """Plan, and gather the moves of each pair of nodes into one movement."""
        if now < self._due or len(usable) < 2 or (self.samples and nodes.samples.min() < self.samples):
            return []
        self._due = now + self.every_s
        snapshot = nodes.snapshot(usable)
        result = plan(snapshot, self.policy, self._settings(now))
        if not result.moves:
            return []
        if self.on_plan is not None:
            self.on_plan(result, snapshot, now)
        pairs: dict[tuple[str, str], list[int]] = {}
        for move in result.moves:
            pairs.setdefault((move.giver, move.taker), []).append(int(move.unit))
            self._moved_at[move.unit] = now
        why = result.moves[0].why
        return [Movement(g, t, len(s), tuple(sorted(s)), why) for (g, t), s in pairs.items()]

    def _settings(self, now: float) -> Settings:
        if not self.rest_s:
            return self.settings
        self._moved_at = {u: at for u, at in self._moved_at.items() if at + self.rest_s > now}
        old = self.settings
        return Settings(limit=old.limit, churn=old.churn, cooling=frozenset(self._moved_at), gap=old.gap)
