"""The three published offload algorithms: input, match and output (Cheung 2006, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from evenflow.brokers.load import Load, delay_difference
from evenflow.brokers.offload import Algorithm, Candidate, Card, Decision, Desk, choose, fewest


def decide(algorithm: Algorithm, desk: Desk) -> Decision:
    """Run an offload algorithm; the state is used up."""
    return ALGORITHMS[algorithm](desk)


# -- input: move subscriptions of the covering set until the input ratios are even (section 4.2.1) --


def offload_input(desk: Desk) -> Decision:
    """Decide an input offload; an overloaded giver that finds nothing to move lowers its matching delay instead."""
    while desk.candidates and not _input_even(desk, _input_difference(desk)):
        cards = [card for name in desk.roots() if (card := _input_card(desk, desk.candidates[name])).subscribers]
        cards.sort(key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.name))
        card = choose(cards, _input_difference(desk), overloaded=desk.overloaded)
        if card is None:
            break
        desk.take(card.name, card.subscribers, "input")
    if not desk.picks and desk.overloaded:
        return offload_match(desk)
    return desk.decision()


def _input_difference(desk: Desk) -> float:
    return desk.giver.input_ratio - desk.taker.input_ratio


def _input_even(desk: Desk, difference: float) -> bool:
    return difference < 0 or abs(difference) < desk.limits.balance


def _input_card(desk: Desk, candidate: Candidate) -> Card:
    """Return the report card with the number of subscribers to offload (Figure 4.1)."""
    traffic = desk.traffic(candidate)
    giver, taker = desk.giver, desk.taker

    def difference(number: int) -> float:
        reduced = traffic.reducible if number == candidate.subscribers else 0.0
        output = number * traffic.rate * desk.sample.message_size
        left = giver.input_ratio_after(-number, -reduced, -output)
        return left - taker.input_ratio_after(number, traffic.added, output)

    number = fewest(desk.most(candidate, traffic), lambda number: _input_even(desk, difference(number)))
    return desk.card(candidate, number, difference(number) if number else 0.0, traffic)


# -- match: move the subscriptions with the least traffic until the matching delays are even (section 4.2.2) --


def offload_match(desk: Desk) -> Decision:
    """Decide a match offload; an overloaded giver goes on until CPU, memory and input are below the lower threshold."""
    known, order, position = -1, list[Candidate](), 0
    while desk.candidates and not _match_even(desk, desk.giver, desk.taker):
        if known != desk.known:  # the order depends on what the acceptor receives, not on how many subscribers go
            known, position = desk.known, 0
            order = sorted(desk.candidates.values(), key=lambda one: (_extra_traffic(desk, one), one.name))
        if position == len(order):
            break
        candidate = order[position]
        position += 1  # the acceptor only fills up: a candidate that does not fit now does not fit later
        number = _match_number(desk, candidate)
        if number:
            desk.take(candidate.name, number, "match")
    return desk.decision()


def _extra_traffic(desk: Desk, candidate: Candidate) -> float:
    """Return the *extra traffic*: the output rate, plus the rate that is new to the acceptor."""
    return desk.sample.rate(candidate.bits) + desk.sample.rate(candidate.bits & ~desk.known)


def _match_even(desk: Desk, giver: Load, taker: Load) -> bool:
    limits = desk.limits
    if desk.overloaded:  # the thesis's text says that Figure 4.6 can return 0, but the figure cannot
        return max(giver.cpu, giver.memory.ratio, giver.input_ratio) < limits.lower
    difference = delay_difference(giver.matching_delay, taker.matching_delay, limits.normalization)
    return difference < 0 or abs(difference) < limits.balance


def _match_number(desk: Desk, candidate: Candidate) -> int:
    """Return how many subscribers to offload (Figures 4.5 and 4.6)."""
    traffic = desk.traffic(candidate)

    def even(number: int) -> bool:
        giver = desk.giver.after(desk.loss(candidate, number, traffic))
        taker = desk.taker.after(desk.gain(candidate, number, traffic))
        return _match_even(desk, giver, taker)

    return fewest(desk.most(candidate, traffic), even)


# -- output: move output bandwidth without moving input load (section 4.2.3) --


def offload_output(desk: Desk) -> Decision:
    """Decide an output offload.

    Phase I takes subscriptions that the acceptor's covering set covers: they bring the acceptor no new traffic.
    Phase II takes other subscriptions, one at a time; what each of them newly covers goes through Phase I.
    """
    _phase_one(desk, [name for name in desk.candidates if name in desk.covered])
    while not _output_even(desk, desk.giver, desk.taker):
        cards = _output_cards(desk, (name for name in desk.candidates if name not in desk.covered))
        cards.sort(key=lambda card: (card.difference, -card.gamma, card.name))
        card = choose(cards, _output_difference(desk.giver, desk.taker), overloaded=desk.overloaded)
        if card is None:
            break
        uncovered = [name for name in desk.below(card.name) if name not in desk.covered]
        desk.take(card.name, card.subscribers, "output-II")
        _phase_one(desk, uncovered)
    return desk.decision()


def _phase_one(desk: Desk, names: list[str]) -> None:
    """Take covered subscriptions, type by type, until the brokers are even or nothing helps."""
    while not _output_even(desk, desk.giver, desk.taker):
        cards = _output_cards(desk, (name for name in names if name in desk.candidates))
        for step, of_type in _by_type(cards).items():
            of_type.sort(key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.name))
            card = choose(of_type, _output_difference(desk.giver, desk.taker), overloaded=desk.overloaded)
            if card is not None:
                desk.take(card.name, card.subscribers, step)
                break
        else:
            return


def _by_type(cards: list[Card]) -> dict[str, list[Card]]:
    """Split cards into three types, tried in this order: lowers the giver's incoming rate, could lower it, the rest."""
    return {
        "output-I-I": [card for card in cards if card.reduced > 0],
        "output-I-II": [card for card in cards if not card.reduced and card.reducible > 0],
        "output-I-III": [card for card in cards if not card.reducible],
    }


