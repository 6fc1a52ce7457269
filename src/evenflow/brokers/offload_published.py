"""The three published offload algorithms: input, match and output (Cheung 2006, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from evenflow.brokers.load import Load, delay_difference
from evenflow.brokers.offload import Algorithm, Candidate, Decision, OffloadState, ReportCard, choose, fewest


def decide(algorithm: Algorithm, state: OffloadState) -> Decision:
    """Run an offload algorithm; the state is used up."""
    return ALGORITHMS[algorithm](state)


# -- input: move subscriptions of the covering set until the input ratios are even (section 4.2.1) --


def offload_input(state: OffloadState) -> Decision:
    """Decide an input offload; an overloaded giver that finds nothing to move lowers its matching delay instead."""
    while state.candidates and not _input_even(state, _input_difference(state)):
        cards = [c for name in state.roots() if (c := _input_card(state, state.candidates[name])).subscribers]
        cards.sort(key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.name))
        card = choose(cards, _input_difference(state), overloaded=state.overloaded)
        if card is None:
            break
        state.take(card.name, card.subscribers, "input")
    if not state.picks and state.overloaded:
        return offload_match(state)
    return state.decision()


def _input_difference(state: OffloadState) -> float:
    return state.giver.input_ratio - state.taker.input_ratio


def _input_even(state: OffloadState, difference: float) -> bool:
    return difference < 0 or abs(difference) < state.limits.balance


def _input_card(state: OffloadState, candidate: Candidate) -> ReportCard:
    """Return the report card with the number of subscribers to offload (Figure 4.1)."""
    traffic = state.traffic(candidate)
    giver, taker = state.giver, state.taker

    def difference(number: int) -> float:
        reduced = traffic.reducible if number == candidate.subscribers else 0.0
        output = number * traffic.rate * state.sample.message_size
        left = giver.input_ratio_after(-number, -reduced, -output)
        return left - taker.input_ratio_after(number, traffic.added, output)

    number = fewest(state.most(candidate, traffic), lambda number: _input_even(state, difference(number)))
    return state.card(candidate, number, difference(number) if number else 0.0, traffic)


# -- match: move the subscriptions with the least traffic until the matching delays are even (section 4.2.2) --


def offload_match(state: OffloadState) -> Decision:
    """Decide a match offload; an overloaded giver goes on until CPU, memory and input are below the lower threshold."""
    known, order, position = -1, list[Candidate](), 0
    while state.candidates and not _match_even(state, state.giver, state.taker):
        if known != state.known:  # the order depends on what the acceptor receives, not on how many subscribers go
            known, position = state.known, 0
            order = sorted(state.candidates.values(), key=lambda one: (_extra_traffic(state, one), one.name))
        if position == len(order):
            break
        candidate = order[position]
        position += 1  # the acceptor only fills up: a candidate that does not fit now does not fit later
        number = _match_number(state, candidate)
        if number:
            state.take(candidate.name, number, "match")
    return state.decision()


def _extra_traffic(state: OffloadState, candidate: Candidate) -> float:
    """Return the *extra traffic*: the output rate, plus the rate that is new to the acceptor."""
    return state.sample.rate(candidate.bits) + state.sample.rate(candidate.bits & ~state.known)


def _match_even(state: OffloadState, giver: Load, taker: Load) -> bool:
    limits = state.limits
    if state.overloaded:  # the thesis's text says that Figure 4.6 can return 0, but the figure cannot
        return max(giver.cpu, giver.memory.ratio, giver.input_ratio) < limits.lower
    difference = delay_difference(giver.matching_delay, taker.matching_delay, limits.normalization)
    return difference < 0 or abs(difference) < limits.balance


def _match_number(state: OffloadState, candidate: Candidate) -> int:
    """Return how many subscribers to offload (Figures 4.5 and 4.6)."""
    traffic = state.traffic(candidate)

    def even(number: int) -> bool:
        giver = state.giver.after(state.loss(candidate, number, traffic))
        taker = state.taker.after(state.gain(candidate, number, traffic))
        return _match_even(state, giver, taker)

    return fewest(state.most(candidate, traffic), even)


# -- output: move output bandwidth without moving input load (section 4.2.3) --


def offload_output(state: OffloadState) -> Decision:
    """Decide an output offload.

    Phase I takes subscriptions that the acceptor's covering set covers: they bring the acceptor no new traffic.
    Phase II takes other subscriptions, one at a time; what each of them newly covers goes through Phase I.
    """
    _phase_one(state, [name for name in state.candidates if name in state.covered])
    while not _output_even(state, state.giver, state.taker):
        cards = _output_cards(state, (name for name in state.candidates if name not in state.covered))
        cards.sort(key=lambda card: (card.difference, -card.gamma, card.name))
        card = choose(cards, _output_difference(state.giver, state.taker), overloaded=state.overloaded)
        if card is None:
            break
        uncovered = [name for name in state.below(card.name) if name not in state.covered]
        state.take(card.name, card.subscribers, "output-II")
        _phase_one(state, uncovered)
    return state.decision()


def _phase_one(state: OffloadState, names: list[str]) -> None:
    """Take covered subscriptions, type by type, until the brokers are even or nothing helps."""
    while not _output_even(state, state.giver, state.taker):
        cards = _output_cards(state, (name for name in names if name in state.candidates))
        for step, of_type in _by_type(cards).items():
            of_type.sort(key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.name))
            card = choose(of_type, _output_difference(state.giver, state.taker), overloaded=state.overloaded)
            if card is not None:
                state.take(card.name, card.subscribers, step)
                break
        else:
            return


def _by_type(cards: list[ReportCard]) -> dict[str, list[ReportCard]]:
    """Split cards into three types, tried in this order: lowers the giver's incoming rate, could lower it, the rest."""
    return {
        "output-I-I": [card for card in cards if card.reduced > 0],
        "output-I-II": [card for card in cards if not card.reduced and card.reducible > 0],
        "output-I-III": [card for card in cards if not card.reducible],
    }


