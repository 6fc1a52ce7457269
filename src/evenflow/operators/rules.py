"""The decisions of a unit in a negotiation, as pure functions: Listings 3, 4, 5, 8 and 9."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from evenflow.operators.messages import HIGH, NORMAL, UNSET, OfferReply
from evenflow.operators.settings import Rules, UnitSettings
from evenflow.operators.transfers import Transfer

EPSILON = 1e-9  # tolerance for sums of measured sizes: a rounding error must not refuse an exact fit


def offered(transfers: Iterable[Transfer], memory: float, settings: UnitSettings) -> list[Transfer]:
    """Return the transfers to offer: each that does not take the unit below the target (Listing 3, lines 4 to 13)."""
    most = memory - settings.target + EPSILON
    return [t for t in transfers if t.size <= most]


def room(memory: float, settings: UnitSettings) -> float:
    """Return the room for an offer: up to just below the upper threshold, or up to the target (section 3.3)."""
    return settings.upper - memory - 1 if settings.accept == "upper" else settings.target - memory


def accepted(
    offer: Sequence[Transfer], memory: float, space: float, settings: UnitSettings
) -> tuple[int, list[Transfer]]:
    """Choose the transfers to take from an offer, in its order, and return them with the urgency (Listing 4)."""
    if memory > settings.upper:
        return UNSET, []
    chosen: list[Transfer] = []
    size = 0.0
    for transfer in offer:
        if size > space:
            break
        if size + transfer.size > space + EPSILON:
            continue
        if settings.rules.drop_overlaps and any(transfer.overlaps(c) for c in chosen):
            continue
        chosen.append(transfer)
        size += transfer.size
    return (HIGH if memory <= settings.lower else NORMAL), chosen


def granted(
    replies: Sequence[tuple[str, OfferReply]], excess: float, available: Callable[[Transfer], bool], rules: Rules
) -> dict[str, list[Transfer]]:
    """Decide which neighbour gets which transfers, urgent ones first, until the excess is gone (Listing 5)."""
    grants: dict[str, list[Transfer]] = {sender: [] for sender, _ in replies}
    agreed = 0.0
    given: list[Transfer] = []
    for sender, reply in sorted(replies, key=lambda r: -r[1].urgent):
        if agreed >= excess:
            break
        for transfer in reply.transfers:
            if transfer.size > excess - agreed + EPSILON or not available(transfer):
                continue
            if rules.one_grant_per_operator and any(transfer.overlaps(g) for g in given):
                continue
            agreed += transfer.size
            given.append(transfer)
            grants[sender].append(transfer)
    return grants


def given_to(
    transfers: Iterable[Transfer], memory: float, size: float, settings: UnitSettings
) -> tuple[int, list[Transfer]]:
    """Choose transfers for a neighbour that demands ``size`` (Listing 8); ``transfers`` are those that go to it."""
    rules = settings.rules
    if memory < settings.target or (memory == settings.target and not rules.give_at_target):
        return UNSET, []
    target = memory - settings.target if memory - size < settings.target else size
    chosen: list[Transfer] = []
    total = 0.0
    for transfer in transfers:
        if transfer.size > target - (total if rules.give_in_sum else 0.0) + EPSILON:
            continue
        if rules.give_in_sum and any(transfer.overlaps(c) for c in chosen):
            continue
        chosen.append(transfer)
        total += transfer.size
    return (NORMAL if memory < settings.upper else HIGH), chosen


def taken(transfers: Sequence[Transfer], space: float, rules: Rules) -> list[Transfer]:
    """Choose the transfers to take from a reply to a demand (Listing 9, lines 11 to 20)."""
    chosen: list[Transfer] = []
    total = 0.0
    for transfer in transfers:
        if transfer.size > space - total + EPSILON:
            continue
        if rules.drop_overlaps and any(transfer.overlaps(c) for c in chosen):
            continue
        chosen.append(transfer)
        total += transfer.size
    return chosen
