"""One broker's routing tables: advertisements are flooded, subscriptions follow them back, publications follow subscriptions.

Cheung 2006, sections 2.1.2 and 2.1.3. A covered subscription or advertisement is not forwarded;
when a covering one is withdrawn, what it covered is forwarded *before* the withdrawal, so that nothing is interrupted.
Subscriptions of equal meaning share one number (see `Catalogue`) and travel as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from evenflow.brokers.catalogue import Catalogue

Verb = Literal["advertise", "unadvertise", "subscribe", "unsubscribe"]


class Forward(NamedTuple):
    """Tell a neighbour: ``what`` is a subscription's number, or an advertisement's id and number."""

    to: str
    verb: Verb
    what: int | tuple[str, int]


class Routing:
    """The tables of one broker.

    Parameters
    ----------
    catalogue
        Shared by all brokers of a process: it only says how subscriptions relate.
    neighbours
        Brokers that this one has a link to; every other hop is a client or the broker itself.
    """

    def __init__(self, catalogue: Catalogue, neighbours: Iterable[str] = ()) -> None:
        self.catalogue = catalogue
        self.neighbours = list(neighbours)
        self.tables: dict[str, dict[int, int]] = {name: {} for name in self.neighbours}
        self._adverts: dict[str, tuple[int, str]] = {}
        self._advert_sent: dict[str, set[str]] = {name: set() for name in self.neighbours}
        self._sent: dict[str, set[int]] = {name: set() for name in self.neighbours}
        self._attracted: dict[tuple[str, int], bool] = {}  # known until an advertisement comes or goes

    def link(self, neighbour: str) -> list[Forward]:
        """Connect to another broker and tell it what it must know."""
        self.neighbours.append(neighbour)
        self.tables.setdefault(neighbour, {})
        self._advert_sent[neighbour], self._sent[neighbour] = set(), set()
        return [f for name, (key, _) in list(self._adverts.items()) for f in self._flood(name, key, neighbour)]

    def unlink(self, neighbour: str) -> list[Forward]:
        """Lose a neighbour: all that it said is withdrawn; its table object stays, empty."""
        found: list[Forward] = []
        for key in sorted(self.tables[neighbour]):
            found += self.unsubscribe(key, neighbour)
        for name in [name for name, (_, hop) in self._adverts.items() if hop == neighbour]:
            found += self.unadvertise(name)
        self.neighbours.remove(neighbour)
        del self._advert_sent[neighbour], self._sent[neighbour]
        return [forward for forward in found if forward.to != neighbour]

    def size(self) -> int:
        """Count the subscriptions in the matching engine that came from neighbours."""
        return sum(len(self.tables[name]) for name in self.neighbours)

    def hops(self, keys: Iterable[int], source: str) -> list[str]:
        """Say where a publication goes that matches these subscriptions; never back."""
        return [hop for hop, table in self.tables.items() if hop != source and not table.keys().isdisjoint(keys)]

    # -- advertisements -------------------------------------------------------------------------

    def advertise(self, name: str, key: int, hop: str) -> list[Forward]:
        """Take in an advertisement and flood it; subscriptions that meet it go to where it came from."""
        if name in self._adverts:
            return []
        self._adverts[name] = (key, hop)
        self._attracted.clear()
        found = [f for neighbour in self.neighbours if neighbour != hop for f in self._flood(name, key, neighbour)]
        if hop in self._sent:
            found += self._expose(hop, [k for k in self._wanted(hop) if self.catalogue.meets(k, key)])
        return found

    def unadvertise(self, name: str) -> list[Forward]:
        """Withdraw an advertisement; what it covered is flooded first, what only it attracted is withdrawn."""
        key, hop = self._adverts.pop(name, (-1, ""))
        if key < 0:
            return []
        self._attracted.clear()
        found: list[Forward] = []
        for neighbour in self.neighbours:
            if name in self._advert_sent[neighbour]:
                self._advert_sent[neighbour].remove(name)
                for other, (inner, _) in list(self._adverts.items()):
                    found += self._flood(other, inner, neighbour)
                found.append(Forward(neighbour, "unadvertise", (name, key)))
        if hop in self._sent:
            for sent in sorted(self._sent[hop]):
                if not self._attracts(hop, sent):
                    self._sent[hop].remove(sent)
                    found.append(Forward(hop, "unsubscribe", sent))
        return found

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
        """Take in a subscription; from a client each of its subscribers counts."""
        table = self.tables.setdefault(hop, {})
        if hop in self._sent and key in table:
            return []  # neighbours send each number once
        table[key] = table.get(key, 0) + 1
        if table[key] > 1:
            return []
        return [f for neighbour in self.neighbours if neighbour != hop for f in self._expose(neighbour, [key])]

    def unsubscribe(self, key: int, hop: str) -> list[Forward]:
        """Take out a subscription."""
        table = self.tables.get(hop, {})
        if key not in table:
            return []
        table[key] -= 1
        if table[key]:
            return []
        del table[key]
        return [f for neighbour in self.neighbours if neighbour != hop for f in self._withdraw(neighbour, key)]

    def _wanted(self, neighbour: str) -> list[int]:
        """List what anybody but this neighbour subscribed to."""
        return sorted({key for hop, table in self.tables.items() if hop != neighbour for key in table})

    def _expose(self, neighbour: str, keys: Iterable[int]) -> list[Forward]:
        """Forward subscriptions that meet an advertisement of a neighbour, the widest first, the covered ones not."""
        sent, found = self._sent[neighbour], []
        for key in sorted(keys, key=lambda one: (len(self.catalogue.above(one)), one)):
            if self._attracts(neighbour, key) and not self.catalogue.covers_any(sent, key):
                sent.add(key)
                found.append(Forward(neighbour, "subscribe", key))
        return found

    def _withdraw(self, neighbour: str, key: int) -> list[Forward]:
        sent = self._sent[neighbour]
        if key not in sent or any(key in t for hop, t in self.tables.items() if hop != neighbour):
            return []
        sent.remove(key)
        below = [k for k in self._wanted(neighbour) if k not in sent and key in self.catalogue.above(k)]
        return [*self._expose(neighbour, below), Forward(neighbour, "unsubscribe", key)]