def _output_difference(giver: Load, taker: Load) -> float:
    return giver.output_ratio - taker.output_ratio


def _output_even(state: OffloadState, giver: Load, taker: Load) -> bool:
    difference = _output_difference(giver, taker)
    return difference < 0 or abs(difference) < state.limits.balance


def _output_cards(state: OffloadState, names: Iterable[str]) -> list[ReportCard]:
    """Return the cards of subscriptions with traffic: the others cannot change an output ratio (section 5.3.1.4)."""
    with_traffic = (state.candidates[name] for name in names if state.candidates[name].bits)
    return [card for candidate in with_traffic if (card := _output_card(state, candidate)).subscribers]


def _output_card(state: OffloadState, candidate: Candidate) -> ReportCard:
    """Return the report card with the number of subscribers to offload (Figure 4.8)."""
    traffic = state.traffic(candidate)

    def loads(number: int) -> tuple[Load, Load]:
        return (
            state.giver.after(state.loss(candidate, number, traffic)),
            state.taker.after(state.gain(candidate, number, traffic)),
        )

    def even(number: int) -> bool | None:
        giver, taker = loads(number)
        return None if _swaps_input(state, giver, taker) else _output_even(state, giver, taker)

    number = fewest(state.most(candidate, traffic), even)
    return state.card(candidate, number, _output_difference(*loads(number)) if number else 0.0, traffic)


def _swaps_input(state: OffloadState, giver: Load, taker: Load) -> bool:
    """Tell whether the acceptor's input ratio would exceed the giver's so far that it would offload back.

    The figure compares output ratios here; the text around it means input ratios.
    An overloaded giver may ignore this rule down to the lower threshold: above it, it accepts nothing back.
    """
    if taker.input_ratio - giver.input_ratio <= state.limits.difference:
        return False
    return not (state.overloaded and giver.output_ratio >= state.limits.lower)


ALGORITHMS: Mapping[Algorithm, Callable[[OffloadState], Decision]] = {
    "input": offload_input,
    "match": offload_match,
    "output": offload_output,
}
