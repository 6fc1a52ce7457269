"""A federation in virtual time: brokers with queues, an overlay that routes by content, and the balancing actors.

The data path is brought up to date whenever an actor looks (see `broker`); everything that controls travels
hop by hop as publications of its own, ahead of the data, and is counted by class at every broker that receives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.actor import Actor, Received
from evenflow.federation import messages as m
from evenflow.federation.catalogue import Catalogue
from evenflow.federation.edge import EdgeBroker
from evenflow.federation.routing import Forward, Routing
from evenflow.federation.subscriber import Broken, Connect, Depart, Subscriber
from evenflow.sim.broker import Broker, HeadBroker, Model
from evenflow.sim.kernel import Simulation
from evenflow.sim.network import Network, Partition
from evenflow.subscriptions.language import Publication, matches, parse_subscription
from evenflow.subscriptions.press import Arrived

CLIENTS, SELF = "clients", "self"
IntArray = npt.NDArray[np.int64]
SETTLE_S = 1.0  # a moved subscriber's path is set up by then, whatever way it takes
BROKEN_S = 2.0  # after which a subscriber knows that its broker crashed
LOOK_S = 0.25  # how often a sampling broker's matches are handed to PRESS
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


class Spec(NamedTuple):
    """One broker of a federation; a head has no ``head``."""

    name: str
    cluster: str
    head: str | None
    mhz: float
    memory_mb: float
    mbps: float


class Stay(NamedTuple):
    """A subscriber was served by a broker from one place of the broker's stream to another."""

    subscriber: str
    key: int
    broker: str
    first: int  # places in the broker's list of matched publications
    last: int | None
    since: float = 0.0
    until: float | None = None
    path: int = -1  # the source's first order number after the subscription had reached it


class Replay(NamedTuple):
    """A subscriber was given what the source had published after one order number up to another."""

    subscriber: str
    key: int
    after: int
    until: int
    at: float = 0.0
    owed_since: float = 0.0  # when the gap opened; until it is filled the subscriber forgets no number


