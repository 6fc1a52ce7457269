"""Simulates linked brokers in virtual time: their queues, routing by content, and the balancing actors.

The queues (`data_path`) are simulated up to the present whenever an actor needs a load; `control_messages` delivers
the messages between brokers, `service` those of subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from evenflow.actor import Actor
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.routing import Routing
from evenflow.brokers.subscriber import Depart, Subscriber
from evenflow.experiments.brokers.control_messages import ControlMessages
from evenflow.experiments.brokers.data_path import Broker, BrokerModel, HeadBroker
from evenflow.experiments.brokers.service import Service
from evenflow.sim.kernel import Simulation
from evenflow.sim.network import Network, Partition
from evenflow.subscriptions.press import Arrived

LOOK_S = 0.25  # how often a sampling broker's matches are handed to PRESS


class BrokerSpec(NamedTuple):
    """One simulated broker; a head has no ``head``."""

    name: str
    cluster: str
    head: str | None
    mhz: float
    memory_mb: float
    mbps: float


class Overlay(Simulation):
    """Simulates an overlay of brokers.

    Parameters
    ----------
    seed, trace, network
        As for every simulation; faults apply to every hop of control messages.
    specs
        The brokers; publishers connect to the first head.
    links
        Pairs of heads that are connected.
    catalogue
        The numbers of all data subscriptions; control subscriptions get higher ones.
    kinds
        For each kind of publication the data subscriptions it matches.
    seconds
        The length of the run.
    move_s
        Seconds that a broker spends on each migrating subscriber.
    wait_out
        Whether a subscriber that moved waits for its old broker's queues before it unsubscribes there.
    """

    def __init__(
        self,
        seed: int,
        specs: Sequence[BrokerSpec],
        links: Iterable[tuple[str, str]],
        catalogue: Catalogue,
        kinds: tuple[tuple[int, ...], ...],
        seconds: float,
        *,
        model: BrokerModel | None = None,
        move_s: float = 0.1,
        wait_out: bool = True,
        network: Network | None = None,
        trace: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        super().__init__(seed, network, trace)
        self.specs = {spec.name: spec for spec in specs}
        keys, model = len(catalogue), model or BrokerModel()
        self.brokers: dict[str, Broker] = {
            s.name: (Broker if s.head else HeadBroker)(
                s.name, s.mhz, s.memory_mb, s.mbps, model, kinds, keys, int(seconds) + 600
            )
            for s in specs
        }
        pairs = [*links, *((s.head, s.name) for s in specs if s.head)]
        self.neighbours: dict[str, list[str]] = {s.name: [] for s in specs}
        for one, other in pairs:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self.source = next(s.name for s in specs if not s.head)
        self.subscriber_of: dict[str, Subscriber] = {}
        self.down: set[str] = set()
        self.control = ControlMessages(self, catalogue, seconds)
        self.service = Service(self, kinds, keys, move_s, wait_out=wait_out)
        self.order = self._downward()
        self.carry_out[Depart] = self.service.depart
        self.carry_out[m.Listen] = self.control.listen
        self.carry_out[m.Unlisten] = self.control.unlisten
        self._feed: tuple[Sequence[float], Sequence[int]] = ((), ())
        self._fed, self._advanced = 0, -1.0

    def _downward(self) -> list[str]:
        """Return the brokers by distance from the publishers, and tell each head which are farther away."""
        order, seen = [self.source], {self.source}
        for name in order:
            broker = self.brokers[name]
            for near in self.neighbours[name]:
                if near not in seen:
                    seen.add(near)
                    order.append(near)
                    assert isinstance(broker, HeadBroker)
                    broker.down.append((self.control.routing[name].tables[near], self.brokers[near]))
        return order

    # -- building -------------------------------------------------------------------------------

    def publish(self, times: Sequence[float], kinds: Sequence[int]) -> None:
        """Set the publications that reach the publishers' head: their times, ascending, and their kinds."""
        self._feed = (times, kinds)
        self.service.publish(times, kinds)

    def start(self, actors: Mapping[str, Callable[[], Actor]]) -> None:
        """Send the control subscriptions, then start the balancing actors."""
        for name in self.order:
            self.control.announce(name)
        for name, build in actors.items():
            self.add(name, lambda build=build, name=name: Measuring(self, name, build()))  # type: ignore[misc]

    def advertise(self, name: str, text: str) -> None:
        """Add a publisher's advertisement at the publishers' head."""
        self.control.advertise(self.source, name, text)

    def join(self, name: str, key: int, broker: str) -> None:
        """Add a new subscriber at a broker."""
        self.service.join(name, key, broker)

    # -- the data path --------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Simulate every queue up to ``now``, starting near the publishers."""
        if now <= self._advanced:
            return
        self._advanced = now
        times, kinds = self._feed
        source, fed = self.brokers[self.source], self._fed
        if fed < len(times) and times[fed] <= now:
            while fed < len(times) and times[fed] <= now:
                at = times[fed]
                source.queue.append((at, fed, kinds[fed], at))
                source.arrived[int(at)] += 1
                fed += 1
            self._fed = fed
        for name in self.order:
            self.brokers[name].advance(now)

    # -- faults ---------------------------------------------------------------------------------

    def fail(self, name: str) -> None:
        """Crash an edge broker: it loses its queues, tables and actor, and its subscribers notice."""
        self.advance(self.now)
        broker, head = self.brokers[name], self.specs[name].head
        assert head is not None, "heads do not crash here"
        broker.crashed_at, broker.dead = self.now, True
        broker.queue.clear()
        broker.sample = None
        self.down.add(name)
        if name in self.cells:
            self.crash(name)
        self.control.spread(head, self.control.routing[head].unlink(name))
        self.control.resize_head(head)
        self.service.abandon(name)

    def restore(self, name: str) -> None:
        """Start a crashed edge broker again, empty."""
        if name not in self.down:
            return
        head = self.specs[name].head
        assert head is not None
        self.down.discard(name)
        self.brokers[name].dead, self.brokers[name].crashed_at = False, None
        routing = self.control.routing
        routing[name] = Routing(self.control.catalogue, [head])
        self.control.spread(head, routing[head].link(name))
        self.control.announce(name)
        if name in self.cells:
            self.restart(name)

    def partition(self, inside: Iterable[str], until: float) -> None:
        """Cut the links between some brokers and the others: control messages are lost, data waits."""
        names = frozenset(inside)
        self.network.partitions.append(Partition(names, until))
        self.advance(self.now)
        for name in names:
            if any(near not in names for near in self.neighbours[name]) and name != self.source:
                broker = self.brokers[name]
                broker.free = max(broker.free, until)

    def cut_until(self) -> float:
        """Return when the last partition heals; a past time if there is none."""
        return max((cut.until for cut in self.network.partitions), default=0.0)

    # -- messages -------------------------------------------------------------------------------

    def post(self, sender: str, to: str, message: object) -> None:
        """Send one message: between brokers as a publication, to and from subscribers over their connection."""
        if to in self.subscriber_of:
            self.service.order(sender, to, message)
        elif sender in self.subscriber_of:
            self.at(self.now, lambda: self.service.hear(sender, to, message))
        else:
            self.control.publish(sender, to, message)

    def tell(self, name: str, event: object) -> None:
        """Hand an event to an actor immediately."""
        cell = self.cells[name]
        if cell.actor is not None:
            self._obey(cell, cell.actor.handle(event, self.now))


