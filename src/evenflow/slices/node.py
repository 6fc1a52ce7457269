"""A processing node: takes the items of its slices, processes each once, and measures what that costs.

What it has committed survives a crash; everything else (items not yet processed, caches) may vanish,
because publishers keep an item until the commit is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evenflow.actor import Note, Received, Save, Send, Started, Wake, Woken
from evenflow.measure import Monitor
from evenflow.slices.custody import Custody, Held
from evenflow.slices.handoff import State
from evenflow.slices.ledger import publisher_of
from evenflow.slices.messages import Ack, Action, Cargo, Item, Leave, Notification, Receipt
from evenflow.slices.publisher import publisher_name
from evenflow.slices.readers import Listen, Readers
from evenflow.slices.settings import NodeSettings
from evenflow.slices.topics import Topic

CACHING = frozenset({State.HOLDING, State.RELEASED, State.AWAITING, State.INSTALLED})


class ProcessingNode(Custody):
    """One processing node of DPSLB (thesis, sections 3.3, 3.4, 4.3).

    Parameters
    ----------
    name
        Under which messages reach it.
    topics
        What it reads, each with its listener.
    settings
        See :class:`NodeSettings`; the number of slices must be the same everywhere.
    monitor
        Operation ranges and conditions that cause notifications.
    balancer
        Whom it tells about itself.
    probes
        Further properties to monitor by name (disk, temperature …), each a function that reads its value.
    meter
        Measures the cost that arrived for the slices it owns since the last sample;
        by default that of the items it took. At a scale where single items are not simulated, an experiment gives it.
    """

    def __init__(
        self,
        name: str,
        topics: list[Topic],
        settings: NodeSettings,
        monitor: Monitor | None = None,
        balancer: str = "balancer",
        probes: Mapping[str, Callable[[], float]] | None = None,
        meter: Callable[[list[int], float, float], dict[int, float]] | None = None,
    ) -> None:
        super().__init__(name, settings, balancer)
        self.topics = {topic.name: topic for topic in topics}
        self.monitor = monitor
        self.probes = dict(probes or {})
        self.meter = meter
        self.pending: dict[Any, Item] = {}  # taken, to be processed with the next commit
        self.readers = Readers(settings.overlap_s)
        self.leaving = False
        self._ticking = False
        self._overrun = 0.0  # cost that the last tick spent beyond its time
        self._busy = 0.0
        self._arrived: dict[int, float] = {}
        self._sampled_at = 0.0

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take one event."""
        kind = type(event)
        if kind is Received:
            message = event.message
            what = type(message)
            if what is Item:
                return self._take(message, now)
            if what is Action:
                return self.act(message, now)
            if what is Cargo:
                return self.receive(event.sender, message, now)
            if what is Receipt:
                return self.receipt(message.session, now)
            if what is Leave:
                self.leaving = True
                return [Note({"kind": "node", "at": now, "node": self.name, "step": "left"})]
            return []
        if kind is Woken:
            return self._woken(event.name, now)
        if kind is Started:
            return self._start(event.saved, now)
        return []

    def _start(self, saved: Any, now: float) -> list[Any]:
        out = self.restore(saved, now)
        out += self.listen(now) or [Listen(self._accepted(now))]
        self._sampled_at = now
        out.append(self._notification(self._properties(1.0), {}, "joined"))
        out.append(Wake(now + self.settings.monitor_s, "monitor"))
        return out

    def _woken(self, name: Any, now: float) -> list[Any]:
        if name == "tick":
            return self._commit(now)
        if name == "monitor":
            return self._sample(now)
        if name == "reader":
            return [Listen(self._accepted(now))]
        what, subject = name
        return self.drained(subject, now) if what == "drained" else self.ship_again(subject, now)

    # -- items ----------------------------------------------------------------------------------

    def _take(self, item: Item, now: float) -> list[Any]:
        """Process, cache, show as correlating, or ignore an item (section 4.3)."""
        topic = self.topics.get(item.topic)
        if topic is None:
            return []
        if not topic.wants(item):
            # nobody will process it: only the owner's word ends its publisher's offers
            owned = topic.balance and item.slice in self.held and self.held[item.slice].phase is State.OWNING
            return [_ack(item)] if owned else []
        if not topic.balance:
            topic.listener.on_data(item, None)
            return []
        settings = self.settings
        out: list[Any] = []
        if settings.acks == "receipt":  # the transport's word, whatever happens next: the thesis's reliability
            out.append(_ack(item))
        if settings.filter == "reader" and not self.readers.copies(item.slice, now):
            return out
        held = self.held.get(item.slice)
        if held is None or held.phase is State.SHIPPED:
            if settings.filter == "node":
                topic.listener.on_correlating_data(item)
        elif held.phase is State.OWNING or settings.ablate == "buffer":
            out += self.accept(item, now)
        elif held.phase in CACHING:
            held.cache.setdefault(item.id, item)
        return out

    def accept(self, item: Item, now: float, *, known: bool = True) -> list[Any]:
        """Process an item with the next commit; without ``known`` even if it was processed before."""
        if known and item.id in self.held[item.slice].ledger:  # processed before, the acknowledgement was lost
            return [_ack(item)]
        key: Any = item.id if known else ("again", item.id, len(self.pending))
        if key not in self.pending:
            self.pending[key] = item
            self._arrived[item.slice] = self._arrived.get(item.slice, 0.0) + item.cost
        return self._tick(now)

    def hold(self, slices: frozenset[int]) -> None:
        """Put the items of these slices that are taken but not committed into the caches."""
        for key in [k for k, item in self.pending.items() if item.slice in slices]:
            item = self.pending.pop(key)
            self.held[item.slice].cache.setdefault(item.id, item)

    def _tick(self, now: float) -> list[Any]:
        if self._ticking or not self.pending:
            return []
        self._ticking = True
        return [Wake(now + self.settings.commit_s, "tick")]

    def _commit(self, now: float) -> list[Any]:
        """Process what one tick has time for, make effects and ids durable, then acknowledge."""
        self._ticking = False
        touched: dict[int, list[int]] = {}
        acks: dict[int, list[int]] = {}
        for item in self._affordable():
            held = self.held.get(item.slice)
            if held is None or (held.phase is not State.OWNING and self.settings.ablate != "buffer"):
                continue  # cannot happen while slices are held properly: leaving empties the queue first
            self._process(item, held)
            touched.setdefault(item.slice, []).append(item.id)
            acks.setdefault(publisher_of(item.id), []).append(item.id)
        out: list[Any] = []
        if touched:
            out.append(Save({f"slice/{s}": self.durable(s) for s in touched}))
            if self.settings.record:
                out.append(Note({"kind": "commit", "at": now, "node": self.name, "slices": touched}))
            if self.settings.acks == "commit":
                out += [Send(publisher_name(p), Ack(tuple(ids))) for p, ids in acks.items()]
        return out + self._tick(now)

    def _affordable(self) -> list[Item]:
        """Take from the queue what the node's speed allows in one tick."""
        budget = self.settings.speed * self.settings.commit_s - self._overrun
        spent = 0.0
        keys = []
        for key, item in self.pending.items():
            if spent >= budget:
                break
            spent += item.cost
            keys.append(key)
        self._overrun = max(0.0, spent - budget)
        self._busy += spent / self.settings.speed
        return [self.pending.pop(key) for key in keys]

    def _process(self, item: Item, held: Held) -> None:
        held.state[item.topic] = self.topics[item.topic].listener.on_data(item, held.state.get(item.topic))
        held.ledger.add(item.id)
        held.ledger.settle(publisher_of(item.id), item.settled)

    # -- readers and monitoring -----------------------------------------------------------------

    def listen(self, now: float) -> list[Any]:
        """Open a reader with a new filter beside the old one, if the filter changes."""
        if self.settings.filter == "node":
            return []
        wanted = frozenset(s for s, h in self.held.items() if h.phase not in (State.RELEASED, State.SHIPPED))
        closing = self.readers.change(wanted, now)
        return [] if closing is None else [Listen(self._accepted(now)), Wake(closing, "reader")]

    def _accepted(self, now: float) -> frozenset[int] | None:
        return None if self.settings.filter == "node" else self.readers.accepted(now)

    def _sample(self, now: float) -> list[Any]:
        """Measure what happened since the last sample, and notify (sections 4.1 and 4.3.1)."""
        if self.leaving:
            return []
        period = now - self._sampled_at
        if self.meter is not None:
            self._arrived = self.meter(list(self.held), self._sampled_at, now)
            self._busy = sum(self._arrived.values()) / self.settings.speed
        loads = {
            s: self._arrived.get(s, 0.0) / period
            for s, held in self.held.items()
            if held.phase is State.OWNING and held.since <= self._sampled_at  # part of a period measures too little
        }
        properties = self._properties(period)
        self._sampled_at, self._busy = now, 0.0
        self._arrived = {}
        # One notification, whatever happened: the balancer would take the same loads told twice for two samples.
        events = self.monitor.observe(properties, now) if self.monitor is not None else ()
        out: list[Any] = []
        if events or self.settings.notify == "every":
            out.append(self._notification(properties, loads, ", ".join(e.name for e in events) or "sample"))
        return [*out, Wake(now + self.settings.monitor_s, "monitor")]

    def _properties(self, period: float) -> dict[str, float]:
        cached = sum(len(h.cache) for h in self.held.values())
        return {
            "cpu": min(100.0, 100.0 * self._busy / period),
            "memory": float(len(self.pending) + cached),
            "queue": float(len(self.pending)),
            "slices": float(sum(h.phase is State.OWNING for h in self.held.values())),
            **{name: probe() for name, probe in self.probes.items()},
        }

    def _notification(self, properties: dict[str, float], loads: dict[int, float], why: str) -> Send:
        settings = self.settings
        return Send(self.balancer, Notification(self.name, settings.slices, properties, loads, settings.speed, why))


def _ack(item: Item) -> Send:
    return Send(publisher_name(publisher_of(item.id)), Ack((item.id,)))
