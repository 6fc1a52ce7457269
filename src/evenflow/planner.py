"""Make a plan: a policy offers moves, guards refuse some of them, the rest is the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from evenflow import guards, imbalance
from evenflow.draft import Draft, RowMove, Settings
from evenflow.model import Move, Offer, Plan, Snapshot

__all__ = ["Draft", "Policy", "RowMove", "Settings", "plan"]

Proposal = Move | RowMove | Offer | tuple[RowMove, ...]


class Policy(Protocol):
    """Offers moves, best first. Between two offers it may read the draft, which counts what was accepted.

    A class attribute ``guards`` replaces ``guards.ALL``; the hard guards always apply.
    """

    def propose(self, draft: Draft) -> Iterable[Proposal]:
        """Yield offers: one move, or a tuple of moves that are accepted or refused together."""


def plan(snapshot: Snapshot, policy: Policy, settings: Settings | None = None) -> Plan:
    """Ask the policy for moves and return a plan of those that no guard refuses.

    Examples
    --------
    >>> from evenflow.model import Node, Unit
    >>> from evenflow.policies import named
    >>> units = [Unit(f"u{i}", "a", 1.0) for i in range(4)]
    >>> result = plan(Snapshot.of([Node("a"), Node("b")], units), named("least_moves"))
    >>> len(result.moves), result.max_over_mean
    (2, (2.0, 1.0))
    """
    draft = Draft(snapshot, settings)
    asked = _guards_of(policy, draft.settings)
    accepted: list[RowMove] = []
    refusals: Counter[str] = Counter()
    for proposal in policy.propose(draft):
        offer = _offer(proposal, draft)
        name = guards.refuse(offer, draft, asked)
        if name is None:
            draft.accept(offer)
            accepted += offer
        else:
            refusals[name] += 1
    return _result(draft, accepted, refusals)


def _guards_of(policy: Policy, settings: Settings) -> tuple[guards.Guard, ...]:
    """Return the hard guards and the policy's own, except those that have nothing to refuse under these settings."""
    chosen: Sequence[guards.Guard] = getattr(policy, "guards", guards.ALL)
    idle: dict[guards.Guard, bool] = {
        guards.cooldown: not settings.cooling,
        guards.churn_budget: settings.churn is None,
        guards.limit: settings.limit is None,
    }
    return (*guards.HARD, *(g for g in chosen if g not in guards.HARD and not idle.get(g, False)))


def _offer(proposal: Proposal, draft: Draft) -> tuple[RowMove, ...]:
    if isinstance(proposal, RowMove):
        return (proposal,)
    if isinstance(proposal, Move):
        return (draft.rows(proposal),)
    return tuple(m if isinstance(m, RowMove) else draft.rows(m) for m in proposal)


def _result(draft: Draft, accepted: Sequence[RowMove], refusals: Counter[str]) -> Plan:
    """Return the plan with its effect on the load; a plan that breaks a hard goal moves nothing."""
    snapshot, bound = draft.snapshot, draft.bound
    before = snapshot.node_load()
    failed = _broken(draft, before)
    kept: Sequence[RowMove] = () if failed else accepted
    after = before if failed else draft.load
    total = snapshot.load.sum(axis=0)
    moved = np.zeros_like(total) if failed else draft.moved_load
    peak = imbalance.peak(before, snapshot.capacity), imbalance.peak(after, snapshot.capacity)
    gap = imbalance.gap(peak[1], bound.value)
    units, nodes = snapshot.unit_ids, snapshot.node_ids
    return Plan(
        moves=tuple([Move(units[u], nodes[g], nodes[t], why) for u, g, t, why in kept]),
        max_over_mean=(
            imbalance.max_over_mean(before, snapshot.capacity),
            imbalance.max_over_mean(after, snapshot.capacity),
        ),
        peak=peak,
        lower_bound=bound.value,
        floor=_floor(draft),
        gap=gap,
        moved_load=float((moved[total > 0] / total[total > 0]).max(initial=0.0)),
        needed_load=imbalance.needed(before, snapshot.capacity, bound.value),
        refusals=dict(sorted(refusals.items())),
        failed=failed,
        missed=_missed(draft, gap),
    )


def _floor(draft: Draft) -> str:
    """Return a sentence that says what sets the lower bound."""
    bound, snapshot = draft.bound, draft.snapshot
    if bound.kind == "unit":
        return f"one hot unit is the floor: unit {snapshot.unit_ids[bound.row]}"
    if bound.kind == "pinned":
        return f"the pinned load of one node is the floor: node {snapshot.node_ids[bound.row]}"
    return "the mean is the floor"


def _broken(draft: Draft, before: imbalance.Floats) -> tuple[str, ...]:
    """Return the hard goals that the accepted moves break: they must not push a node over its limit."""
    if draft.limit is None:
        return ()
    pushed = (draft.load > draft.limit * (1 + 1e-9)) & (draft.load > before * (1 + 1e-9))
    rows = np.flatnonzero(pushed.any(axis=1)).tolist()
    return tuple(f"limit: node {draft.snapshot.node_ids[n]} is pushed over it" for n in rows)


def _missed(draft: Draft, gap: float) -> tuple[str, ...]:
    """Return the soft goals that the plan misses."""
    missed = []
    if gap > draft.settings.gap:
        missed.append(f"gap: {gap:.2%} above the lower bound, the goal is {draft.settings.gap:.2%}")
    if draft.limit is not None:
        over = np.flatnonzero((draft.load > draft.limit * (1 + 1e-9)).any(axis=1))
        missed += [f"limit: node {draft.snapshot.node_ids[n]} is over it" for n in over[:10]]
    return tuple(missed)
