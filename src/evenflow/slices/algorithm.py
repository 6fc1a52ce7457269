"""Load-balancing algorithms as the thesis plugs them in (section 4.2, Figure 17), and the one that asks the planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evenflow import imbalance
from evenflow.actor import Note
from evenflow.model import Move, Plan, Snapshot
from evenflow.planner import Draft, Policy, Settings, plan
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

    def analyze(self, nodes: NodeMap, now: float) -> Sequence[Movement | Note]:
        """Look at the whole map, after every notification; say what should move, and what to note about it."""
        ...


class Nothing:
    """The policy that offers no move."""

    def propose(self, draft: Draft) -> Iterator[Move]:
        """Offer nothing."""
        yield from ()


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
    doubt
        Leave an imbalance alone that is within so many standard errors of the estimated loads: it may be noise.
    tolerance
        Leave an imbalance alone that is not above this: estimates become better all the time, and what is left of the
        last plan would some day stand out from them, although it is worth no move.
    settle, patience
        In so many rounds after such a plan half of that is enough, if it was there in so many rounds one after the
        other: what a plan left uneven is dealt with soon after it or not at all.
    name
        What the trace calls the policy.
    """

    policy: Policy
    settings: Settings = field(default_factory=Settings)
    every_s: float = 0.0
    samples: int = 0
    rest_s: float = 0.0
    doubt: float = 0.0
    tolerance: float = 0.0
    settle: int = 0
    patience: int = 3
    name: str = ""
    _due: float = 0.0
    _seen: int = 0  # rounds in a row that saw some of it left
    _settling: int = 0  # rounds in which less is enough
    _moved_at: dict[str, float] = field(default_factory=dict)

    def on_new_node(self, node: NodeView) -> None:
        """Plan with the next notification: a new node is worth a look at once."""
        self._due = 0.0

    def analyze(self, nodes: NodeMap, now: float) -> Sequence[Movement | Note]:
        """Plan, and gather the moves of each pair of nodes into one movement."""
        if now < self._due:
            return []
        usable = nodes.usable(now)
        if len(usable) < 2 or not nodes.known(self.samples):
            self._due = now + self.every_s / 10  # looking through every slice on every notification takes too long
            return []
        self._due = now + self.every_s
        result = self._plan(nodes, usable, now)
        decided: list[Movement | Note] = list(self._notes(result, now))
        pairs: dict[tuple[str, str], list[int]] = {}
        for move in result.moves:
            pairs.setdefault((move.giver, move.taker), []).append(int(move.unit))
            self._moved_at[move.unit] = now
        reasons = {(move.giver, move.taker): move.why for move in result.moves}
        decided += [Movement(g, t, len(s), tuple(sorted(s)), reasons[g, t]) for (g, t), s in pairs.items()]
        return decided

    def _plan(self, nodes: NodeMap, usable: Sequence[str], now: float) -> Plan:
        snapshot = nodes.snapshot(usable)
        if self.doubt and nodes.nodes and not self._uneven(snapshot, self.doubt * nodes.doubt(usable)):
            return plan(snapshot, Nothing(), self.settings)
        return plan(snapshot, self.policy, self._settings(now))

    def _uneven(self, snapshot: Snapshot, doubt: float) -> bool:
        """Say whether the imbalance is worth a plan."""
        excess = imbalance.max_over_mean(snapshot.node_load(), snapshot.capacity) - 1.0
        worth = max(self.tolerance, doubt)
        if excess >= worth:
            self._settling, self._seen = self.settle, 0
            return True
        self._seen = self._seen + 1 if self._settling and excess >= worth / 2 else 0
        self._settling = max(0, self._settling - 1)
        if self._seen < max(1, self.patience):
            return False
        self._seen = 0
        return True

    def _notes(self, result: Plan, now: float) -> Iterator[Note]:
        """Say what was planned and refused; a round in which nothing moves is told only if it plans rarely."""
        if result.moves or self.every_s:
            yield Note(
                {
                    "kind": "plan",
                    "at": now,
                    "policy": self.name or type(self.policy).__name__,
                    "moves": len(result.moves),
                    "before": result.max_over_mean[0],
                    "after": result.max_over_mean[1],
                    "gap": result.gap,
                    "floor": result.floor,
                }
            )
            for name, count in result.refusals.items():
                yield Note({"kind": "refusal", "at": now, "name": name, "why": name, "count": count})

    def _settings(self, now: float) -> Settings:
        if not self.rest_s:
            return self.settings
        self._moved_at = {u: at for u, at in self._moved_at.items() if at + self.rest_s > now}
        old = self.settings
        return Settings(limit=old.limit, churn=old.churn, cooling=frozenset(self._moved_at), gap=old.gap)
