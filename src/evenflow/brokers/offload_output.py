"""Output offload: move output bandwidth without moving input load (section 4.2.3).

Phase-I takes subscriptions that the acceptor's covering set covers, which bring it no new traffic:
first those that also lower the giver's incoming rate (Type-I), then those that could (Type-II), then the rest (Type-III).
Phase-II takes others, one at a time; what a pick newly covers goes through Phase-I again.
"""

from __future__ import annotations

from collections.abc import Iterable

from evenflow.brokers.load import Load
from evenflow.brokers.offload import Candidate, Card, Decision, Desk, choose, fewest


def offload_output(desk: Desk) -> Decision:
    """Decide an output offload."""
    _phase_one(desk, [name for name in desk.candidates if name in desk.covered])
    while not _even(desk, desk.giver, desk.taker):
        cards = _cards(desk, (name for name in desk.candidates if name not in desk.covered))
        cards.sort(key=lambda card: (card.difference, -card.gamma, card.name))
        card = choose(cards, _difference(desk.giver, desk.taker), overloaded=desk.overloaded)
        if card is None:
            break
        uncovered = [name for name in desk.below(card.name) if name not in desk.covered]
        desk.take(card.name, card.subscribers, "output-II")
        _phase_one(desk, uncovered)
    return desk.decision()


def _phase_one(desk: Desk, names: list[str]) -> None:
    """Take covered subscriptions, type by type, until even or nothing helps."""
    while not _even(desk, desk.giver, desk.taker):
        cards = _cards(desk, (name for name in names if name in desk.candidates))
        for step, card_list in _types(cards).items():
            card_list.sort(key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.name))
            card = choose(card_list, _difference(desk.giver, desk.taker), overloaded=desk.overloaded)
            if card is not None:
                desk.take(card.name, card.subscribers, step)
                break
        else:
            return


def _types(cards: list[Card]) -> dict[str, list[Card]]:
    """Sort cards into the three types, which are tried in this order."""
    return {
        "output-I-I": [card for card in cards if card.reduced > 0],
        "output-I-II": [card for card in cards if not card.reduced and card.reducible > 0],
        "output-I-III": [card for card in cards if not card.reducible],
    }


def _difference(giver: Load, taker: Load) -> float:
    return giver.output_ratio - taker.output_ratio


def _even(desk: Desk, giver: Load, taker: Load) -> bool:
    difference = _difference(giver, taker)
    return difference < 0 or abs(difference) < desk.limits.balance


def _cards(desk: Desk, names: Iterable[str]) -> list[Card]:
    """Write the cards of subscriptions with traffic: the others cannot change an output ratio (section 5.3.1.4)."""
    with_traffic = (desk.candidates[name] for name in names if desk.candidates[name].bits)
    return [card for one in with_traffic if (card := _card(desk, one)).subscribers]


def _card(desk: Desk, candidate: Candidate) -> Card:
    """Count the subscribers to offload (Figure 4.8) and write the card."""
    traffic = desk.traffic(candidate)

    def loads(number: int) -> tuple[Load, Load]:
        return (
            desk.giver.after(desk.loss(candidate, number, traffic)),
            desk.taker.after(desk.gain(candidate, number, traffic)),
        )

    def even(number: int) -> bool | None:
        giver, taker = loads(number)
        return None if _swaps_input(desk, giver, taker) else _even(desk, giver, taker)

    number = fewest(desk.most(candidate, traffic), even)
    return desk.card(candidate, number, _difference(*loads(number)) if number else 0.0, traffic)


def _swaps_input(desk: Desk, giver: Load, taker: Load) -> bool:
    """Tell whether the acceptor's input ratio would exceed the giver's so far that it would offload back.

    The figure compares output ratios here; the text around it means input ratios.
    An overloaded giver may ignore this down to the lower threshold, where it accepts nothing back.
    """
    if taker.input_ratio - giver.input_ratio <= desk.limits.difference:
        return False
    return not (desk.overloaded and giver.output_ratio >= desk.limits.lower)
