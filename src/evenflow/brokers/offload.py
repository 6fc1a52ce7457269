"""Which subscribers to give to another broker: the state that the three offload algorithms share (Cheung 2006, section 4.2).

An algorithm picks one subscription after another, with the number of its subscribers that go.
After each pick the loads of both brokers are estimated anew, and the subscription leaves the poset;
if only some of its subscribers go, its traffic stays, so its bits still count at the giver.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evenflow.brokers.load import Load, LoadChange

Algorithm = Literal["input", "match", "output"]
Covers = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of Table 5.2 that the algorithms read.

    Parameters
    ----------
    balance
        Brokers whose ratios differ by less are balanced (*balance percentage*).
    lower
        No acceptor may rise above it, and an overloaded giver aims at it (*lower overload threshold*).
    difference
        How far the acceptor's input ratio may exceed the giver's in an output offload (*local ratio threshold*).
    normalization
        The N_f of Eq. 3.5, seconds.
    """

    balance: float = 0.005
    lower: float = 0.9
    difference: float = 0.1
    normalization: float = 0.1


class Candidate(NamedTuple):
    """A unique client subscription of the giver: its subscribers, and which sampled publications it matches."""

    name: str
    subscribers: int
    bits: int


class Traffic(NamedTuple):
    """The rates of one candidate, messages per second.

    Parameters
    ----------
    rate
        Of the publications that it matches.
    added
        Of those that the acceptor does not receive yet.
    reducible
        Of those that nothing else at the giver asks for.
    """

    rate: float
    added: float
    reducible: float


class PressSample(NamedTuple):
    """What PRESS saw: how many publications, their rate at the giver, the bits of one message."""

    samples: int
    input_rate: float
    message_size: float

    def rate(self, bits: int) -> float:
        """LoadEstimate the rate of the publications in a bit vector (Eq. 4.1)."""
        return self.input_rate * bits.bit_count() / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class ReportCard:
    """A report card (section 4.2.1): what one subscription's offload would bring."""

    name: str
    subscribers: int
    difference: float
    covered: bool
    reduced: float
    reducible: float
    rate: float
    added: float
    bandwidth: float

    @property
    def extra_traffic(self) -> float:
        """Output rate plus the rate that is new to the acceptor: the order of the match offload (section 4.2.2)."""
        return self.rate + self.added

    @property
    def gamma(self) -> float:
        """The order of equals in Phase-II (Eq. 4.19)."""
        worth = self.rate * self.bandwidth * self.subscribers
        return worth / self.added if self.added > 0 else float("inf")


class Pick(NamedTuple):
    """One decision: the subscription, how many of its subscribers go, and which step chose it."""

    name: str
    subscribers: int
    step: str


@dataclass(slots=True)
class Decision:
    """What an algorithm decided, and the loads it expects afterwards."""

    picks: list[Pick]
    giver: Load
    taker: Load


