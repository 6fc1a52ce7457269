"""One broker's routing tables for advertisements, subscriptions and publications (Cheung 2006, 2.1.2 and 2.1.3).

Advertisements are flooded, subscriptions are sent toward matching advertisements, publications toward subscriptions.
A covered subscription or advertisement is not forwarded. When a covering one is withdrawn, the ones that it covered
are forwarded *before* the withdrawal, so that delivery is not interrupted.
Subscriptions of equal meaning share one number (see `Catalogue`) and are forwarded once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from evenflow.brokers.catalogue import Catalogue

Verb = Literal["advertise", "unadvertise", "subscribe", "unsubscribe"]


class Forward(NamedTuple):
    """A message to a neighbour; ``what`` is a subscription's number, or an advertisement's id and number."""

    to: str
    verb: Verb
    what: int | tuple[str, int]


class Routing:
    """The tables of one broker.

    Parameters
    ----------
    catalogue
        The subscription numbers, shared by all brokers of a process.
    neighbours
        Brokers linked to this one; every other hop is a client or the broker itself.
    """

    def __init__(self, catalogue: Catalogue, neighbours: Iterable[str] = ()) -> None:
        self.catalogue = catalogue
        self.neighbours = list(neighbours)
        self.tables: dict[str, dict[int, int]] = {name: {} for name in self.neighbours}
        self._adverts: dict[str, tuple[int, str]] = {}
        self._advert_sent: dict[str, set[str]] = {name: set() for name in self.neighbours}
        self._sent: dict[str, set[int]] = {name: set() for name in self.neighbours}
        self._attracted: dict[tuple[str, int], bool] = {}  # cache, cleared when an advertisement changes

    def link(self, neighbour: str) -> list[Forward]:
        """Connect to another broker and forward advertisements to it."""
        self.neighbours.append(neighbour)
        self.tables.setdefault(neighbour, {})
        self._advert_sent[neighbour], self._sent[neighbour] = set(), set()
        return [f for name, (key, _) in list(self._adverts.items()) for f in self._flood(name, key, neighbour)]

    def unlink(self, neighbour: str) -> list[Forward]:
        """Remove a neighbour and withdraw everything that it sent; its table object stays, empty."""
        forwards: list[Forward] = []
        for key in sorted(self.tables[neighbour]):
            forwards += self.unsubscribe(key, neighbour)
        for name in [name for name, (_, hop) in self._adverts.items() if hop == neighbour]:
            forwards += self.unadvertise(name)
        self.neighbours.remove(neighbour)
        del self._advert_sent[neighbour], self._sent[neighbour]
        return [forward for forward in forwards if forward.to != neighbour]

    def size(self) -> int:
        """Count the subscriptions in the matching engine that came from neighbours."""
        return sum(len(self.tables[name]) for name in self.neighbours)

    def hops(self, keys: Iterable[int], source: str) -> list[str]:
        """Return the next hops of a publication that matches these subscriptions, without its source."""
        return [hop for hop, table in self.tables.items() if hop != source and not table.keys().isdisjoint(keys)]

    # -- advertisements -------------------------------------------------------------------------

    def advertise(self, name: str, key: int, hop: str) -> list[Forward]:
        """Add an advertisement and flood it; subscriptions that intersect it are sent toward its source."""
        if name in self._adverts:
            return []
        self._adverts[name] = (key, hop)
        self._attracted.clear()
        forwards = [f for neighbour in self.neighbours if neighbour != hop for f in self._flood(name, key, neighbour)]
        if hop in self._sent:
            forwards += self._expose(hop, [k for k in self._wanted(hop) if self.catalogue.meets(k, key)])
        return forwards

    def unadvertise(self, name: str) -> list[Forward]:
        """Withdraw an advertisement; those that it covered are flooded first, and subscriptions that only it attracted are withdrawn."""
        key, hop = self._adverts.pop(name, (-1, ""))
        if key < 0:
            return []
        self._attracted.clear()
        forwards: list[Forward] = []
        for neighbour in self.neighbours:
            if name in self._advert_sent[neighbour]:
                self._advert_sent[neighbour].remove(name)
                for other, (inner, _) in list(self._adverts.items()):
                    forwards += self._flood(other, inner, neighbour)
                forwards.append(Forward(neighbour, "unadvertise", (name, key)))
        if hop in self._sent:
            for sent in sorted(self._sent[hop]):
                if not self._attracts(hop, sent):
                    self._sent[hop].remove(sent)
                    forwards.append(Forward(hop, "unsubscribe", sent))
        return forwards

    def _flood(self, name: str, key: int, neighbour: str) -> list[Forward]:
        sent = self._advert_sent[neighbour]
        if name in sent or self._adverts[name][1] == neighbour:
            return []
        if self.catalogue.covers_any({self._adverts[other][0] for other in sent}, key):
            return []
        sent.add(name)
        return [Forward(neighbour, "advertise", (name, key))]

    def _attracts(self, neighbour: str, key: int) -> bool:
        place = (neighbour, key)
        known = self._attracted.get(place)
        if known is None:
            meets = self.catalogue.meets
            known = any(hop == neighbour and meets(key, advert) for advert, hop in self._adverts.values())
            self._attracted[place] = known
        return known

    # -- subscriptions --------------------------------------------------------------------------

    def subscribe(self, key: int, hop: str) -> list[Forward]:
        """Add a subscription; those of clients are counted per subscriber."""
        table = self.tables.setdefault(hop, {})
        if hop in self._sent and key in table:
            return []  # neighbours send each number once
        table[key] = table.get(key, 0) + 1
        if table[key] > 1:
            return []
        return [f for neighbour in self.neighbours if neighbour != hop for f in self._expose(neighbour, [key])]

    def unsubscribe(self, key: int, hop: str) -> list[Forward]:
        """Remove a subscription."""
        table = self.tables.get(hop, {})
        if key not in table:
            return []
        table[key] -= 1
        if table[key]:
            return []
        del table[key]
        return [f for neighbour in self.neighbours if neighbour != hop for f in self._withdraw(neighbour, key)]

    def _wanted(self, neighbour: str) -> list[int]:
        """Return the subscriptions of all hops except this neighbour."""
        return sorted({key for hop, table in self.tables.items() if hop != neighbour for key in table})

    def _expose(self, neighbour: str, keys: Iterable[int]) -> list[Forward]:
        """Forward subscriptions that intersect a neighbour's advertisement, widest first, without the covered ones."""
        sent, forwards = self._sent[neighbour], []
        for key in sorted(keys, key=lambda one: (len(self.catalogue.above(one)), one)):
            if self._attracts(neighbour, key) and not self.catalogue.covers_any(sent, key):
                sent.add(key)
                forwards.append(Forward(neighbour, "subscribe", key))
        return forwards

    def _withdraw(self, neighbour: str, key: int) -> list[Forward]:
        sent = self._sent[neighbour]
        if key not in sent or any(key in t for hop, t in self.tables.items() if hop != neighbour):
            return []
        sent.remove(key)
        below = [k for k in self._wanted(neighbour) if k not in sent and key in self.catalogue.above(k)]
        return [*self._expose(neighbour, below), Forward(neighbour, "unsubscribe", key)]
