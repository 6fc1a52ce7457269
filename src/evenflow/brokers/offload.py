"""The state that the offload algorithms share while they choose which subscribers to move (Cheung 2006, section 4.2).

An algorithm picks one subscription at a time, and how many of its subscribers move from the giver to the taker
(the *acceptor* of the thesis). After each pick, the loads of both brokers are estimated again.
If only some of a subscription's subscribers move, the giver still receives its publications.
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
    """The settings of Table 5.2 that the offload algorithms use.

    Parameters
    ----------
    balance
        Two brokers are balanced if their ratios differ by less than this (*balance percentage*).
    lower
        No acceptor may rise above it, and an overloaded giver tries to get below it (*lower overload threshold*).
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
    """A distinct subscription of the giver: how many subscribers it has, and a bit for each sampled publication that it matches."""

    name: str
    subscribers: int
    bits: int


class Traffic(NamedTuple):
    """The message rates of one candidate, per second.

    Parameters
    ----------
    rate
        Publications that it matches.
    added
        Those of them that the acceptor does not receive yet.
    reducible
        Those of them that no other subscription of the giver matches.
    """

    rate: float
    added: float
    reducible: float


class PressSample(NamedTuple):
    """A sample of the giver's traffic: number of publications, rate per second, bits per message."""

    samples: int
    input_rate: float
    message_size: float

    def rate(self, bits: int) -> float:
        """LoadEstimate the rate of the publications in a bit vector (Eq. 4.1)."""
        return self.input_rate * bits.bit_count() / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class ReportCard:
    """A report card (section 4.2.1): the effect of offloading one subscription."""

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
    def gamma(self) -> float:
        """The tie-breaker of Phase II (Eq. 4.19)."""
        worth = self.rate * self.bandwidth * self.subscribers
        return worth / self.added if self.added > 0 else float("inf")


class Pick(NamedTuple):
    """One decision: the subscription, how many of its subscribers go, and which step chose it."""

    name: str
    subscribers: int
    step: str


@dataclass(slots=True)
class Decision:
    """The picks of an algorithm, and the loads that it estimates for afterwards."""

    picks: list[Pick]
    giver: Load
    taker: Load


@dataclass(slots=True)
class OffloadState:
    """The brokers, the sample and the candidates that an algorithm works on; ``take`` changes it.

    Parameters
    ----------
    giver, taker
        The two brokers' loads; ``take`` replaces them by estimates.
    sample, limits, overloaded
        The traffic sample, the settings, and whether the giver is overloaded.
    candidates
        The giver's subscriptions that may move, by id.
    above
        For each candidate the other candidates that cover it.
    known
        Bits of the sampled publications that the acceptor receives already (Eq. 4.3).
    covered
        The candidates that the acceptor's covering set covers.
    kept
        Bits of the sampled publications that the giver receives in any case.
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
        """Return the candidates that no remaining candidate covers: the giver's covering set."""
        return [name for name in self.candidates if not self._over[name]]

    def below(self, name: str) -> list[str]:
        """Return the remaining candidates that a subscription covers."""
        return [other for other in self._under.get(name, ()) if other in self.candidates]

    def find_alone(self) -> None:
        """Update ``alone``: bits of the sampled publications that exactly one subscription of the giver matches."""
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
        """Return how many subscribers the acceptor can take without exceeding the lower threshold in any resource.

        The thesis's text speaks of the *offloading* broker here; sections 2.3 and 5.2.1.2 show that it means the acceptor.
        """
        traffic = traffic or self.traffic(candidate)
        low, high = 0, candidate.subscribers
        while low < high:  # bisection: every estimate grows with the number
            middle = (low + high + 1) // 2
            fits = not self.taker.exceeds_after(self.gain(candidate, middle, traffic), self.limits.lower)
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def gain(self, candidate: Candidate, number: int, traffic: Traffic | None = None) -> LoadChange:
        """Return the acceptor's change of load when ``number`` subscribers of a subscription arrive."""
        traffic = traffic or self.traffic(candidate)
        return LoadChange(number, traffic.added, number * traffic.rate * self.sample.message_size)

    def loss(self, candidate: Candidate, number: int, traffic: Traffic | None = None) -> LoadChange:
        """Return the giver's change of load; its incoming rate falls only if all subscribers leave."""
        traffic = traffic or self.traffic(candidate)
        reduced = traffic.reducible if number == candidate.subscribers else 0.0
        return LoadChange(-number, -reduced, -number * traffic.rate * self.sample.message_size)

    def card(self, candidate: Candidate, number: int, difference: float, traffic: Traffic | None = None) -> ReportCard:
        """Return the report card of a candidate."""
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
        """Pick ``number`` subscribers of a subscription: update both estimated loads and what the acceptor receives."""
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
        """Return the picks so far."""
        return Decision(self.picks, self.giver, self.taker)


def relations(names: Iterable[str], covers: Covers) -> dict[str, frozenset[str]]:
    """Return for each subscription the others that cover it; of equal ones, the lowest id covers the others.

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
    """Return how many subscribers to offload: the loop of Figures 4.1, 4.5, 4.6 and 4.8.

    Count down from ``most`` and return the last number that still balances the brokers, or the first if none does.

    Parameters
    ----------
    most
        The largest number the acceptor can take.
    even
        Whether a number balances the two brokers; None forbids the number.
        The printed loop can return a forbidden number; this one does not.

    Examples
    --------
    >>> fewest(5, lambda n: n >= 3), fewest(5, lambda n: False), fewest(5, lambda n: None)
    (3, 5, 0)
    """
    smallest = 0
    for number in range(most, 0, -1):
        verdict = even(number)
        if verdict is None:
            continue
        if not verdict:
            return smallest or number
        smallest = number
    return smallest


def choose(cards: list[ReportCard], before: float, *, overloaded: bool) -> ReportCard | None:
    """Choose a card by its load difference (Figures 4.2 and 4.3).

    Parameters
    ----------
    cards
        In ascending order of the difference; ties in the algorithm's order.
    before
        The present difference; a card that leaves a larger one is not taken.
    overloaded
        An overloaded giver takes the card that just puts it below the acceptor, even if the difference grows.
    """
    if overloaded:
        for here, following in itertools.pairwise(cards):
            if not (here.difference < 0 and following.difference < 0):
                return here
        return cards[-1] if cards else None
    best = min(cards, key=lambda card: abs(card.difference), default=None)
    return None if best is None or abs(best.difference) > abs(before) else best
