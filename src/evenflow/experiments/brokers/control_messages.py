"""Delivers control messages hop by hop, ahead of the data, and counts them at every broker that receives them.

Advertisements, subscriptions and their withdrawals use the same links; they are not lost, because links are ordered streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from evenflow.actor import Received
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.routing import Forward, Routing
from evenflow.subscriptions.language import Publication, matches, parse_subscription

if TYPE_CHECKING:
    from evenflow.experiments.brokers.overlay import Overlay

CLIENTS, SELF = "clients", "self"
BIN_S = 10  # seconds over which messages are counted
VERBS = {
    "advertise": "advertisement",
    "unadvertise": "unadvertisement",
    "subscribe": "subscription",
    "unsubscribe": "unsubscription",
}
ADVERTS = {
    "LB_CONTROL": "[class,eq,'LB_CONTROL'],[brokerID,isPresent,'']",
    "LOCAL_PIE": "[class,eq,'LOCAL_PIE'],[clusterID,isPresent,'']",
    "GLOBAL_PIE": "[class,eq,'GLOBAL_PIE'],[clusterID,isPresent,'']",
}


class ControlMessages:
    """The routing tables of all brokers, and the control messages between them.

    Parameters
    ----------
    overlay
        The simulated brokers.
    catalogue
        The numbers of all data subscriptions; control subscriptions get higher ones.
    """

    def __init__(self, overlay: Overlay, catalogue: Catalogue, seconds: float) -> None:
        self.overlay, self.catalogue, self.keys = overlay, catalogue, len(catalogue)
        self.routing = {name: Routing(catalogue, near) for name, near in overlay.neighbours.items()}
        self.received: Counter[str] = Counter()
        self.received_at: list[Counter[str]] = [Counter() for _ in range(int(seconds) // BIN_S + 61)]
        self._control_keys: list[int] = []
        self._control_memo: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._lives: dict[str, int] = {}

    def count(self, kind: str) -> None:
        """Count a message that a broker received now."""
        self.received[kind] += 1
        place = min(int(self.overlay.now) // BIN_S, len(self.received_at) - 1)
        self.received_at[place][kind] += 1

    # -- who receives what ----------------------------------------------------------------------

    def announce(self, name: str) -> None:
        """Send the advertisements and subscriptions that one broker needs for balancing."""
        for topic, text in ADVERTS.items():
            advert = f"{name}/{topic}/{self._lives.get(name, 0)}"
            self.spread(name, self.routing[name].advertise(advert, self._control_key(text), SELF))
        self._lives[name] = self._lives.get(name, 0) + 1
        specs = self.overlay.specs
        spec = specs[name]
        self._hear(name, f"[class,eq,'LB_CONTROL'],[brokerID,eq,'{name}']")
        self._hear(name, f"[class,eq,'LOCAL_PIE'],[clusterID,eq,'{spec.cluster}']")
        for near in self.overlay.neighbours[name]:
            if spec.head is None and specs[near].head is None:
                self._hear(name, f"[class,eq,'GLOBAL_PIE'],[clusterID,eq,'{specs[near].cluster}']")

    def advertise(self, broker: str, name: str, text: str) -> None:
        """Add a publisher's advertisement."""
        key = self.catalogue.key(parse_subscription(text))
        self.count("advertisement")
        self.spread(broker, self.routing[broker].advertise(name, key, CLIENTS))

    def listen(self, name: str, command: m.Listen) -> None:
        """Subscribe a broker to the load information of a cluster's brokers."""
        key = self._control_key(f"[class,eq,'LOCAL_PIE'],[clusterID,eq,'{command.cluster}']")
        if key not in self.routing[name].tables.get(SELF, {}):
            self.spread(name, self.routing[name].subscribe(key, SELF))

    def unlisten(self, name: str, command: m.Unlisten) -> None:
        """Unsubscribe a broker from the load information of a cluster's brokers."""
        key = self._control_key(f"[class,eq,'LOCAL_PIE'],[clusterID,eq,'{command.cluster}']")
        self.spread(name, self.routing[name].unsubscribe(key, SELF))

    def _hear(self, name: str, text: str) -> None:
        self.spread(name, self.routing[name].subscribe(self._control_key(text), SELF))

    def _control_key(self, text: str) -> int:
        key = self.catalogue.key(parse_subscription(text))
        if key not in self._control_keys:
            self._control_keys.append(key)
            self._control_memo.clear()
        return key

    # -- control messages ----------------------------------------------------------------------

    def publish(self, sender: str, to: str, message: object) -> None:
        """Send a broker's message as a publication."""
        keys = self._control_matches(_publication(to))
        self.overlay.at(self.overlay.now, lambda: self._deliver(sender, SELF, keys, sender, to, message))

    def _control_matches(self, publication: Publication) -> tuple[int, ...]:
        place = tuple(map(str, publication.values()))
        known = self._control_memo.get(place)
        if known is None:
            known = tuple(k for k in self._control_keys if matches(self.catalogue.subscription(k), publication))
            self._control_memo[place] = known
        return known

    def _deliver(self, at: str, source: str, keys: Sequence[int], sender: str, to: str, message: object) -> None:
        """Handle a control publication at one broker."""
        overlay = self.overlay
        if at in overlay.down:
            return
        if source != SELF:  # a broker does not receive its own message
            self.count(m.class_of(to, message))
        hops = self.routing[at].hops(keys, source if source != SELF else "")
        if sender == at:
            hops = [hop for hop in hops if hop != SELF]  # nor does its actor
        leaves = overlay.brokers[at].charge(overlay.now, len(hops))
        for hop in hops:
            if hop == SELF:
                overlay.at(leaves, lambda: overlay.deliver(at, Received(sender, message)))
            elif hop in overlay.specs:
                for delay in overlay.network.copies(at, hop, message, overlay.now):
                    overlay.at(leaves + delay, lambda hop=hop: self._deliver(hop, at, keys, sender, to, message))  # type: ignore[misc]

    # -- routing --------------------------------------------------------------------------------

    def spread(self, at: str, forwards: Iterable[Forward]) -> None:
        """Forward routing changes to the next hop; across a partition they wait until it heals."""
        overlay = self.overlay
        for forward in forwards:
            leaves = overlay.brokers[at].send(overlay.now, 1)
            for cut in overlay.network.partitions:
                if cut.until > overlay.now and cut.cuts(at, forward.to):
                    leaves = max(leaves, cut.until)
            overlay.at(leaves, lambda f=forward: self._routed(f.to, at, f))  # type: ignore[misc]

    def _routed(self, at: str, source: str, forward: Forward) -> None:
        overlay = self.overlay
        if at in overlay.down:
            return
        what = forward.what
        control = "/" in what[0] if isinstance(what, tuple) else what >= self.keys  # publishers' names have no slash
        self.count(f"control_{VERBS[forward.verb]}" if control else VERBS[forward.verb])
        overlay.advance(overlay.now)
        routing = self.routing[at]
        if isinstance(what, tuple):
            name, key = what
            forwards = (
                routing.advertise(name, key, source) if forward.verb == "advertise" else routing.unadvertise(name)
            )
        elif forward.verb == "subscribe":
            forwards = routing.subscribe(what, source)
        else:
            forwards = routing.unsubscribe(what, source)
        if overlay.specs[at].head is None:
            self.resize_head(at)
        self.spread(at, forwards)

    def resize_head(self, name: str) -> None:
        """Update the number of data subscriptions that a head matches for its neighbours."""
        broker, routing = self.overlay.brokers[name], self.routing[name]
        broker.routed = sum(key < self.keys for near in routing.neighbours for key in routing.tables[near])
        broker.resize()


def _publication(to: str) -> Publication:
    if to.startswith(m.PIE_LOCAL):
        return {"class": "LOCAL_PIE", "clusterID": to.removeprefix(m.PIE_LOCAL)}
    if to.startswith(m.PIE_GLOBAL):
        return {"class": "GLOBAL_PIE", "clusterID": to.removeprefix(m.PIE_GLOBAL)}
    return {"class": "LB_CONTROL", "brokerID": to}
