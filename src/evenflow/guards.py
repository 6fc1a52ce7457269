"""Guards refuse offers by name: a pure function ``refuse(offer, view) -> name | None``.

An offer is one or more moves that stand or fall together.
Guards never look inside an id: the planner hands them rows of its columns, a negotiating actor hands them names,
and each brings the view that understands them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

LEAST_GAIN = 1e-9
"""A peak must fall by this fraction, or rounding could pass for progress and two nodes trade one unit forever."""


class Step(Protocol):
    """What a guard reads of a move, whether it names its unit and nodes by row or by id."""

    @property
    def unit(self) -> Any:
        """The unit that goes."""

    @property
    def giver(self) -> Any:
        """The node that it leaves."""

    @property
    def taker(self) -> Any:
        """The node that it joins."""


class View(Protocol):
    """What a guard may ask; global for the planner, local for an actor that negotiates."""

    def owner_of(self, unit: Any) -> Any:
        """Return the node that owns the unit, or ``None`` when nobody known does."""

    def pinned(self, unit: Any) -> bool:
        """Return whether the unit must stay."""

    def may_run(self, unit: Any, node: Any) -> bool:
        """Return whether the unit is allowed on the node."""

    def moved(self, unit: Any) -> bool:
        """Return whether the unit moves in this plan or is still on its way from an earlier one."""

    def cooling(self, unit: Any) -> bool:
        """Return whether the unit moved so recently that it should rest."""

    def over_budget(self, offer: Sequence[Step]) -> bool:
        """Return whether the plan with this offer would move more load than it may."""

    def over_limit(self, offer: Sequence[Step]) -> bool:
        """Return whether a taker would pass its limit, every move under way counted on both of its sides."""

    def peaks(self, offer: Sequence[Step]) -> tuple[float, float]:
        """Return the highest load over capacity of the nodes the offer touches, before and after it."""


Guard = Callable[[Sequence[Step], View], str | None]


def one_owner(offer: Sequence[Step], view: View) -> str | None:
    """Refuse a move whose giver does not own the unit, or that leads nowhere."""
    for step in offer:
        if step.giver == step.taker or view.owner_of(step.unit) != step.giver:
            return "one owner"
    return None


def moves_once(offer: Sequence[Step], view: View) -> str | None:
    """Refuse a unit that moves already: in this offer, in this plan, or still under way."""
    if len(offer) > 1 and len({step.unit for step in offer}) < len(offer):
        return "moves once"
    for step in offer:
        if view.moved(step.unit):
            return "moves once"
    return None


def pinned(offer: Sequence[Step], view: View) -> str | None:
    """Refuse to move a pinned unit."""
    for step in offer:
        if view.pinned(step.unit):
            return "pinned"
    return None


def allowed(offer: Sequence[Step], view: View) -> str | None:
    """Refuse a taker that the unit may not run on."""
    for step in offer:
        if not view.may_run(step.unit, step.taker):
            return "allowed"
    return None


def cooldown(offer: Sequence[Step], view: View) -> str | None:
    """Refuse a unit that moved recently: it would pay for a second move before the first one paid off."""
    for step in offer:
        if view.cooling(step.unit):
            return "cooldown"
    return None


def churn_budget(offer: Sequence[Step], view: View) -> str | None:
    """Refuse what would move more load than one plan may."""
    return "churn budget" if view.over_budget(offer) else None


def limit(offer: Sequence[Step], view: View) -> str | None:
    """Refuse to push a taker over its limit, even for as long as a move takes."""
    return "limit" if view.over_limit(offer) else None


def lowers_peak(offer: Sequence[Step], view: View) -> str | None:
    """Refuse an offer that does not lower the highest load over capacity of the nodes it touches.

    Units on a node where they may not run must leave it whatever it costs, so an offer of such moves alone passes.
    """
    before, after = view.peaks(offer)
    if after < before * (1.0 - LEAST_GAIN) or all(not view.may_run(step.unit, step.giver) for step in offer):
        return None
    return "lowers the peak"


HARD: tuple[Guard, ...] = (one_owner, moves_once, pinned, allowed)
"""Guards that hold for every policy; the published policies run with these alone, so that they stay exact."""

ALL: tuple[Guard, ...] = (*HARD, cooldown, churn_budget, limit, lowers_peak)


def refuse(offer: Sequence[Step], view: View, guards: Sequence[Guard] = ALL) -> str | None:
    """Return the name of the first guard that refuses the offer, or ``None`` when all let it pass."""
    for guard in guards:
        name = guard(offer, view)
        if name is not None:
            return name
    return None