def kinds_of(kinds: Sequence[tuple[int, ...]], keys: int) -> list[IntArray]:
    """Turn the matches round: for each subscription the kinds of publication that match it."""
    lengths = np.fromiter(map(len, kinds), dtype=np.int64, count=len(kinds))
    flat = np.fromiter((key for found in kinds for key in found), dtype=np.int64, count=int(lengths.sum()))
    order = np.argsort(flat, kind="stable")
    bounds = np.searchsorted(flat[order], np.arange(keys + 1))
    owner = np.repeat(np.arange(len(kinds)), lengths)[order]
    return [owner[begin:end] for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


class Federation(Simulation):
    """Runs a federation.

    Parameters
    ----------
    seed, trace, network
        As for every simulation; faults apply to every hop of what controls.
    specs
        The brokers; the head of the first is where publishers are.
    links
        Pairs of heads that are connected.
    catalogue
        Holds the numbers of all data subscriptions; those of control are added behind them.
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
        specs: Sequence[Spec],
        links: Iterable[tuple[str, str]],
        catalogue: Catalogue,
        kinds: tuple[tuple[int, ...], ...],
        seconds: float,
        *,
        model: Model | None = None,
        move_s: float = 0.1,
        wait_out: bool = True,
        network: Network | None = None,
        trace: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        super().__init__(seed, network, trace)
        self.specs = {spec.name: spec for spec in specs}
        self.catalogue, self.keys, self.move_s = catalogue, len(catalogue), move_s
        self.kinds, self.wait_out = kinds, wait_out
        self.seconds = seconds
        model = model or Model()
        self.brokers: dict[str, Broker] = {
            s.name: (Broker if s.head else HeadBroker)(
                s.name, s.mhz, s.memory_mb, s.mbps, model, kinds, self.keys, int(seconds) + 600
            )
            for s in specs
        }
        pairs = [*links, *((s.head, s.name) for s in specs if s.head)]
        self.neighbours: dict[str, list[str]] = {s.name: [] for s in specs}
        for one, other in pairs:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self.routing = {name: Routing(catalogue, near) for name, near in self.neighbours.items()}
        self.source = next(s.name for s in specs if not s.head)
        self.order = self._downward()
        self.received: Counter[str] = Counter()
        self.received_at: list[Counter[str]] = [Counter() for _ in range(int(seconds) // 10 + 61)]
        self.stays: dict[tuple[str, str], Stay] = {}
        self.past_stays: list[Stay] = []
        self.subscriber_of: dict[str, Subscriber] = {}
        self.down: set[str] = set()
        self._control_keys: list[int] = []
        self._control_memo: dict[tuple[str, str], tuple[int, ...]] = {}
        self._move_at: dict[str, float] = {}
        self._lives: dict[str, int] = {}
        self._redirect = self.chance("redirect")
        self.carry_out[Depart] = self._depart
        self.carry_out[m.Listen] = self._listen
        self.carry_out[m.Unlisten] = self._unlisten
        self._feed: tuple[Sequence[float], Sequence[int]] = ((), ())
        self._fed, self._advanced = 0, -1.0
        self._times, self._which = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._orders: dict[int, IntArray] = {}
        self._kinds_of = kinds_of(kinds, self.keys)
        self.replays: list[Replay] = []
        self.replayed = 0
        self._batch: tuple[tuple[str, int], npt.NDArray[np.bool_]] = (("", 0), np.zeros(0, dtype=bool))

    def _downward(self) -> list[str]:
        """Order the brokers away from the publishers, and tell each head who is further away."""
        order, seen = [self.source], {self.source}
        for name in order:
            broker = self.brokers[name]
            for near in self.neighbours[name]:
                if near not in seen:
                    seen.add(near)
                    order.append(near)
                    assert isinstance(broker, HeadBroker)
                    broker.down.append((self.routing[name].tables[near], self.brokers[near]))
        return order

    # -- building -------------------------------------------------------------------------------

    def publish(self, times: Sequence[float], kinds: Sequence[int]) -> None:
        """Let publications be sent to the source's head: their times, ascending, and their kinds."""
        self._feed = (times, kinds)
        self._times, self._which = np.array(times), np.array(kinds, dtype=np.int64)

    def start(self, actors: Mapping[str, Callable[[], Actor]]) -> None:
        """Advertise and subscribe what controls, then start the balancing actors."""
        for name in self.order:
            self._announce(name)
        for name, build in actors.items():
            self.add(name, lambda build=build, name=name: Measuring(self, name, build()))  # type: ignore[misc]

    def _announce(self, name: str) -> None:
        """Advertise and subscribe what one broker needs for balancing."""
        for topic, text in ADVERTS.items():
            advert = f"{name}/{topic}/{self._lives.get(name, 0)}"
            self._spread(name, self.routing[name].advertise(advert, self._control_key(text), SELF))
        self._lives[name] = self._lives.get(name, 0) + 1
        spec = self.specs[name]
        self._hear(name, f"[class,eq,'LB_CONTROL'],[brokerID,eq,'{name}']")
        self._hear(name, f"[class,eq,'LOCAL_PIE'],[clusterID,eq,'{spec.cluster}']")
        for near in self.neighbours[name]:
            if spec.head is None and self.specs[near].head is None:
                self._hear(name, f"[class,eq,'GLOBAL_PIE'],[clusterID,eq,'{self.specs[near].cluster}']")

    def advertise(self, name: str, text: str) -> None:
        """Let a publisher at the source's head advertise."""
        key = self._advert_key(text)
        self._receive(self.source, "advertisement")
        self._spread(self.source, self.routing[self.source].advertise(name, key, CLIENTS))

    def join(self, name: str, key: int, broker: str) -> None:
        """Let a new subscriber come to a broker."""
        subscriber = Subscriber(key)
        self.subscriber_of[name] = subscriber
        self.add(name, lambda: subscriber)
        self.deliver(name, Connect(broker))

    def _control_key(self, text: str) -> int:
        key = self.catalogue.key(parse_subscription(text))
        if key not in self._control_keys:
            self._control_keys.append(key)
            self._control_memo.clear()
        return key

    def _advert_key(self, text: str) -> int:
        return self.catalogue.key(parse_subscription(text))

    def _hear(self, name: str, text: str) -> None:
        self._spread(name, self.routing[name].subscribe(self._control_key(text), SELF))

    def _listen(self, name: str, command: m.Listen) -> None:
        topic = "LOCAL_PIE" if command.scope == "local" else "GLOBAL_PIE"
        key = self._control_key(f"[class,eq,'{topic}'],[clusterID,eq,'{command.cluster}']")
        if key not in self.routing[name].tables.get(SELF, {}):
            self._spread(name, self.routing[name].subscribe(key, SELF))

    def _unlisten(self, name: str, command: m.Unlisten) -> None:
        key = self._control_key(f"[class,eq,'LOCAL_PIE'],[clusterID,eq,'{command.cluster}']")
        self._spread(name, self.routing[name].unsubscribe(key, SELF))

    # -- the data path --------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Bring every queue up to now, the ones near the publishers first."""
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

    def fail(self, name: str) -> None:
        """Crash an edge broker: its queues, its tables and its actor are gone; its subscribers notice."""
        self.advance(self.now)
        broker, head = self.brokers[name], self.specs[name].head
        assert head is not None, "heads do not crash here"
        broker.crashed_at, broker.dead = self.now, True
        broker.queue.clear()
        broker.sample = None
        self.down.add(name)
        if name in self.cells:
            self.crash(name)
        self._spread(head, self.routing[head].unlink(name))
        self._resize_head(head)
        for subscriber, place in [pair for pair in self.stays if pair[1] == name]:
            stay = self.stays.pop((subscriber, place))._replace(last=len(broker.popped), until=self.now)
            self.past_stays.append(stay)
            broker.counts[stay.key] -= 1
            broker.clients -= 1
            self.at(self.now + BROKEN_S, lambda s=subscriber, stay=stay: self._reconnect(s, stay))  # type: ignore[misc]
        for subscriber, actor in self.subscriber_of.items():
            if actor.moving and actor.moving[1] == name:
                self.deliver(subscriber, Broken(name))
        broker.resize()

    def restore(self, name: str) -> None:
        """Start a crashed edge broker again, empty."""
        if name not in self.down:
            return
        head = self.specs[name].head
        assert head is not None
        self.down.discard(name)
        self.brokers[name].dead = False
        self.routing[name] = Routing(self.catalogue, [head])
        self._spread(head, self.routing[head].link(name))
        self._announce(name)
        if name in self.cells:
            self.restart(name)

    def _reconnect(self, subscriber: str, stay: Stay) -> None:
        """Find a new home for a subscriber whose broker crashed; the source replays what it missed."""
        self._find_home(subscriber, stay.broker)
        if stay.path >= 0:  # otherwise nothing had been promised yet
            after = self.brokers[stay.broker].popped[stay.last - 1] if stay.last else -1
            assert stay.until is not None
            self._replay_home(subscriber, stay.key, max(after, stay.path - 1), stay.until)

    def _find_home(self, subscriber: str, broken: str) -> None:
        """Tell a subscriber that a broker is gone, and redirect it to a random other one if it has none left."""
        actor, cell = self.subscriber_of[subscriber], self.cells[subscriber]
        self._obey(cell, actor.handle(Broken(broken), self.now))
        able = [name for name, spec in self.specs.items() if spec.head and name not in self.down]
        if actor.home is None and able:
            self._obey(cell, actor.handle(Connect(self._redirect.choice(able)), self.now))
        elif actor.home is None:
            self.at(self.now + BROKEN_S, lambda: self._find_home(subscriber, broken))

    def _replay_home(self, subscriber: str, key: int, after: int, since: float) -> None:
        """Fill a gap as soon as the subscriber's home is reached by all that is published from then on."""
        home = self.subscriber_of[subscriber].home
        stay = self.stays.get((subscriber, home)) if home is not None else None
        cut = max((cut.until for cut in self.network.partitions), default=0.0)
        if stay is None or stay.path < 0 or cut > self.now:
            again = max(self.now, cut) + SETTLE_S
            self.at(again, lambda: self._replay_home(subscriber, key, after, since))
            return
        self.advance(self.now)
        self._replay(subscriber, key, after, stay.broker, since)

    def partition(self, inside: Iterable[str], until: float) -> None:
        """Cut the links between some brokers and the others: what controls is lost, data waits."""
        names = frozenset(inside)
        self.network.partitions.append(Partition(names, until))
        self.advance(self.now)
        for name in names:
            if any(near not in names for near in self.neighbours[name]) and name != self.source:
                broker = self.brokers[name]
                broker.free = max(broker.free, until)

    def _resize_head(self, name: str) -> None:
        broker, routing = self.brokers[name], self.routing[name]
        broker.routed = sum(key < self.keys for near in routing.neighbours for key in routing.tables[near])
        broker.resize()

    # -- what controls --------------------------------------------------------------------------

    def post(self, sender: str, to: str, message: object) -> None:
        """Send one message: between brokers as a publication, to and from subscribers over their connection."""
        if to in self.subscriber_of:
            self._order_subscriber(sender, to, message)
        elif sender in self.subscriber_of:
            self.at(self.now, lambda: self._hear_subscriber(sender, to, message))
        else:
            publication = self._publication(to)
            keys = self._control_matches(publication)
            self.at(self.now, lambda: self._carry(sender, SELF, keys, sender, to, message))

    def _publication(self, to: str) -> Publication:
        if to.startswith(m.PIE_LOCAL):
            return {"class": "LOCAL_PIE", "clusterID": to.removeprefix(m.PIE_LOCAL)}
        if to.startswith(m.PIE_GLOBAL):
            return {"class": "GLOBAL_PIE", "clusterID": to.removeprefix(m.PIE_GLOBAL)}
        return {"class": "LB_CONTROL", "brokerID": to}

    def _control_matches(self, publication: Publication) -> tuple[int, ...]:
        place = tuple(map(str, publication.values()))
        known = self._control_memo.get(place)  # type: ignore[arg-type]  # always two values
        if known is None:
            known = tuple(k for k in self._control_keys if matches(self.catalogue.subscription(k), publication))
            self._control_memo[place] = known  # type: ignore[index]
        return known

    def _receive(self, broker: str, kind: str) -> None:
        self.received[kind] += 1
        place = min(int(self.now) // 10, len(self.received_at) - 1)
        self.received_at[place][kind] += 1

    def _carry(self, at: str, source: str, keys: Sequence[int], sender: str, to: str, message: object) -> None:
        """Handle a control publication at one broker."""
        if at in self.down:
            return
        if source != SELF:  # what a broker says itself it does not receive
            self._receive(at, m.class_of(to, message))
        hops = self.routing[at].hops(keys, source if source != SELF else "")
        if sender == at:
            hops = [hop for hop in hops if hop != SELF]  # nobody listens to itself
        leaves = self.brokers[at].charge(self.now, len(hops))
        for hop in hops:
            if hop == SELF:
                self.at(leaves, lambda: self.deliver(at, Received(sender, message)))
            elif hop in self.specs:
                for delay in self.network.copies(at, hop, message, self.now):
                    self.at(leaves + delay, lambda hop=hop: self._carry(hop, at, keys, sender, to, message))  # type: ignore[misc]

    def _spread(self, at: str, forwards: Iterable[Forward]) -> None:
        """Pass routing changes on, hop by hop; they are not lost, as links between brokers are ordered streams."""
        for forward in forwards:
            leaves = self.brokers[at].charge(self.now, 1)
            for cut in self.network.partitions:
                if cut.until > self.now and cut.cuts(at, forward.to):
                    leaves = max(leaves, cut.until)
            self.at(leaves, lambda f=forward: self._routed(f.to, at, f))  # type: ignore[misc]

    def _routed(self, at: str, source: str, forward: Forward) -> None:
        if at in self.down:
            return
        what = forward.what
        control = "/" in what[0] if isinstance(what, tuple) else what >= self.keys  # publishers' names have no slash
        self._receive(at, f"control_{VERBS[forward.verb]}" if control else VERBS[forward.verb])
        self.advance(self.now)
        routing = self.routing[at]
        if isinstance(forward.what, tuple):
            name, key = forward.what
            found = routing.advertise(name, key, source) if forward.verb == "advertise" else routing.unadvertise(name)
        elif forward.verb == "subscribe":
            found = routing.subscribe(forward.what, source)
        else:
            found = routing.unsubscribe(forward.what, source)
        if self.specs[at].head is None:
            self._resize_head(at)
        self._spread(at, found)

    # -- subscribers ----------------------------------------------------------------------------

    def _order_subscriber(self, sender: str, to: str, message: object) -> None:
        leaves = self.brokers[sender].charge(self.now, 1)
        if isinstance(message, m.MoveOrder):
            leaves = max(leaves, self._move_at.get(sender, 0.0) + self.move_s)
            self._move_at[sender] = leaves
        for delay in self.network.copies(sender, to, message, self.now):
            self.at(leaves + delay, lambda: self.deliver(to, Received(sender, message)))

    def _hear_subscriber(self, sender: str, broker: str, message: object) -> None:
        if broker in self.down:
            if isinstance(message, m.Subscribe):  # nobody answers: the same as a broken connection
                self.at(self.now + BROKEN_S, lambda: self._find_home(sender, broker))
            return
        self.advance(self.now)
        self._receive(broker, m.class_of(broker, message))
        self.brokers[broker].charge(self.now, 0)
        key = self.subscriber_of[sender].key
        if isinstance(message, m.Subscribe):
            self._serve(sender, key, broker)
        elif isinstance(message, m.Unsubscribe):
            self._drop(sender, key, broker)
        self.deliver(broker, Received(sender, message))

    def _serve(self, subscriber: str, key: int, name: str) -> None:
        if (subscriber, name) in self.stays:
            return
        broker = self.brokers[name]
        broker.counts[key] += 1
        broker.clients += 1
        broker.resize()
        self.stays[subscriber, name] = Stay(subscriber, key, name, len(broker.popped), None, self.now)
        since = self.now
        self.at(since + SETTLE_S, lambda: self._path_set(subscriber, name, since))
        self._spread(name, self.routing[name].subscribe(key, CLIENTS))

    def _path_set(self, subscriber: str, name: str, since: float) -> None:
        """Promise what is published from now on; behind a cut the subscription waits, and so does the promise."""
        stay = self.stays.get((subscriber, name))
        cut = max((cut.until for cut in self.network.partitions), default=0.0)
        if stay is None or stay.since != since:
            return  # it left, and perhaps came back
        if cut > self.now:
            self.at(cut + SETTLE_S, lambda: self._path_set(subscriber, name, since))
        else:
            self.advance(self.now)
            source = self.brokers[self.source].popped
            self.stays[subscriber, name] = stay._replace(path=source[-1] + 1 if source else 0)

    def _drop(self, subscriber: str, key: int, name: str) -> None:
        stay = self.stays.pop((subscriber, name), None)
        if stay is None:
            return
        broker = self.brokers[name]
        broker.counts[key] -= 1
        broker.clients -= 1
        broker.resize()
        self.past_stays.append(stay._replace(last=len(broker.popped), until=self.now))
        self._spread(name, self.routing[name].unsubscribe(key, CLIENTS))
        if self.subscriber_of[subscriber].home != name and stay.path >= 0:
            self._replay_home(subscriber, key, broker.popped[-1] if broker.popped else -1, self.now)

    def _depart(self, subscriber: str, command: Depart) -> None:
        """Unsubscribe after the broker's queuing and matching delays (section 3.4.2), or at once.

        The delays are those of the message that was matched last, so with a growing backlog they are too short;
        what the broker had not matched by then is replayed.
        """
        broker = self.brokers[command.broker]
        self.advance(self.now)
        wait = broker.last_wait + broker.delay + max(0.0, broker.out_free - self.now) if self.wait_out else 0.0
        self.at(self.now + max(SETTLE_S, wait), lambda: self._unsubscribe(subscriber, command.broker))

    def _unsubscribe(self, subscriber: str, name: str) -> None:
        self.advance(self.now)
        actor = self.subscriber_of[subscriber]
        if name == actor.home or (actor.moving and actor.moving[1] == name):
            return  # it came back before it had left
        self.post(subscriber, name, m.Unsubscribe())

    def _replay(self, subscriber: str, key: int, after: int, home: str, since: float) -> None:
        """Let the source's head deliver, through the new home, what the old one had not matched yet.

        The head keeps what was published lately, and matches it against the one subscription.
        """
        source, broker = self.brokers[self.source], self.brokers[home]
        until = source.popped[-1] if source.popped else -1
        if until <= after:
            return
        self.replays.append(Replay(subscriber, key, after, until, self.now, since))
        missing = self.orders_of(key)
        begin, end = np.searchsorted(missing, (after + 1, until + 1)).tolist()
        copies = end - begin
        if not copies:
            return
        per_match = broker.model.per_subscription / source.mhz
        source.free = max(source.free, self.now) + (until - after) * per_match
        second = int(self.now)
        source.busy[second] += (until - after) * per_match
        # Catching up uses the bandwidth that is left over, so it shows in delays and not in the utilisation.
        spare = max(0.05, 1.0 - sum(broker.output[max(0, second - 30) : second]) / (30 * broker.bandwidth))
        took = copies * broker.send_s / spare
        broker.delivered[second] += copies
        broker.delivery_s[second] += copies * (self.now + took / 2) - float(self._times[missing[begin:end]].sum())
        self.replayed += copies
        self._count_replayed(home, missing[begin:end])

    def _count_replayed(self, home: str, orders: IntArray) -> None:
        """Count the messages that the new home receives: one for all who leave together and miss it."""
        place = (home, int(self.now))
        if self._batch[0] != place:
            self._batch = (place, np.zeros(len(self._times), dtype=bool))
        mask = self._batch[1]
        self.received["replay"] += int((~mask[orders]).sum())
        mask[orders] = True

    @property
    def published(self) -> int:
        """How many publications there are in the whole run."""
        return len(self._times)

    def orders_of(self, key: int) -> IntArray:
        """Give the order numbers of all publications that match a subscription, ascending."""
        known = self._orders.get(key)
        if known is None:
            mask = np.zeros(len(self.kinds) + 1, dtype=bool)
            mask[self._kinds_of[key]] = True
            known = self._orders[key] = np.flatnonzero(mask[self._which])
        return known


class Measuring:
    """Measures a broker before each event that its actor handles, and shows a sampling actor what was matched."""

    def __init__(self, world: Federation, name: str, actor: Any) -> None:
        self.world, self.name, self.actor = world, name, actor

    def handle(self, event: Any, now: float) -> list[Any]:
        """Measure, then hand the event on."""
        world, broker = self.world, self.world.brokers[self.name]
        if event is LOOK:
            return self._look(now)
        world.advance(now)
        self.actor.handle(m.Measured(broker.measure(now)), now)
        commands: list[Any] = self.actor.handle(event, now)
        if isinstance(self.actor, EdgeBroker) and self.actor.sampling and broker.sample is None:
            broker.sample = []
            world.at(now + LOOK_S, lambda: world.deliver(self.name, LOOK))
        return commands

    def _look(self, now: float) -> list[Any]:
        world, broker = self.world, self.world.brokers[self.name]
        if not self.actor.sampling or broker.sample is None:
            broker.sample = None
            return []
        world.advance(now)
        taken, broker.sample = broker.sample, []
        commands: list[Any] = []
        if taken:
            self.actor.handle(m.Measured(broker.measure(now)), now)
            commands = self.actor.handle(Arrived(taken), now)
        if self.actor.sampling:
            world.at(now + LOOK_S, lambda: world.deliver(self.name, LOOK))
        else:
            broker.sample = None
        return commands


LOOK = object()
