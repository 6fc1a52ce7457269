"""Match offload: move the subscriptions with the least traffic until the matching delays meet (section 4.2.2)."""

from __future__ import annotations

from evenflow.brokers.load import Load, delay_difference
from evenflow.brokers.offload import Candidate, Decision, Desk, fewest


def offload_match(desk: Desk) -> Decision:
    """Decide a match offload; an overloaded giver goes on until CPU, memory and input are below the lower threshold."""
    known, order, at = -1, list[Candidate](), 0
    while desk.candidates and not _even(desk, desk.giver, desk.taker):
        if known != desk.known:  # the order depends on what the acceptor receives, not on how many go
            known, at = desk.known, 0
            order = sorted(desk.candidates.values(), key=lambda one: (_extra(desk, one), one.name))
        if at == len(order):
            break
        candidate = order[at]
        at += 1  # who does not fit now does not fit later, as the acceptor only fills
        number = _number(desk, candidate)
        if number:
            desk.take(candidate.name, number, "match")
    return desk.decision()


def _extra(desk: Desk, candidate: Candidate) -> float:
    """Give the *extra traffic*: the output rate, plus the rate that is new to the acceptor."""
    return desk.sample.rate(candidate.bits) + desk.sample.rate(candidate.bits & ~desk.known)


def _even(desk: Desk, giver: Load, taker: Load) -> bool:
    limits = desk.limits
    if desk.overloaded:  # Figure 4.6 never returns 0, though the text says that it does
        return max(giver.cpu, giver.memory.ratio, giver.input_ratio) < limits.lower
    difference = delay_difference(giver.matching_delay, taker.matching_delay, limits.normalization)
    return difference < 0 or abs(difference) < limits.balance


def _number(desk: Desk, candidate: Candidate) -> int:
    """Count the subscribers to offload (Figures 4.5 and 4.6)."""
    traffic = desk.traffic(candidate)

    def even(number: int) -> bool:
        giver = desk.giver.after(desk.loss(candidate, number, traffic))
        taker = desk.taker.after(desk.gain(candidate, number, traffic))
        return _even(desk, giver, taker)

    return fewest(desk.most(candidate, traffic), even)