class Measuring:
    """Measures a broker before each event of its actor, and gives a sampling actor the matched publications."""

    def __init__(self, overlay: Overlay, name: str, actor: Any) -> None:
        self.overlay, self.name, self.actor = overlay, name, actor

    def handle(self, event: Any, now: float) -> list[Any]:
        """Measure the broker, then hand the event to its actor."""
        overlay, broker = self.overlay, self.overlay.brokers[self.name]
        if event is LOOK:
            return self._look(now)
        overlay.advance(now)
        self.actor.handle(m.Measured(broker.measure(now)), now)
        commands: list[Any] = self.actor.handle(event, now)
        if isinstance(self.actor, EdgeBroker) and self.actor.sampling and broker.sample is None:
            broker.sample = []
            overlay.at(now + LOOK_S, lambda: overlay.deliver(self.name, LOOK))
        return commands

    def _look(self, now: float) -> list[Any]:
        overlay, broker = self.overlay, self.overlay.brokers[self.name]
        if not self.actor.sampling or broker.sample is None:
            broker.sample = None
            return []
        overlay.advance(now)
        taken, broker.sample = broker.sample, []
        commands: list[Any] = []
        if taken:
            self.actor.handle(m.Measured(broker.measure(now)), now)
            commands = self.actor.handle(Arrived(taken), now)
        if self.actor.sampling:
            overlay.at(now + LOOK_S, lambda: overlay.deliver(self.name, LOOK))
        else:
            broker.sample = None
        return commands


LOOK = object()
