"""Guards: pure functions that refuse an offer by name.

An offer is one or more moves that are accepted or refused together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenflow.draft import Draft, RowMove

LEAST_GAIN = 1e-9
"""A peak must fall by at least this fraction, or rounding could pass for progress and two nodes trade one unit forever."""

Guard = Callable[[Sequence[RowMove], Draft], str | None]


def one_owner(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse a move whose giver does not own the unit, or whose giver is its taker."""
    for move in offer:
        if move.giver == move.taker or draft.owner_of(move.unit) != move.giver:
            return "one owner"
    return None


def moves_once(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse a unit that already moves: in this offer, in this plan, or in an earlier plan that is still under way."""
    if len(offer) > 1 and len({move.unit for move in offer}) < len(offer):
        return "moves once"
    for move in offer:
        if draft.moved(move.unit):
            return "moves once"
    return None


def pinned(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse to move a pinned unit."""
    for move in offer:
        if draft.pinned(move.unit):
            return "pinned"
    return None


def allowed(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse a taker that the unit may not run on."""
    for move in offer:
        if not draft.may_run(move.unit, move.taker):
            return "allowed"
    return None


def cooldown(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse a unit that moved recently: the first move has not paid off yet."""
    for move in offer:
        if draft.cooling(move.unit):
            return "cooldown"
    return None


def churn_budget(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse an offer with which the plan would move more load than its budget."""
    return "churn budget" if draft.over_budget(offer) else None


def limit(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse to push a taker over its limit, even temporarily while moves are under way."""
    return "limit" if draft.over_limit(offer) else None


def lowers_peak(offer: Sequence[RowMove], draft: Draft) -> str | None:
    """Refuse an offer that does not lower the highest load over capacity of the nodes it touches.

    Units on a node where they may not run must leave at any cost, so an offer of only such moves passes.
    """
    before, after = draft.peaks(offer)
    if after < before * (1.0 - LEAST_GAIN) or all(not draft.may_run(move.unit, move.giver) for move in offer):
        return None
    return "lowers the peak"


HARD: tuple[Guard, ...] = (one_owner, moves_once, pinned, allowed)
"""Guards that apply to every policy; the published policies run with only these, so that they stay as published."""

ALL: tuple[Guard, ...] = (*HARD, cooldown, churn_budget, limit, lowers_peak)


def refuse(offer: Sequence[RowMove], draft: Draft, guards: Sequence[Guard] = ALL) -> str | None:
    """Return the name of the first guard that refuses the offer, or ``None`` if none does."""
    for guard in guards:
        name = guard(offer, draft)
        if name is not None:
            return name
    return None
