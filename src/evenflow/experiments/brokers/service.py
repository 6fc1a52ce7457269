"""Serves the simulated subscribers: which broker serves whom, joining, leaving, moving, and replays.

Once a subscriber's first path is set up, every matching publication reaches it. When a broker stops serving it, on
request or by a crash, the publishers' head replays what this broker had not matched, through the new broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.actor import Received
from evenflow.brokers import messages as m
from evenflow.brokers.subscriber import Broken, Connect, Depart, Subscriber
from evenflow.experiments.brokers.control_messages import CLIENTS

if TYPE_CHECKING:
    from evenflow.experiments.brokers.overlay import Overlay

IntArray = npt.NDArray[np.int64]
SETTLE_S = 1.0  # the path of a new subscription is set up after this time
LOWER = 0.9  # no subscriber is redirected to a broker above this ratio
BROKEN_S = 2.0  # a subscriber notices a crash after this time


class ServicePeriod(NamedTuple):
    """A broker served a subscriber, from one position of its matched publications to another."""

    subscriber: str
    key: int
    broker: str
    first: int  # positions in the broker's list of matched publications
    last: int | None
    since: float = 0.0
    until: float | None = None
    path: int = -1  # the first sequence number after the subscription reached the publishers' head


class Replay(NamedTuple):
    """A subscriber received the publications after one sequence number up to another."""

    subscriber: str
    key: int
    after: int
    until: int
    at: float = 0.0
    owed_since: float = 0.0  # since when; until the replay the subscriber keeps single numbers


def kinds_of(kinds: Sequence[tuple[int, ...]], keys: int) -> list[IntArray]:
    """Return for each subscription the kinds of publication that match it."""
    lengths = np.fromiter(map(len, kinds), dtype=np.int64, count=len(kinds))
    flat = np.fromiter(
        (key for keys_of_kind in kinds for key in keys_of_kind), dtype=np.int64, count=int(lengths.sum())
    )
    order = np.argsort(flat, kind="stable")
    bounds = np.searchsorted(flat[order], np.arange(keys + 1))
    owner = np.repeat(np.arange(len(kinds)), lengths)[order]
    return [owner[begin:end] for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


class Service:
    """The subscribers of a simulated overlay.

    Parameters
    ----------
    overlay
        The simulated brokers.
    kinds, keys
        For each kind of publication the data subscriptions it matches, and how many of these there are.
    move_s
        Seconds that a broker spends on each migrating subscriber.
    wait_out
        Whether a subscriber that moved waits for its old broker's queues before it unsubscribes there.
    """

    def __init__(
        self, overlay: Overlay, kinds: Sequence[tuple[int, ...]], keys: int, move_s: float, *, wait_out: bool
    ) -> None:
        self.overlay, self.move_s, self.wait_out = overlay, move_s, wait_out
        self.periods: dict[tuple[str, str], ServicePeriod] = {}
        self.past_periods: list[ServicePeriod] = []
        self.replays: list[Replay] = []
        self.replayed = 0
        self._kinds, self._kinds_of = len(kinds), kinds_of(kinds, keys)
        self._orders: dict[int, IntArray] = {}
        self._times, self._which = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._move_at: dict[str, float] = {}
        self._redirect = overlay.chance("redirect")
        self._batch: tuple[tuple[str, int], npt.NDArray[np.bool_]] = (("", 0), np.zeros(0, dtype=bool))

    def publish(self, times: Sequence[float], kinds: Sequence[int]) -> None:
        """Set what will be published."""
        self._times, self._which = np.array(times), np.array(kinds, dtype=np.int64)

    @property
    def published(self) -> int:
        """The number of publications in the whole run."""
        return len(self._times)

    def orders_of(self, key: int) -> IntArray:
        """Return the sequence numbers of all publications that match a subscription, ascending."""
        known = self._orders.get(key)
        if known is None:
            mask = np.zeros(self._kinds + 1, dtype=bool)
            mask[self._kinds_of[key]] = True
            known = self._orders[key] = np.flatnonzero(mask[self._which])
        return known

    # -- orders and answers ---------------------------------------------------------------------

    def order(self, sender: str, to: str, message: object) -> None:
        """Send a broker's message to a subscriber."""
        overlay = self.overlay
        leaves = overlay.brokers[sender].charge(overlay.now, 1)
        if isinstance(message, m.MoveOrder):
            leaves = max(leaves, self._move_at.get(sender, 0.0) + self.move_s)
            self._move_at[sender] = leaves
        for delay in overlay.network.copies(sender, to, message, overlay.now):
            overlay.at(leaves + delay, lambda: overlay.deliver(to, Received(sender, message)))

    def hear(self, sender: str, broker: str, message: object) -> None:
        """Deliver a subscriber's message to a broker."""
        overlay = self.overlay
        if broker in overlay.down:
            if isinstance(message, m.Subscribe):  # no answer: the same as a broken connection
                overlay.at(overlay.now + BROKEN_S, lambda: self._find_home(sender, broker))
            return
        overlay.advance(overlay.now)
        overlay.control.count(m.class_of(broker, message))
        key = overlay.subscriber_of[sender].key
        if isinstance(message, m.Subscribe):
            self._serve(sender, key, broker)
        elif isinstance(message, m.Unsubscribe):
            self._drop(sender, key, broker)
        overlay.deliver(broker, Received(sender, message))

    # -- joining and leaving --------------------------------------------------------------------

    def join(self, name: str, key: int, broker: str) -> None:
        """Add a new subscriber at a broker; a head redirects it (section 3.2)."""
        if self.overlay.specs[broker].head is None:
            broker = self._edge_of(broker)
        subscriber = Subscriber(key)
        self.overlay.subscriber_of[name] = subscriber
        self.overlay.add(name, lambda: subscriber)
        self.overlay.deliver(name, Connect(broker))

    def _edge_of(self, head: str) -> str:
        """Return a random edge broker of a head that is not overloaded, or any if all are."""
        overlay = self.overlay
        edges = [name for name, spec in overlay.specs.items() if spec.head == head and name not in overlay.down]
        able = [name for name in edges if not overlay.brokers[name].measure(overlay.now).above(LOWER)]
        return self._redirect.choice(able or edges)

    def _serve(self, subscriber: str, key: int, name: str) -> None:
        if (subscriber, name) in self.periods:
            return
        overlay = self.overlay
        broker, since = overlay.brokers[name], overlay.now
        broker.counts[key] += 1
        broker.clients += 1
        broker.resize()
        self.periods[subscriber, name] = ServicePeriod(subscriber, key, name, len(broker.popped), None, since)
        overlay.at(since + SETTLE_S, lambda: self._path_set(subscriber, name, since))
        overlay.control.spread(name, overlay.control.routing[name].subscribe(key, CLIENTS))

    def _path_set(self, subscriber: str, name: str, since: float) -> None:
        """Note that the path is set up; across a partition that is after it heals."""
        overlay = self.overlay
        period = self.periods.get((subscriber, name))
        if period is None or period.since != since:
            return  # it left, and possibly came back
        cut = overlay.cut_until()
        if cut > overlay.now:
            overlay.at(cut + SETTLE_S, lambda: self._path_set(subscriber, name, since))
        else:
            overlay.advance(overlay.now)
            source = overlay.brokers[overlay.source].popped
            self.periods[subscriber, name] = period._replace(path=source[-1] + 1 if source else 0)

    def _drop(self, subscriber: str, key: int, name: str) -> None:
        period = self.periods.pop((subscriber, name), None)
        if period is None:
            return
        overlay = self.overlay
        broker = overlay.brokers[name]
        broker.counts[key] -= 1
        broker.clients -= 1
        broker.resize()
        self.past_periods.append(period._replace(last=len(broker.popped), until=overlay.now))
        overlay.control.spread(name, overlay.control.routing[name].unsubscribe(key, CLIENTS))
        if overlay.subscriber_of[subscriber].home != name and period.path >= 0:
            self._replay_home(subscriber, key, broker.popped[-1] if broker.popped else -1, overlay.now)

    def depart(self, subscriber: str, command: Depart) -> None:
        """Unsubscribe after the broker's queuing and matching delays (section 3.4.2), or at once.

        The delays are those of the message that was matched last, so with a growing backlog they are too short;
        what the broker has not matched by then is replayed.
        """
        overlay = self.overlay
        broker = overlay.brokers[command.broker]
        overlay.advance(overlay.now)
        wait = broker.last_wait + broker.delay + max(0.0, broker.out_free - overlay.now) if self.wait_out else 0.0
        overlay.at(overlay.now + max(SETTLE_S, wait), lambda: self._unsubscribe(subscriber, command.broker))

    def _unsubscribe(self, subscriber: str, name: str) -> None:
        self.overlay.advance(self.overlay.now)
        actor = self.overlay.subscriber_of[subscriber]
        if name == actor.home or (actor.moving and actor.moving[1] == name):
            return  # it came back in the meantime
        self.overlay.post(subscriber, name, m.Unsubscribe())

    # -- crashes --------------------------------------------------------------------------------

    def abandon(self, name: str) -> None:
        """Let the subscribers of a crashed broker notice the crash."""
        overlay = self.overlay
        broker = overlay.brokers[name]
        for subscriber, place in [pair for pair in self.periods if pair[1] == name]:
            period = self.periods.pop((subscriber, place))._replace(last=len(broker.popped), until=overlay.now)
            self.past_periods.append(period)
            broker.counts[period.key] -= 1
            broker.clients -= 1
            overlay.at(overlay.now + BROKEN_S, lambda s=subscriber, period=period: self._reconnect(s, period))  # type: ignore[misc]
        for subscriber, actor in overlay.subscriber_of.items():
            if actor.moving and actor.moving[1] == name:
                overlay.deliver(subscriber, Broken(name))
        broker.resize()

    def _reconnect(self, subscriber: str, period: ServicePeriod) -> None:
        """Find a new broker for a subscriber whose broker crashed, and replay what it missed."""
        self._find_home(subscriber, period.broker)
        if period.path >= 0:  # otherwise no path was set up yet
            after = self.overlay.brokers[period.broker].popped[period.last - 1] if period.last else -1
            assert period.until is not None
            self._replay_home(subscriber, period.key, max(after, period.path - 1), period.until)

    def _find_home(self, subscriber: str, broken: str) -> None:
        """Tell a subscriber that a broker crashed, and redirect it to a random one if no other serves it."""
        overlay = self.overlay
        actor = overlay.subscriber_of[subscriber]
        overlay.tell(subscriber, Broken(broken))
        able = [name for name, spec in overlay.specs.items() if spec.head and name not in overlay.down]
        if actor.home is None and able:
            overlay.tell(subscriber, Connect(self._redirect.choice(able)))
        elif actor.home is None:
            overlay.at(overlay.now + BROKEN_S, lambda: self._find_home(subscriber, broken))

    # -- replaying ------------------------------------------------------------------------------

    def _replay_home(self, subscriber: str, key: int, after: int, since: float) -> None:
        """Replay as soon as the path to the subscriber's broker is set up."""
        overlay = self.overlay
        home = overlay.subscriber_of[subscriber].home
        period = self.periods.get((subscriber, home)) if home is not None else None
        cut = overlay.cut_until()
        if period is None or period.path < 0 or cut > overlay.now:
            again = max(overlay.now, cut) + SETTLE_S
            overlay.at(again, lambda: self._replay_home(subscriber, key, after, since))
            return
        overlay.advance(overlay.now)
        self._replay(subscriber, key, after, period.broker, since)

    def _replay(self, subscriber: str, key: int, after: int, home: str, since: float) -> None:
        """Let the publishers' head deliver, through the new broker, what the old one had not matched.

        The head keeps recent publications and matches them with the one subscription.
        """
        overlay = self.overlay
        source, broker, now = overlay.brokers[overlay.source], overlay.brokers[home], overlay.now
        until = source.popped[-1] if source.popped else -1
        if until <= after:
            return
        self.replays.append(Replay(subscriber, key, after, until, now, since))
        missing = self.orders_of(key)
        begin, end = np.searchsorted(missing, (after + 1, until + 1)).tolist()
        copies = end - begin
        if not copies:
            return
        per_match = broker.model.per_subscription / source.mhz
        source.free = max(source.free, now) + (until - after) * per_match
        second = int(now)
        source.busy[second] += (until - after) * per_match
        # A replay uses spare bandwidth only, so it affects delays and not the output ratio.
        spare = max(0.05, 1.0 - sum(broker.output[max(0, second - 30) : second]) / (30 * broker.bandwidth))
        took = copies * broker.send_s / spare
        broker.delivered[second] += copies
        broker.delivery_s[second] += copies * (now + took / 2) - float(self._times[missing[begin:end]].sum())
        self.replayed += copies
        self._count_replayed(home, missing[begin:end])

    def _count_replayed(self, home: str, orders: IntArray) -> None:
        """Count the messages that the new broker receives: one for all subscribers that miss it in the same second."""
        place = (home, int(self.overlay.now))
        if self._batch[0] != place:
            self._batch = (place, np.zeros(len(self._times), dtype=bool))
        mask = self._batch[1]
        self.overlay.control.received["replay"] += int((~mask[orders]).sum())
        mask[orders] = True
