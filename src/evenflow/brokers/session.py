"""Both sides of a session: what the giver decides and records, and what the taker has received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.actor import Note
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.load import Load, LoadChange
from evenflow.brokers.offload import Algorithm, Candidate, Decision, OffloadState, PressSample
from evenflow.brokers.offload_even import offload_even
from evenflow.brokers.offload_published import decide
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.subscriber_table import SubscriberTable
from evenflow.subscriptions.press import Sampled

if TYPE_CHECKING:
    from evenflow.brokers.edge import EdgeBroker

REMEMBERED = 50  # a broker remembers the outcome of this many sessions


@dataclass(slots=True)
class Giving:
    """The giver's state of a session; ``load`` and ``css`` (covering subscription set) are the taker's."""

    session: str
    taker: str
    algorithm: Algorithm
    overloaded: bool
    began: float
    agreed: bool = False
    load: Load | None = None
    css: frozenset[int] = frozenset()
    before: Load | None = None
    decision: Decision | None = None
    moving: tuple[str, ...] = ()
    arrived: int = 0
    asked: int = 0

    def expected_loss(self) -> LoadChange:
        """Return the change of the giver's load once all moved subscribers have left."""
        if self.before is None or self.decision is None:
            return LoadChange(0, 0.0, 0.0)
        loss = self.decision.giver
        return LoadChange(
            loss.n_subs - self.before.n_subs,
            loss.input_rate - self.before.input_rate,
            loss.output_used - self.before.output_used,
        )

    def decision_note(self, broker: EdgeBroker, sampled: Sampled, now: float) -> Note:
        """Return the record of the decision: the sample, the loads before, and the estimated loads after."""
        assert self.decision is not None
        assert self.before is not None
        assert self.load is not None
        return Note(
            {
                "kind": "offload",
                "at": now,
                "session": self.session,
                "giver": broker.name,
                "taker": self.taker,
                "algorithm": self.algorithm,
                "overloaded": self.overloaded,
                "samples": len(sampled.publications),
                "sample_s": sampled.seconds,
                "picks": [[pick.name, pick.subscribers, pick.step] for pick in self.decision.picks],
                "giver_before": _short(self.before),
                "taker_before": _short(self.load),
                "giver_after": _short(self.decision.giver),
                "taker_after": _short(self.decision.taker),
            }
        )

    def end_note(self, giver: str, now: float, how: str) -> Note:
        """Return the record of the whole session."""
        return Note(
            {
                "kind": "broker_session",
                "at": now,
                "session": self.session,
                "giver": giver,
                "taker": self.taker,
                "algorithm": self.algorithm,
                "overloaded": self.overloaded,
                "began": self.began,
                "moved": self.arrived,
                "how": how,
            }
        )


@dataclass(slots=True)
class Taking:
    """The taker's state of a session."""

    session: str
    giver: str
    total: int | None = None
    arrived: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether all announced subscribers have arrived."""
        return self.total is not None and len(self.arrived) >= self.total


class Outcomes(dict[str, frozenset[str]]):
    """The subscribers that arrived, by session; the oldest sessions are forgotten.

    Examples
    --------
    >>> outcomes = Outcomes()
    >>> for number in range(REMEMBERED + 1):
    ...     outcomes.remember(str(number), frozenset({"S1"}))
    >>> len(outcomes), "0" in outcomes
    (50, False)
    """

    def remember(self, session: str, arrived: frozenset[str]) -> None:
        """Store how a session ended."""
        self[session] = arrived
        while len(self) > REMEMBERED:
            del self[next(iter(self))]


def _short(load: Load) -> dict[str, Any]:
    return {
        "input": load.input_ratio,
        "output": load.output_ratio,
        "delay": load.matching_delay,
        "rate": load.input_rate,
        "cpu": load.cpu,
        "n_subs": load.n_subs,
    }


def choose_subscribers(
    giving: Giving,
    load: Load,
    subscribers: SubscriberTable,
    catalogue: Catalogue,
    settings: BrokerSettings,
    sampled: Sampled,
    message_size: float,
) -> list[str]:
    """Run the offload algorithm on a sample and return the subscribers to move.

    Parameters
    ----------
    sampled
        The sampled publications; each is the collection of subscription numbers that it matches.
    """
    assert giving.load is not None
    movable = subscribers.movable()
    bits = bit_vectors(sampled.publications, {*movable, *giving.css, *subscribers.leaving_keys()})
    candidates = {str(key): Candidate(str(key), len(names), bits.get(key, 0)) for key, names in movable.items()}
    # Only subscriptions of this broker matter; ids are the numbers as text.
    above = {str(k): frozenset(str(w) for w in catalogue.above(k) if w in movable) for k in movable}
    giving.before = load
    state = OffloadState(
        load,
        giving.load,
        PressSample(len(sampled.publications), load.input_rate, message_size),
        settings.limits(),
        giving.overloaded,
        candidates,
        above,
        _union(bits, giving.css),
        {str(key) for key in movable if catalogue.covers_any(giving.css, key)},
        _union(bits, subscribers.leaving_keys()) if settings.count_leavers else 0,
    )
    giving.decision = offload_even(state) if settings.joint else decide(giving.algorithm, state)
    return [name for pick in giving.decision.picks for name in movable[int(pick.name)][: pick.subscribers]]


def bit_vectors(publications: Sequence[Iterable[int]], wanted: set[int]) -> dict[int, int]:
    """Return one bit vector per subscription; the first sampled publication is the lowest bit."""
    bits: dict[int, int] = {}
    for place, keys in enumerate(publications):
        for key in keys:
            if key in wanted:
                bits[key] = bits.get(key, 0) | 1 << place
    return bits


def _union(bits: dict[int, int], keys: Iterable[int]) -> int:
    union = 0
    for key in keys:
        union |= bits.get(key, 0)
    return union
