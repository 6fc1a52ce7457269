"""Input offload: move subscriptions of the covering set until the input utilisation ratios meet (section 4.2.1)."""

from __future__ import annotations

from evenflow.brokers.offload import Candidate, Card, Decision, Desk, choose, fewest
from evenflow.brokers.offload_match import offload_match


def offload_input(desk: Desk) -> Decision:
    """Decide an input offload; an overloaded giver that finds nothing lowers its matching delay instead."""
    while desk.candidates and not _even(desk):
        cards = [one for name in desk.roots() if (one := _card(desk, desk.candidates[name])).subscribers]
        cards.sort(key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.name))
        card = choose(cards, _difference(desk), overloaded=desk.overloaded)
        if card is None:
            break
        desk.take(card.name, card.subscribers, "input")
    if not desk.picks and desk.overloaded:
        return offload_match(desk)
    return desk.decision()


def _difference(desk: Desk) -> float:
    return desk.giver.input_ratio - desk.taker.input_ratio


def _even(desk: Desk) -> bool:
    difference = _difference(desk)
    return difference < 0 or abs(difference) < desk.limits.balance


def _card(desk: Desk, candidate: Candidate) -> Card:
    """Count the subscribers to offload (Figure 4.1) and write the card."""
    traffic = desk.traffic(candidate)
    giver, taker = desk.giver, desk.taker

    def difference(number: int) -> float:
        reduced = traffic.reducible if number == candidate.subscribers else 0.0
        output = number * traffic.rate * desk.sample.message_size
        left = giver.input_ratio_after(-number, -reduced, -output)
        return left - taker.input_ratio_after(number, traffic.added, output)

    def even(number: int) -> bool:
        left = difference(number)
        return left < 0 or abs(left) < desk.limits.balance

    number = fewest(desk.most(candidate, traffic), even)
    return desk.card(candidate, number, difference(number) if number else 0.0, traffic)