def _output_difference(giver: Load, taker: Load) -> float:
    return giver.output_ratio - taker.output_ratio


def _output_even(desk: Desk, giver: Load, taker: Load) -> bool:
    difference = _output_difference(giver, taker)
    return difference < 0 or abs(difference) < desk.limits.balance


def _output_cards(desk: Desk, names: Iterable[str]) -> list[Card]:
    """Return the cards of subscriptions with traffic: the others cannot change an output ratio (section 5.3.1.4)."""
    with_traffic = (desk.candidates[name] for name in names if desk.candidates[name].bits)
    return [card for candidate in with_traffic if (card := _output_card(desk, candidate)).subscribers]


def _output_card(desk: Desk, candidate: Candidate) -> Card:
    """Return the report card with the number of subscribers to offload (Figure 4.8)."""
    traffic = desk.traffic(candidate)

    def loads(number: int) -> tuple[Load, Load]:
        return (
            desk.giver.after(desk.loss(candidate, number, traffic)),
            desk.taker.after(desk.gain(candidate, number, traffic)),
        )

    def even(number: int) -> bool | None:
        giver, taker = loads(number)
        return None if _swaps_input(desk, giver, taker) else _output_even(desk, giver, taker)

    number = fewest(desk.most(candidate, traffic), even)
    return desk.card(candidate, number, _output_difference(*loads(number)) if number else 0.0, traffic)


def _swaps_input(desk: Desk, giver: Load, taker: Load) -> bool:
    """Tell whether the acceptor's input ratio would exceed the giver's so far that it would offload back.

    The figure compares output ratios here; the text around it means input ratios.
    An overloaded giver may ignore this rule down to the lower threshold: above it, it accepts nothing back.
    """
    if taker.input_ratio - giver.input_ratio <= desk.limits.difference:
        return False
    return not (desk.overloaded and giver.output_ratio >= desk.limits.lower)


ALGORITHMS: Mapping[Algorithm, Callable[[Desk], Decision]] = {
    "input": offload_input,
    "match": offload_match,
    "output": offload_output,
}