@dataclass(slots=True)
class OffloadState:
    """What an algorithm works on.

    Parameters
    ----------
    giver, taker
        The two brokers' loads; ``take`` replaces them by estimates.
    sample, limits, overloaded
        What PRESS saw, the settings, and whether the giver is above the higher threshold in the resource at hand.
    candidates
        The giver's client subscriptions that may go, by id.
    above
        For each candidate the other candidates that cover it; of two equal ones one covers the other.
    known
        The publications that the acceptor receives already (Eq. 4.3).
    covered
        The candidates that the acceptor's covering set covers.
    kept
        Bits of what stays at the giver whatever happens.
    """

    giver: Load
    taker: Load
    sample: PressSample
    limits: Limits
    overloaded: bool
    candidates: dict[str, Candidate]
    above: Mapping[str, frozenset[str]]
    known: int = 0
    covered: set[str] = field(default_factory=set)
    kept: int = 0
    picks: list[Pick] = field(default_factory=list)
    alone: int = 0
    _under: dict[str, list[str]] = field(default_factory=dict)
    _over: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.candidates = {name: c for name, c in self.candidates.items() if c.subscribers > 0}
        for name in self.candidates:
            over = [other for other in self.above[name] if other in self.candidates]
            self._over[name] = len(over)
            for other in over:
                self._under.setdefault(other, []).append(name)
        self.find_alone()

    # -- the poset ------------------------------------------------------------------------------

    def roots(self) -> list[str]:
        """Give the candidates that no remaining candidate covers: the giver's covering set."""
        return [name for name in self.candidates if not self._over[name]]

    def below(self, name: str) -> list[str]:
        """Give the remaining candidates that a subscription covers."""
        return [other for other in self._under.get(name, ()) if other in self.candidates]

    def find_alone(self) -> None:
        """Find the sampled publications that exactly one subscription of the giver matches."""
        once, twice = self.kept, self.kept
        for candidate in self.candidates.values():
            twice |= once & candidate.bits
            once |= candidate.bits
        self.alone = once & ~twice

    # -- report cards ---------------------------------------------------------------------------

    def traffic(self, candidate: Candidate) -> Traffic:
        """LoadEstimate a candidate's rates from the sample (Eq. 4.1 to 4.5)."""
        rate, bits = self.sample.rate, candidate.bits
        return Traffic(rate(bits), rate(bits & ~self.known), rate(bits & self.alone))

    def most(self, candidate: Candidate, traffic: Traffic | None = None) -> int:
        """Count the subscribers that the acceptor can take without rising above the lower threshold in any resource.

        The text bounds them by what makes the *offloading* broker fall below it; sections 2.3 and 5.2.1.2 show what is meant.
        """
        traffic = traffic or self.traffic(candidate)
        low, high = 0, candidate.subscribers
        while low < high:  # every estimate grows with the number, so the bound can be halved toward
            middle = (low + high + 1) // 2
            fits = not self.taker.exceeds_after(self.gain(candidate, middle, traffic), self.limits.lower)
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def gain(self, candidate: Candidate, number: int, traffic: Traffic | None = None) -> LoadChange:
        """Say what the acceptor gains with so many subscribers of a subscription."""
        traffic = traffic or self.traffic(candidate)
        return LoadChange(number, traffic.added, number * traffic.rate * self.sample.message_size)

    def loss(self, candidate: Candidate, number: int, traffic: Traffic | None = None) -> LoadChange:
        """Say what the giver loses; its incoming rate falls only if all subscribers go."""
        traffic = traffic or self.traffic(candidate)
        reduced = traffic.reducible if number == candidate.subscribers else 0.0
        return LoadChange(-number, -reduced, -number * traffic.rate * self.sample.message_size)

    def card(self, candidate: Candidate, number: int, difference: float, traffic: Traffic | None = None) -> ReportCard:
        """Write the report card."""
        rate, added, reducible = traffic or self.traffic(candidate)
        return ReportCard(
            candidate.name,
            number,
            difference,
            candidate.name in self.covered,
            reducible if number == candidate.subscribers else 0.0,
            reducible,
            rate,
            added,
            rate * self.sample.message_size,
        )

    # -- picking --------------------------------------------------------------------------------

    def take(self, name: str, number: int, step: str) -> None:
        """Give a subscription's subscribers away, on paper: estimate both loads, widen what the acceptor receives."""
        candidate = self.candidates[name]
        gain, loss = self.gain(candidate, number), self.loss(candidate, number)
        self.giver, self.taker = self.giver.after(loss), self.taker.after(gain)
        self.known |= candidate.bits  # Eq. 4.6
        del self.candidates[name]
        if number < candidate.subscribers:
            self.kept |= candidate.bits
        for other in self.below(name):
            self.covered.add(other)
            self._over[other] -= 1
        self.picks.append(Pick(name, number, step))
        self.find_alone()

    def decision(self) -> Decision:
        """Give what was decided so far."""
        return Decision(self.picks, self.giver, self.taker)


def relations(names: Iterable[str], covers: Covers) -> dict[str, frozenset[str]]:
    """Find for each subscription the others that cover it, by comparing all pairs; of equal ones the lowest id covers.

    Examples
    --------
    >>> above = relations(["a", "ab", "b"], lambda x, y: y.startswith(x))
    >>> sorted(above["ab"]), sorted(above["a"])
    (['a'], [])
    """
    ordered = sorted(names)
    return {
        name: frozenset(o for o in ordered if o != name and covers(o, name) and (o < name or not covers(name, o)))
        for name in ordered
    }


def fewest(most: int, even: Callable[[int], bool | None]) -> int:
    """Find how many subscribers to offload: the loop of Figures 4.1, 4.5, 4.6 and 4.8.

    Counting down from ``most``, the last number that still evens the brokers out, or the first if none does.

    Parameters
    ----------
    most
        The largest number the acceptor can take.
    even
        Whether a number evens the two brokers out; None forbids the number.
        The printed loop can return a number that it skipped as forbidden; this one never does.

    Examples
    --------
    >>> fewest(5, lambda n: n >= 3), fewest(5, lambda n: False), fewest(5, lambda n: None)
    (3, 5, 0)
    """
    found = 0
    for number in range(most, 0, -1):
        verdict = even(number)
        if verdict is None:
            continue
        if not verdict:
            return found or number
        found = number
    return found


def choose(cards: list[ReportCard], before: float, *, overloaded: bool) -> ReportCard | None:
    """Choose a card by its load difference (Figures 4.2 and 4.3).

    Parameters
    ----------
    cards
        Sorted: ascending difference, then as the algorithm says.
    before
        The difference now; a card that would leave a larger one is not taken.
    overloaded
        An overloaded giver takes the card that just puts it below the acceptor, worse or not.
    """
    if overloaded:
        for here, following in itertools.pairwise(cards):
            if not (here.difference < 0 and following.difference < 0):
                return here
        return cards[-1] if cards else None
    best = min(cards, key=lambda card: abs(card.difference), default=None)
    return None if best is None or abs(best.difference) > abs(before) else best
